"""The shell: parse, call, exit code. 0 done, 1 failed, 2 the request is wrong."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from yolo_ckpt import datacommands, helptext
from yolo_ckpt.errors import RequestError, SettingsError, YoloCkptError
from yolo_ckpt.reporting.progress import progress
from yolo_ckpt.settings import Settings, flags, options_in, split_flags, whole_number

_CLOUD_ONLY = {"imgsz": "640", "batch": "1", "data": "DATA.yaml", "epochs": ""}
_HELP = {"help", "-h", "--help"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in _HELP:
        print(helptext.PROGRAM, end="")
        return 0
    if arguments[0] in ("version", "-V", "--version"):
        import yolo_ckpt

        print(yolo_ckpt.__version__)
        return 0
    command = COMMANDS.get(arguments[0])
    if command is not None and _HELP & set(arguments[1:]):
        print(helptext.COMMANDS[arguments[0]], end="")
        return 0
    try:
        if command is None:
            raise SettingsError(f"{arguments[0]} is not a command; use one of {', '.join(COMMANDS)}")
        return command(arguments[1:])
    except RequestError as error:
        print(f"yolo-ckpt: {error}", file=sys.stderr)
        return 2
    except YoloCkptError as error:
        print(f"yolo-ckpt: {error}", file=sys.stderr)
        return 1


def _train(arguments: Sequence[str]) -> int:
    from yolo_ckpt.integration import shell

    shell.train(arguments)
    return 0


def _enable(arguments: Sequence[str]) -> int:
    from yolo_ckpt.integration import hook

    _nothing_more("enable", arguments)
    done = "enabled" if hook.enable() else "was enabled already"
    print(f"{done}: `yolo train ... ckpt=full` works in {hook.folder()}; `yolo-ckpt disable` takes it off")
    return 0


def _disable(arguments: Sequence[str]) -> int:
    from yolo_ckpt.integration import hook

    _nothing_more("disable", arguments)
    print(f"{'disabled' if hook.disable() else 'was not enabled'}: `yolo` is stock in {hook.folder()}")
    return 0


def _status(arguments: Sequence[str]) -> int:
    from yolo_ckpt.integration import hook
    from yolo_ckpt.integration.versions import installed

    _nothing_more("status", [a for a in arguments if a not in ("format=json", "format=table")])
    versions = installed()
    record = {
        "enabled": hook.is_enabled(),
        "environment": str(hook.folder()),
        "startup_us": round(hook.startup_us(), 1),
        "versions": versions,
    }
    if "format=json" in arguments:
        print(json.dumps(record))
        return 0
    print(f"{'enabled' if record['enabled'] else 'not enabled'} in {record['environment']}")
    print(f"start-up cost where enabled: about {record['startup_us']:.0f} microseconds of each Python start")
    print(", ".join(f"{name} {version}" for name, version in versions.items()))
    return 0


def _nothing_more(command: str, arguments: Sequence[str]) -> None:
    if arguments:
        raise SettingsError(f"{command} takes no arguments, got {' '.join(arguments)}")


def _plan(arguments: Sequence[str]) -> int:
    request = _Request.parse(arguments, imgsz="640", batch="1", gpu="", amp="", objects="30", plot="", data="")
    if request.options["data"] and not request.native:
        raise SettingsError(f"data={request.options['data']} is for imgsz=native; leave it out, or give that")
    from yolo_ckpt.integration import look

    with progress("simulating training steps"):
        found = look.look(
            request.model("meta"), request.settings, request.target(), imgsz=request.imgsz, batch=request.batch,
            objects=whole_number("objects", request.options["objects"]),
        )  # fmt: skip
    if request.options["plot"]:
        _plot(Path(request.options["plot"]), found)
    if request.json:
        print(json.dumps(_record(found)))
    else:
        from yolo_ckpt.reporting.tables import print_look

        print_look(found)
    return 0


def _plot(path: Path, look: Any) -> None:
    from yolo_ckpt.reporting.plots import plot_forecast

    try:
        plot_forecast(
            path, look.plan, look.stock, look.planned, extra_bytes=look.extra_bytes, budget_bytes=look.budget_bytes
        )
    except (OSError, ValueError) as error:
        raise SettingsError(f"plot={path} cannot be written ({error}); give a path that ends with .png") from error


def _fit(arguments: Sequence[str]) -> int:
    request = _Request.parse(arguments, gpu="", amp="", objects="30", **_CLOUD_ONLY)
    from yolo_ckpt.integration import look

    objects = whole_number("objects", request.options["objects"])
    if request.options["gpu"] == "cloud":
        return _fit_cloud(request, objects)
    unused = next((name for name, default in _CLOUD_ONLY.items() if request.options[name] != default), None)
    if unused is not None:
        raise SettingsError(f"{unused}={request.options[unused]} works with gpu=cloud; leave it out, or ask plan")
    with progress("simulating") as tell:
        found = look.fit(request.model("meta"), request.target(), objects=objects, tell=tell)
    if request.json:
        print(json.dumps([_record(fit) for fit in found]))
    else:
        from yolo_ckpt.reporting.tables import print_fit

        print_fit(found)
    return 0


def _fit_cloud(request: _Request, objects: int) -> int:
    from yolo_ckpt.integration import look
    from yolo_ckpt.reporting.tables import print_cloud

    options = request.options
    arguments = {name: options[name] for name in ("model", "data", "epochs") if options[name]}
    with progress("simulating") as tell:
        found = look.cloud(
            request.model("meta"), amp=options["amp"], imgsz=request.imgsz, batch=request.batch, objects=objects,
            arguments=arguments, tell=tell,
        )  # fmt: skip
    if request.json:
        print(json.dumps(_record(found)))
    else:
        print_cloud(found)
    return 0


def _verify(arguments: Sequence[str]) -> int:
    request = _Request.parse(arguments, imgsz="320", batch="2", device="cpu")
    import yolo_ckpt

    model = request.model(request.options["device"])
    made = yolo_ckpt.plan(model, imgsz=request.imgsz, batch=request.batch, **request.flags)
    report = yolo_ckpt.verify(model, made, imgsz=request.imgsz, batch=request.batch)
    if request.json:
        print(json.dumps(_record(report)))
    else:
        print(
            f"ckpt={made.ckpt}: {report.tensors} tensors equal to the last bit after {report.steps} training steps on "
            f"{report.device}, {report.stages} stages planned"
        )
    return 0


def _bench(arguments: Sequence[str]) -> int:
    request = _Request.parse(
        arguments, imgsz="640", batch="2", device="cpu", amp="fp32", objects="30", rounds="5", ways=""
    )
    from yolo_ckpt.integration import bench
    from yolo_ckpt.reporting.tables import print_bench

    options = request.options
    with progress("running") as tell:
        results = bench.run_request(
            request.model("cpu"), request.settings, ways=options["ways"], imgsz=request.imgsz, batch=request.batch,
            objects=whole_number("objects", options["objects"]), rounds=whole_number("rounds", options["rounds"]),
            device=options["device"], amp=options["amp"], tell=tell,
        )  # fmt: skip
    if request.json:
        print(json.dumps([_record(result) for result in results]))
    else:
        print_bench(results)
    return 0


def _record(value: Any) -> Any:
    return dataclasses.asdict(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Request:
    """The `key=value` arguments of a command that works on a model without training it."""

    settings: dict[str, str]
    options: dict[str, str]
    json: bool
    imgsz: int = 0
    batch: int = 0
    native: bool = False

    @property
    def flags(self) -> dict[str, str]:
        """The flags as arguments of `yolo_ckpt.plan`."""
        return {"budget" if name == "ckpt_budget" else name: value for name, value in self.settings.items()}

    def target(self) -> Any:
        """What `gpu=`, `ckpt_budget=` and `amp=` say."""
        from yolo_ckpt.integration.look import Target

        budget = self.settings.get("ckpt_budget")
        return Target.of(gpu=self.options["gpu"], budget=budget, amp=self.options["amp"])

    @classmethod
    def parse(cls, arguments: Sequence[str], **defaults: str) -> _Request:
        """The request in `arguments`; `defaults` name the options that this command knows besides model and format."""
        ours, rest = split_flags(arguments)
        if Settings.from_mapping(ours).ckpt_augment != "none":
            raise SettingsError(f"ckpt_augment={ours['ckpt_augment']} works in training; leave it out here")
        options = options_in(rest, {"model": "", "format": "table", **defaults}, flags())
        if not options["model"]:
            raise SettingsError("model= is missing; give a model such as yolo26n.yaml or a .pt file")
        if options["format"] not in ("table", "json"):
            raise SettingsError(f"format={options['format']} is not known; use table or json")
        native = _take_native(options)
        sizes = {name: whole_number(name, options[name]) for name in ("imgsz", "batch") if name in options}
        return cls(settings=ours, options=options, json=options["format"] == "json", native=native, **sizes)

    def model(self, device: str) -> Any:
        """The model that `model=` names, in train mode on `device`."""
        from yolo_ckpt.integration.models import load_model

        return load_model(self.options["model"], device)


def _take_native(options: dict[str, str]) -> bool:
    """Put the size in the place of `imgsz=native`; False where that was not asked for."""
    native = options.get("imgsz") == "native"
    if native and "data" not in options:
        raise SettingsError("imgsz=native is a data set's, and this command has none; give a number")
    if native and not options["data"]:
        raise SettingsError("imgsz=native is a data set's; name it with data=, or give a number")
    if native:
        from yolo_ckpt.integration.native import native_size_of

        options["imgsz"] = str(native_size_of(options["data"]).imgsz)
    return native


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "train": _train,
    "plan": _plan,
    "fit": _fit,
    "verify": _verify,
    "bench": _bench,
    "check": datacommands.check,
    "convert": datacommands.convert,
    "sample": datacommands.sample,
    "enable": _enable,
    "disable": _disable,
    "status": _status,
}
