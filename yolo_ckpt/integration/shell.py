"""The host's command line with our flags in it: ours are taken out, the rest goes on as it is."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from yolo_ckpt.errors import RequestError, SettingsError
from yolo_ckpt.integration import compat, register_default
from yolo_ckpt.integration.children import flags_of_environment
from yolo_ckpt.integration.configs import config_file
from yolo_ckpt.integration.refusals import refusal
from yolo_ckpt.settings import Settings, split_flags


@contextlib.contextmanager
def planned(arguments: Sequence[str], *, ckpt: str | None) -> Iterator[list[str]]:
    """The host's own arguments out of `arguments`, with the callback registered for what ours ask for.

    Our flags may stand among the arguments, in any spelling that the host takes (`ckpt=full`, `--ckpt=full`,
    `ckpt = full`), or in the file that `cfg=` names; the command line wins.

    Args:
        arguments: What stands after the name of the command.
        ckpt: The mode when no flag is given; None: only a resumed run is planned, if it had a plan.

    Raises:
        SettingsError: A flag has no value or a wrong one, or stands where nothing is trained.
        RequestError: `cfg=` names a file with flags of ours that cannot be read.
    """
    ours, rest = split_flags(merge_equals(arguments))
    with contextlib.ExitStack() as stack:
        in_file, rest = _without_ours(rest, stack)
        ours = {**in_file, **ours}
        trains = "train" in rest or "mode=train" in rest
        if ours and not trains:
            name, value = next(iter(ours.items()))
            raise SettingsError(f"{name}={value} works in training; use it with train, or leave it out")
        if trains:
            _register({**flags_of_environment(), **ours}, ckpt)
            rest = _sized_for_processes(rest)
        yield rest


def _register(flags: dict[str, str], ckpt: str | None) -> None:
    """Plan the trainings of this process."""
    if not flags and ckpt is None:
        register_default(Settings(ckpt="auto"), resumed_only=True)
        return
    register_default(Settings.from_mapping({"ckpt": ckpt or "auto", **flags}))


def _sized_for_processes(arguments: list[str]) -> list[str]:
    """The arguments with a number for `imgsz=native` where several processes have to be told it."""
    texts = dict(argument.lstrip("-").split("=", 1) for argument in arguments if "=" in argument)
    if texts.get("imgsz", "").lower() != "native":
        return arguments
    given = {**texts, "fraction": yaml.safe_load(texts.get("fraction", "1.0"))}
    from yolo_ckpt.integration.native import size_for_processes

    imgsz = size_for_processes(given)
    return arguments if imgsz is None else [*arguments, f"imgsz={imgsz}"]  # the last one counts


def merge_equals(arguments: Sequence[str]) -> list[str]:
    """`["ckpt", "=", "full"]`, `["ckpt=", "full"]` and `["ckpt", "=full"]` as `["ckpt=full"]`; other arguments, whose
    quoting and brackets are the host's affair, as they are."""
    merged: list[str] = []
    for argument in arguments:
        last = merged[-1].lstrip("-") if merged else ""
        waiting = last.startswith("ckpt") and last.endswith("=")
        if waiting or (argument.startswith("=") and last.startswith("ckpt") and "=" not in last):
            merged[-1] += argument
        else:
            merged.append(argument)
    return merged


def _without_ours(arguments: list[str], stack: contextlib.ExitStack) -> tuple[dict[str, str], list[str]]:
    """Our keys in the file of a `cfg=` argument, and the arguments with a copy of that file without them. The file may
    be one that comes with this package, by its name."""
    found: dict[str, str] = {}
    rest = []
    for argument in arguments:
        name, _, value = argument.lstrip("-").partition("=")
        value = config_file(value) if name == "cfg" else value
        content = _read(Path(value)) if name == "cfg" else {}
        ours = {key: text for key, text in content.items() if str(key).startswith("ckpt")}
        if not ours:
            rest.append(f"cfg={value}" if name == "cfg" else argument)
            continue
        found.update(ours)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="yolo-ckpt-")))
        copy = folder / Path(value).name
        copy.write_text(yaml.safe_dump({k: v for k, v in content.items() if k not in ours}), encoding="utf-8")
        rest.append(f"cfg={copy}")
    return found, rest


def _read(path: Path) -> dict[str, str]:
    """The keys in a configuration file; nothing when there is no such file, which the host will say better."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError:
        return {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise RequestError(f"cfg={path} is not a YAML file ({str(error).splitlines()[0]}); correct it") from error
    return content if isinstance(content, dict) else {}


def train(arguments: Sequence[str]) -> None:
    """`yolo-ckpt train ARGUMENTS`: the host's own entry point, with a plan.

    Raises:
        RequestError: A flag of ours is wrong, or the host cannot take an argument.
    """
    with planned(["train", *arguments], ckpt="auto") as rest:
        try:
            compat.run_entrypoint(rest)
        except Exception as error:
            message = refusal(error)
            if message is None:
                raise
            raise RequestError(f"ultralytics: {message}") from error
