"""The plan as a record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import yolo_ckpt
from tests.conftest import host_model, toy
from yolo_ckpt.errors import PlanError
from yolo_ckpt.plan import Plan


def made(ckpt: str = "full") -> Plan:
    return yolo_ckpt.plan(toy(), imgsz=64, batch=2, ckpt=ckpt)


def test_json_round_trip() -> None:
    assert Plan.from_json(made().to_json()) == made()


def test_a_plan_file_is_a_value_of_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "ckpt_plan.json"
    path.write_text(made().to_json(), encoding="utf-8")
    assert yolo_ckpt.plan(toy(), imgsz=64, batch=2, ckpt=str(path)) == made()
    with pytest.raises(PlanError, match="another model"):
        yolo_ckpt.plan(host_model("yolo26n.yaml"), imgsz=64, batch=2, ckpt=str(path))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "is not JSON"),
        ("[]", "schema None"),
        (json.dumps({**json.loads(made().to_json()), "schema": 99}), "schema 99"),
        (json.dumps({**json.loads(made().to_json()), "speed": 1}), "speed"),
        (made().to_json().replace('"full"', '"fastest"'), "stage 0"),
        (made().to_json().replace('"index": 1', '"index": 7'), "stage 7"),
    ],
)
def test_unreadable_plans(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError) as error:
        Plan.load(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)


def test_auto_means_selective_for_now() -> None:
    assert [s.action for s in made("auto").stages] == [s.action for s in made("selective").stages]


def test_off_plans_nothing() -> None:
    assert made("off").planned == ()
