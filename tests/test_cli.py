"""The shell: exit status, one line for a wrong request, JSON and nothing else where asked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from yolo_ckpt import cli, helptext


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = cli.main(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_help_fits_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run("--help", capsys=capsys)
    assert status == 0
    assert len(out.splitlines()) <= 24
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_each_command_has_its_own_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(command, "--help", capsys=capsys)
    assert (status, err) == (0, "")
    assert out.startswith(f"yolo-ckpt {command}")
    assert max(map(len, out.splitlines())) <= 80
    assert command in helptext.PROGRAM


def test_bench_is_json_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("model=yolo26n.yaml", "imgsz=64", "rounds=1", "ways=full,torch.utils.checkpoint", "format=json")
    status, out, _ = run("bench", *given, capsys=capsys)
    stock, full, checkpoint = json.loads(out)
    assert status == 0
    assert [w["way"] for w in (stock, full, checkpoint)] == ["stock", "full", "torch.utils.checkpoint"]
    assert full["difference"] is None
    assert checkpoint["difference"]


def test_bench_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        "bench", "model=yolo26n.yaml", "imgsz=64", "rounds=1", "ways=torch.utils.checkpoint", "amp=bf16", capsys=capsys
    )
    assert status == 0
    assert "torch.utils.checkpoint is not the same training: buffer" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("bench", "model=yolo26n.yaml", "ways=magic"), "ways=magic"),
        (("bench", "model=yolo26n.yaml", "amp=int8"), "amp=int8"),
        (("bench", "model=yolo26n.yaml", "device=meta"), "device=meta"),
        (("bench", "model=yolo26n.yaml", "objects=some"), "objects=some"),
        (("plan", "model=yolo26n.yaml", "ckpt=fast"), "ckpt=fast"),
        (("plan", "model=yolo26n.yaml", "ckpt_stages=99"), "ckpt_stages=99"),
        (("plan", "model=yolo26n.yaml", "ckpt_stages=-1"), "ckpt_stages=-1"),
        (("plan", "model=yolo26n.yaml", "ckpt_stages=4-2"), "ckpt_stages=4-2"),
        (("plan", "model=yolo26n.yaml", "ckpt_stages=C9k9"), "ckpt_stages=C9k9"),
        (("plan", "model=yolo26n.yaml", "ckpt_budget=nan"), "ckpt_budget=nan"),
        (("plan", "model=yolo26n.yaml", "imgsz=big"), "imgsz=big"),
        (("plan", "model=yolo26n.yaml", "format=xml"), "format=xml"),
        (("plan", "model=nothing.yaml"), "model=nothing.yaml"),
        (("plan",), "model= is missing"),
        (("plan", "model=yolo26n.yaml", "epochs=3"), "epochs=3"),
        (("train", "model=yolo26n.yaml", "ckpt=fast"), "ckpt=fast"),
        (("train", "model=yolo26n.yaml", "ckpt_stage=all"), "did you mean ckpt_stages"),
        (("train", "model=yolo26n.yaml", "imgzs=64"), "imgzs"),
        (("sample", "lunar", "dir=x"), "sample lunar"),
        (("sample", "aerial"), "dir=FOLDER"),
        (("fly",), "fly is not a command"),
    ],
)
def test_wrong_requests_get_one_line_and_status_2(
    arguments: tuple[str, ...],
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    own_callbacks: object,
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments, capsys=capsys)
    assert status == 2
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert says in err
    assert not list(tmp_path.iterdir())


def test_a_wrong_argument_of_the_hosts_gets_one_line_in_a_shell() -> None:
    command = [sys.executable, "-m", "yolo_ckpt", "train", "model=yolo26n.yaml", "imgzs=64"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "imgsz" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_plan_as_json_and_nothing_else() -> None:
    command = [sys.executable, "-m", "yolo_ckpt", "plan", "model=yolo26n.yaml", "imgsz=320", "ckpt=full", "format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)
    assert [s["action"] for s in record["plan"]["stages"]] == ["full"] * 24
    assert record["planned"]["peak_bytes"] < record["stock"]["peak_bytes"]


def test_plan_as_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run("plan", "model=yolo26n.yaml", "imgsz=320", "ckpt=full", "ckpt_stages=backbone", capsys=capsys)
    assert status == 0
    assert "C2PSA" in out
    assert "not in ckpt_stages" in out


def test_verify(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run("verify", "model=yolo26n.yaml", "imgsz=64", "ckpt=full", capsys=capsys)
    assert status == 0
    assert "equal to the last bit" in out


def test_train_hands_everything_else_to_the_host(made_data: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "yolo_ckpt", "train", "model=yolo26n.yaml", f"data={made_data}", "imgsz=64", "epochs=1",
        "batch=2", "device=cpu", "workers=0", "plots=False", f"project={tmp_path}", "name=run",
        "ckpt=full", "ckpt_stages=0-5",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "run" / "ckpt_plan.json").read_text(encoding="utf-8"))
    assert [s["index"] for s in plan["stages"] if s["action"] == "full"] == [0, 1, 2, 3, 4, 5]
    assert (tmp_path / "run" / "weights" / "best.pt").is_file()


def test_a_refused_training_leaves_no_run_folder(made_data: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "yolo_ckpt", "train", "model=yolo26n.yaml", f"data={made_data}", "imgsz=64",
        "device=cpu",
        f"project={tmp_path}", "name=run", "ckpt=full", "ckpt_stages=99",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "ckpt_stages=99" in done.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "run").exists()
