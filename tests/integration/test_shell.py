"""Our flags among the host's arguments, in every spelling, and in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from yolo_ckpt.errors import RequestError, SettingsError
from yolo_ckpt.integration import PlanCallback
from yolo_ckpt.integration.shell import merge_equals, planned

pytestmark = pytest.mark.usefixtures("own_callbacks")


def ours(own_callbacks: dict[str, list[object]]) -> PlanCallback | None:
    return next((c for c in own_callbacks["on_pretrain_routine_start"] if isinstance(c, PlanCallback)), None)


@pytest.mark.parametrize(
    "spelling",
    [["ckpt=full"], ["--ckpt=full"], ["ckpt", "=", "full"], ["ckpt=", "full"], ["ckpt", "=full"], ["ckpt=full,"]],
)
def test_spellings(spelling: list[str], own_callbacks: dict[str, list[object]]) -> None:
    with planned(["train", "imgsz", "=", "64", *spelling, "epochs=1"], ckpt=None) as rest:
        callback = ours(own_callbacks)
        assert callback is not None
        assert callback.settings.ckpt == "full"
    assert rest == ["train", "imgsz", "=", "64", "epochs=1"]


def test_other_arguments_are_not_touched() -> None:
    arguments = ["train", "data", "=", "a b.yaml", "imgsz=[640,", "480]", "classes=", "1"]
    assert merge_equals(arguments) == arguments


def test_flags_in_a_file(tmp_path: Path, own_callbacks: dict[str, list[object]]) -> None:
    """The host gets the file without them; the command line wins."""
    file = tmp_path / "mine.yaml"
    file.write_text("imgsz: 64\nckpt: full\nckpt_stages: [0, 1]\n", encoding="utf-8")
    with planned(["train", f"cfg={file}", "ckpt=selective"], ckpt="auto") as rest:
        callback = ours(own_callbacks)
        assert callback is not None
        assert (callback.settings.ckpt, callback.settings.ckpt_stages) == ("selective", "0,1")
        copy = Path(rest[1].removeprefix("cfg="))
        assert copy.name == "mine.yaml"
        assert copy.read_text(encoding="utf-8") == "imgsz: 64\n"
    assert not copy.exists()
    assert "ckpt: full" in file.read_text(encoding="utf-8")


def test_a_file_without_flags_goes_on_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("imgsz: 64\n", encoding="utf-8")
    with planned(["train", f"cfg={file}"], ckpt=None) as rest:
        assert rest == ["train", f"cfg={file}"]


@pytest.mark.parametrize(
    ("text", "says"),
    [("imgsz: [64\nckpt: full", "not a YAML file"), ("ckpt: fast", "ckpt=fast"), ("ckpt_stage: all", "ckpt_stages")],
)
def test_wrong_files(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(RequestError, match=says), planned(["train", f"cfg={file}"], ckpt=None):
        pass


def test_no_flag_plans_only_what_is_resumed(own_callbacks: dict[str, list[object]]) -> None:
    with planned(["train", "resume"], ckpt=None):
        callback = ours(own_callbacks)
        assert callback is not None
        assert callback.resumed_only


def test_flags_where_nothing_is_trained() -> None:
    with pytest.raises(SettingsError, match="works in training"), planned(["val", "ckpt=full"], ckpt=None):
        pass


def test_a_flag_without_a_value() -> None:
    with pytest.raises(SettingsError, match="ckpt"), planned(["train", "ckpt"], ckpt=None):
        pass
