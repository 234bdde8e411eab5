"""Flags, parsed and refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from yolo_ckpt.errors import SettingsError
from yolo_ckpt.settings import Settings, check_budget, split_flags


def test_defaults() -> None:
    assert Settings.from_mapping({}) == Settings(ckpt="auto", ckpt_stages="all", ckpt_budget=None)


def test_frozen_and_keyword_only() -> None:
    with pytest.raises(TypeError):
        Settings("full")  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().ckpt = "full"  # type: ignore[misc]


def test_python_values_become_flags() -> None:
    assert Settings.from_mapping({"ckpt": False, "ckpt_stages": [0, 2], "ckpt_budget": 0.5}) == Settings(
        ckpt="off", ckpt_stages="0,2", ckpt_budget="0.5"
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"ckpt": "fast"}, "ckpt=fast"),
        ({"ckpt": "ful"}, "did you mean full"),
        ({"ckpt": "nowhere.json"}, "no such plan file"),
        ({"ckpt_stage": "all"}, "did you mean ckpt_stages"),
        ({"ckpt_stages": " "}, "ckpt_stages is empty"),
        ({"ckpt_augment": "areal"}, "did you mean aerial"),
        ({"ckpt_augment": ""}, "ckpt_augment= is not known; use none, aerial, medical, industrial"),
        *[
            ({"ckpt_budget": text}, f"ckpt_budget={text}")
            for text in ("abc", "-4", "0", "nan", "200%", "inf", "5 apples", "")
        ],
    ],
)
def test_wrong_values_say_what_was_asked(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match="ckpt") as error:
        Settings.from_mapping(given)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "value"), [("22GiB", 22 * 2**30), ("8GB", 8 * 10**9), ("0.75", 0.75), ("75%", 0.75), ("1073741824", 2**30)]
)
def test_budgets(text: str, value: float) -> None:
    assert check_budget(text) == value


def test_ours_are_taken_out_and_the_rest_keeps_its_order(tmp_path: Path) -> None:
    ours, rest = split_flags(["model=a.yaml", "ckpt=full", "--ckpt_stages=0-2", "imgsz=640", "resume", "name=ckpt=x"])
    assert ours == {"ckpt": "full", "ckpt_stages": "0-2"}
    assert rest == ["model=a.yaml", "imgsz=640", "resume", "name=ckpt=x"]
