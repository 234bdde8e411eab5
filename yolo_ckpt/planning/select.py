"""Which stages `ckpt_stages` names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.planning.fixed import StageFacts

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def select_stages(text: str, stages: Sequence[StageFacts]) -> frozenset[int]:
    """The indices that `ckpt_stages=text` names, for example `all`, `backbone`, `0-8`, `0,2,4` or `C3k2,Conv`.

    Raises:
        SettingsError: A part names no stage of this model.
    """
    selected: set[int] = set()
    for part in filter(None, (p.strip() for p in text.strip("[]()").split(","))):
        found = _part(part, stages)
        if not found:
            kinds = ", ".join(sorted({s.kind for s in stages}))
            raise SettingsError(
                f"ckpt_stages={text}: {part} names no stage; this model has stages 0 to {len(stages) - 1}, the parts "
                f"all, backbone, neck, head, and the classes {kinds}"
            )
        selected |= found
    return frozenset(selected)


def _part(part: str, stages: Sequence[StageFacts]) -> set[int]:
    if part == "all":
        return {s.index for s in stages}
    if part in ("backbone", "neck", "head"):
        return {s.index for s in stages if s.part == part}
    match = _RANGE.fullmatch(part)
    if match is None:
        return {s.index for s in stages if s.kind == part}
    first, last = int(match[1]), int(match[2] or match[1])
    return set(range(first, last + 1)) if first <= last < len(stages) else set()
