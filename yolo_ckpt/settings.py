"""The flags, parsed and checked: one frozen record that travels from the shell, a file or Python to the planner."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.plan import ATTENTION
from yolo_ckpt.units import parse_bytes

MODES = ("off", "selective", "full", "auto")
AUGMENT = ("none", "aerial", "medical", "industrial")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the user asked for.

    Attributes:
        ckpt: `off`, `selective`, `full`, `auto`, or the path of a plan file.
        ckpt_stages: `all`, `backbone`, `neck`, `head`, indices and ranges (`0-8`, `0,2,4`), or class names (`C3k2`),
            separated by commas.
        ckpt_budget: Bytes (`22GiB`), or a share of the free device memory (`75%`, `0.75`). None: 90 % of what is free.
        ckpt_attention: `auto` (fused kernels where the tables of tokens by tokens are large), `stock` (the host's own
            arithmetic), or `fused` (fused kernels everywhere).
        ckpt_augment: The field whose images the training images are varied like: `aerial`, `medical`, `industrial`; or
            `none`, the host's own augmentation.
    """

    ckpt: str = "auto"
    ckpt_stages: str = "all"
    ckpt_budget: str | None = None
    ckpt_attention: str = "auto"
    ckpt_augment: str = "none"

    def __post_init__(self) -> None:
        if self.ckpt not in MODES and not self.ckpt.endswith(".json"):
            raise SettingsError(
                f"ckpt={self.ckpt} is not known{_nearest(self.ckpt, MODES)}; use one of {', '.join(MODES)}, or the "
                f"path of a plan file (.json)"
            )
        if self.plan_file is not None and not self.plan_file.is_file():
            raise SettingsError(f"ckpt={self.ckpt}: there is no such plan file; give the path of a ckpt_plan.json")
        if not self.ckpt_stages.strip(", "):
            raise SettingsError(
                "ckpt_stages is empty; use all, backbone, neck, head, indices such as 0-8, or class names"
            )
        for name, known in (("ckpt_attention", ATTENTION), ("ckpt_augment", AUGMENT)):
            value = getattr(self, name)
            if value not in known:
                raise SettingsError(f"{name}={value} is not known{_nearest(value, known)}; use {', '.join(known)}")
        if self.ckpt_budget is not None:
            check_budget(self.ckpt_budget)

    @property
    def does_anything(self) -> bool:
        """False where training is stock."""
        return self.ckpt != "off" or self.ckpt_augment != "none"

    @property
    def plan_file(self) -> Path | None:
        """The plan file that `ckpt` names, if it names one."""
        return None if self.ckpt in MODES else Path(self.ckpt)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Settings:
        """Settings from flags such as `{"ckpt": "full"}`; values may be strings, numbers or lists.

        Raises:
            SettingsError: A name or a value is wrong.
        """
        known = flags()
        for name in given:
            if name not in known:
                raise SettingsError(f"{name} is not a flag{_nearest(name, known)}; the flags are {', '.join(known)}")
        return cls(**{name: _text(value) for name, value in given.items() if value is not None})


def flags() -> tuple[str, ...]:
    """The names of all flags."""
    return tuple(field.name for field in fields(Settings))


def split_flags(arguments: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Our `key=value` arguments, and everything else in its order. What begins with `ckpt` is ours; a misspelt one is
    reported by `Settings.from_mapping`. As with the host, dashes before and a comma behind do not count.

    Raises:
        SettingsError: A flag stands without a value.
    """
    ours: dict[str, str] = {}
    rest: list[str] = []
    for argument in arguments:
        name, equals, value = argument.lstrip("-").partition("=")
        if not name.startswith("ckpt") or not name.isidentifier():
            rest.append(argument)
        elif equals and value.strip(" ,"):
            ours[name] = value.strip(" ,")
        else:
            raise SettingsError(f"{name} has no value; write {name}=..., for example ckpt=full")
    return ours, rest


def options_in(arguments: Iterable[str], defaults: Mapping[str, str], others: Iterable[str] = ()) -> dict[str, str]:
    """The `key=value` arguments of a command, with `defaults` for those that are missing. Dashes before do not count.

    Args:
        arguments: What stands after the name of the command.
        defaults: Every option that the command knows.
        others: Names for the message, which the command knows besides.

    Raises:
        SettingsError: An argument is none of them.
    """
    options = dict(defaults)
    for argument in arguments:
        name, equals, value = argument.lstrip("-").partition("=")
        if not equals or name not in options:
            raise SettingsError(
                f"{argument} is not known here{_nearest(name, options)}; give {', '.join([*options, *others])} as "
                f"key=value"
            )
        options[name] = value
    return options


def whole_number(name: str, text: str, least: int = 1, most: int | None = None) -> int:
    """The number in `name=text`.

    Raises:
        SettingsError: It is no whole number, or out of range.
    """
    if not text.isdecimal() or int(text) < least or (most is not None and int(text) > most):
        to = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise SettingsError(f"{name}={text} is no whole number {to}")
    return int(text)


def check_budget(text: str) -> float:
    """The budget as a number: below 1 a share of the free memory, else bytes.

    Raises:
        SettingsError: It is neither.
    """
    number = text[:-1] if text.endswith("%") else text
    try:
        value = float(number)
    except ValueError:
        return float(parse_bytes(text, "ckpt_budget"))
    share = value / 100 if text.endswith("%") else value
    if math.isfinite(share) and (0 < share < 1 or (share == 1 and text.endswith("%"))):
        return min(share, 1 - 1e-9)
    if not text.endswith("%") and math.isfinite(value) and value >= 2**20:
        return value
    raise SettingsError(
        f"ckpt_budget={text} is neither a size nor a share of the free memory; write a size such as 22GiB, or a share "
        f"such as 75% or 0.75"
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "auto" if value else "off"
    if isinstance(value, (list, tuple)):
        return ",".join(str(v) for v in value)
    return str(value)


def _nearest(word: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""
