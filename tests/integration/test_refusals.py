"""What the host says of wrong arguments is one line; anything else keeps its traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from yolo_ckpt import cli
from yolo_ckpt.integration import compat, refusals

pytestmark = pytest.mark.usefixtures("own_callbacks")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("imgsz=abc", "'imgsz=abc' is not a valid image size"),
        ("batch=abc", "'batch=abc' is of invalid type str"),
        ("epochs=0", "'epochs' must be >= 1"),
        ("optimizer=Adem", "Optimizer 'Adem' not found"),
        ("data=nowhere.yaml", "'nowhere.yaml' does not exist"),
        ("model=nowhere.yaml", "'nowhere.yaml' does not exist"),
        ("cfg=nowhere.yaml", "'nowhere.yaml' does not exist"),
        ("device=0", "Invalid CUDA 'device=0' requested"),
    ],
)
def test_one_line(
    wrong: str, says: str, made_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    if wrong == "device=0" and torch.cuda.is_available():
        pytest.skip("it is right here")
    monkeypatch.chdir(tmp_path)
    given = {"model": "yolo26n.yaml", "data": str(made_data), "project": str(tmp_path), "workers": "0", "amp": "False"}
    given |= dict([wrong.split("=")])
    assert cli.main(["train", *(f"{name}={value}" for name, value in given.items())]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("yolo-ckpt: ultralytics: ")
    assert says in line
    assert len(line) < refusals.LONGEST + 40


def test_the_native_size_of_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["train", "model=yolo26n.yaml", "data=nowhere.yaml", "imgsz=native", f"project={tmp_path}"]
    assert cli.main(given) == 2
    assert "'nowhere.yaml' does not exist" in capsys.readouterr().err.strip().splitlines()[-1]
    assert not list(tmp_path.rglob("*"))


def test_failures_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def select_device(_: object) -> None:  # a name of the host's, and not its code
        raise ValueError("a defect")

    monkeypatch.setattr(compat, "run_entrypoint", select_device)
    with pytest.raises(ValueError, match="a defect"):
        cli.main(["train", "model=yolo26n.yaml"])


def test_weights_that_cannot_be_fetched(
    made_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ultralytics.utils import downloads

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectionError("Download failure")

    monkeypatch.setattr(downloads, "safe_download", unreachable)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", "model=yolo26n.pt", f"data={made_data}", f"project={tmp_path}"]) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == "yolo-ckpt: ultralytics: Download failure"


def test_memory_is_no_refusal() -> None:
    error = torch.OutOfMemoryError("CUDA out of memory")
    assert refusals.refusal(error) is None
