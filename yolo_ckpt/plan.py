"""The plan: an action for every stage of one model, as a record that goes to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from yolo_ckpt.errors import PlanError

SCHEMA = 1
ACTIONS = ("save", "selective", "full")
ATTENTION = ("auto", "stock", "fused")


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """What is done with one stage.

    Attributes:
        index: Position in the model.
        kind: Class name of the stage.
        action: `save`, `selective` or `full`.
        opens: A segment begins with this stage.
        closes: A segment ends with this stage.
        reason: Why the stage is left as it is; empty for a planned one.
    """

    index: int
    kind: str
    action: str = "save"
    opens: bool = True
    closes: bool = True
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Actions for the stages of one model; `kinds` says which.

    Attributes:
        ckpt: The mode that was asked for.
        stages: One entry per stage, in order.
        imgsz: Largest side of the input in pixels.
        batch: Images per step on one device.
        peak_bytes: Forecast peak of a training step; None where nothing was forecast.
        added_share: Forecast time that it adds to a step, as a share of the step's time; see
            `added_measured`.
        added_measured: That is by times measured on the device; else it is an estimate.
        attention: As the flag `ckpt_attention`.
        schema: Version of this record's JSON form.
    """

    ckpt: str
    stages: tuple[StagePlan, ...]
    imgsz: int
    batch: int
    peak_bytes: int | None = None
    added_share: float | None = None
    added_measured: bool = False
    attention: str = "auto"
    schema: int = field(default=SCHEMA)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Class name of every stage: what tells the model that the plan is for."""
        return tuple(stage.kind for stage in self.stages)

    @property
    def planned(self) -> tuple[StagePlan, ...]:
        """The stages that are not left as they are."""
        return tuple(stage for stage in self.stages if stage.action != "save")

    def check_model(self, kinds: Sequence[str]) -> None:
        """Raise `PlanError` unless the plan was made for a model with stages of these `kinds`."""
        if tuple(kinds) != self.kinds:
            found = next(
                (
                    f"stage {i} is {b}, not {a}"
                    for i, (a, b) in enumerate(zip(self.kinds, kinds, strict=False))
                    if a != b
                ),
                "",
            )
            found = found or f"it has {len(kinds)} stages, not {len(self.kinds)}"
            raise PlanError(f"the plan is for another model: {found}; make a plan for this model")

    def to_json(self) -> str:
        """The plan as a JSON document."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str, source: str = "the plan") -> Plan:
        """The plan that `to_json` wrote; `source` names it in messages.

        Raises:
            PlanError: Not JSON, another schema, or fields that do not fit.
        """
        try:
            record: Any = json.loads(text)
        except ValueError as error:
            raise PlanError(f"{source} is not JSON ({error}); give a ckpt_plan.json written by yolo-ckpt") from error
        schema = record.get("schema") if isinstance(record, dict) else None
        if schema != SCHEMA:
            raise PlanError(f"{source} has schema {schema}, this version reads {SCHEMA}; make the plan again")
        try:
            stages = tuple(StagePlan(**stage) for stage in record.pop("stages"))
            plan = cls(stages=stages, **record)
        except (TypeError, KeyError) as error:
            raise PlanError(f"{source} lacks or adds a field ({error}); make the plan again") from error
        if plan.attention not in ATTENTION:
            raise PlanError(
                f"{source}: attention {plan.attention} is none of {', '.join(ATTENTION)}; make the plan again"
            )
        wrong = [s.index for i, s in enumerate(stages) if s.action not in ACTIONS or s.index != i]
        if wrong:
            raise PlanError(f"{source}: the entry of stage {wrong[0]} is not valid; make the plan again")
        return plan

    @classmethod
    def load(cls, path: Path) -> Plan:
        """The plan in a file.

        Raises:
            PlanError: The file cannot be read, or is no plan.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(
                f"ckpt={path} cannot be read ({error}); give a ckpt_plan.json written by yolo-ckpt"
            ) from error
        return cls.from_json(text, f"ckpt={path}")
