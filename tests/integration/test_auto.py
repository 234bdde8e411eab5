"""`ckpt=auto`: plans for a budget, in Python, in training and at the shell."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import yolo_ckpt
from tests.conftest import SMALL, host_model
from tests.integration.running import train, unequal
from tests.integration.test_forecast import forecast
from yolo_ckpt import cli
from yolo_ckpt.integration.auto import auto_plan
from yolo_ckpt.integration.budget import objects_per_image
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.remat import registry

pytest.importorskip("ultralytics")


@pytest.fixture(autouse=True)
def as_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "small_bytes", 1 << 16)


def test_every_budget_is_kept_and_more_never_costs_more() -> None:
    model = host_model(SMALL, "meta")
    stock = forecast(model, None, imgsz=640, batch=1).peak_bytes
    added = []
    full = forecast(model, yolo_ckpt.plan(model, imgsz=640, batch=1, ckpt="full"), imgsz=640, batch=1).peak_bytes
    for budget in (full, *(int(share * stock) for share in (0.3, 0.4, 0.5, 0.7, 0.9))):
        plan = auto_plan(model, Conditions(imgsz=640, batch=1, budget_bytes=budget)).plan
        assert plan.peak_bytes is not None
        assert plan.peak_bytes <= budget
        assert plan.peak_bytes == forecast(model, plan, imgsz=640, batch=1).peak_bytes
        added.append(plan.added_share)
    assert added == sorted(added, reverse=True)
    assert auto_plan(model, Conditions(imgsz=640, batch=1, budget_bytes=stock)).plan.planned == ()


def test_the_same_request_gives_the_same_plan() -> None:
    model = host_model(SMALL, "meta")
    first, second = (auto_plan(model, Conditions(imgsz=320, batch=2, budget_bytes=40 << 20)).plan for _ in range(2))
    assert first == second
    assert len({s.action for s in first.stages}) > 1
    assert yolo_ckpt.Plan.from_json(first.to_json()) == first


def test_a_budget_below_everything_says_what_would_do() -> None:
    model = host_model("yolo26n.yaml", "meta")
    with pytest.raises(yolo_ckpt.BudgetInfeasibleError, match=r"imgsz=640 batch=1: \d+ MiB at least"):
        yolo_ckpt.plan(model, imgsz=640, batch=1, budget="5MiB")


def test_stages_that_are_not_selected_stay() -> None:
    model = host_model("yolo26n.yaml", "meta")
    plan = yolo_ckpt.plan(model, imgsz=640, batch=1, budget="200MiB", ckpt_stages="head,backbone")
    assert {s.action for s in plan.stages[11:-1]} == {"save"}
    assert plan.planned


def test_objects_decide() -> None:
    model = host_model(SMALL, "meta")
    few, many = (
        auto_plan(model, Conditions(imgsz=640, batch=2, budget_bytes=160 << 20, objects=g)).plan for g in (5, 1000)
    )
    assert few.added_share is not None
    assert many.added_share is not None
    assert few.added_share < many.added_share


def test_objects_of_a_data_set() -> None:
    labels = [{"cls": [0] * n} for n in (0, 4, 8)]
    assert objects_per_image(labels, mosaic=True) == 16
    assert objects_per_image(labels, mosaic=False) == 8
    assert objects_per_image([], mosaic=True) == 1


def test_training_with_a_budget_is_the_same_training(arguments: dict[str, Any], log: pytest.LogCaptureFixture) -> None:
    given = {**arguments, "imgsz": 320, "epochs": 1}
    stock = train(given, "stock")
    planned = train(given, "auto", ckpt_budget="110MiB")
    plan = type(planned["trainer"])._yolo_ckpt_run.plan
    assert plan.planned
    assert plan.peak_bytes <= 110 << 20
    assert unequal(stock, planned) == []
    report = json.loads((planned["trainer"].save_dir / "ckpt_report.json").read_text(encoding="utf-8"))
    assert report["live_bytes"] <= plan.peak_bytes
    (off,) = re.findall(r"from the optimizer's first step on, forecast .* \(([-+][\d.]+)%\)", log.text)
    assert abs(float(off)) < 2
    assert (planned["trainer"].save_dir / "ckpt_report.png").read_bytes().startswith(b"\x89PNG")


def test_a_step_that_cannot_be_simulated(arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of one's own may do anything. Without a budget on the command line the run goes on with selective."""
    from yolo_ckpt.integration import run

    def broken(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("no content")

    monkeypatch.setattr(run, "auto_plan", broken)
    given = {**arguments, "imgsz": 64, "epochs": 1}
    with pytest.raises(yolo_ckpt.RequestError, match="cannot be simulated"):
        train(given, "auto", ckpt_budget="110MiB")
    monkeypatch.setattr(run, "budget_bytes", lambda *_: 110 << 20)
    planned = train(given, "auto")
    assert {s.action for s in type(planned["trainer"])._yolo_ckpt_run.plan.stages} == {"selective"}


def test_training_that_cannot_fit_leaves_no_run_folder(arguments: dict[str, Any]) -> None:
    with pytest.raises(yolo_ckpt.BudgetInfeasibleError, match="ckpt_budget"):
        train({**arguments, "exist_ok": False}, "auto", ckpt_budget="3MiB")
    assert not (Path(arguments["project"]) / "run").exists()


def test_plan_for_a_gpu_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "model=yolo26n.yaml", "imgsz=640", "batch=8", "gpu=1.2GiB", "format=json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["plan"]["peak_bytes"] <= record["budget_bytes"]
    assert record["planned"]["peak_bytes"] + record["extra_bytes"] == record["plan"]["peak_bytes"]
    assert cli.main(["plan", "model=yolo26n.yaml", "imgsz=64", "batch=2", "gpu=t4"]) == 0
    assert "fits without a plan" in capsys.readouterr().out


def test_a_picture_of_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["plan", "model=yolo26n.yaml", "imgsz=320", "batch=2", "ckpt=selective"]
    assert cli.main([*given, f"plot={tmp_path / 'plan.png'}"]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["plan.png"]
    assert cli.main([*given, f"plot={tmp_path / 'plan.xyz'}"]) == 2
    assert cli.main([*given, f"plot={tmp_path / 'no' / 'plan.png'}"]) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["plan.png"]
    assert "plan.xyz cannot be written" in capsys.readouterr().err


def test_plan_says_what_is_computed_again(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["plan", "model=yolo26n.yaml", "imgsz=640", "batch=2", "format=json"]
    again = {}
    for ckpt in ("off", "full"):
        assert cli.main([*given, f"ckpt={ckpt}"]) == 0
        record = json.loads(capsys.readouterr().out)
        again[ckpt] = record["recomputed_flops"]
        assert record["plan"]["added_share"] == pytest.approx(0.3, abs=0.1) if ckpt == "full" else True
    assert sum(again["off"]) == 0
    forward = sum(w["flops"] for w in record["stock"]["windows"] if w["phase"] == "forward")
    assert 0.5 * forward < sum(again["full"]) <= forward
    assert cli.main([*given[:-1], "ckpt=full"]) == 0
    assert f"{sum(again['full']) / 1e9:.1f} GFLOP" in capsys.readouterr().out


def test_managed_cloud_training(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stock alone, on the GPU types that the installed SDK names, cheapest first."""
    from yolo_ckpt.integration import cloud

    assert {"rtx-4090", "l4", "h100-sxm"} <= set(cloud.gpu_types())
    monkeypatch.setattr(cloud, "gpu_types", lambda: ["rtx-2000-ada", "l4", "b200", "voodoo2"])
    given = ["fit", f"model={SMALL}", "gpu=cloud", "imgsz=1280", "batch=48", "data=my.yaml", "epochs=3"]
    assert cli.main([*given, "format=json"]) == 0
    small, middle, large, unknown = json.loads(capsys.readouterr().out)["gpus"]
    assert small["largest_batch"] < 48 <= middle["largest_batch"] < large["largest_batch"]
    assert small["largest_imgsz"] < 1280 <= middle["largest_imgsz"] < large["largest_imgsz"]
    assert (small["fits"], middle["fits"], large["fits"], unknown["fits"]) == (False, True, True, False)
    assert cli.main(given) == 0
    line = capsys.readouterr().out.strip().splitlines()[-1]
    assert line == f"ul cloud train model={SMALL} data=my.yaml epochs=3 imgsz=1280 batch=48 gpu_type=l4"
    assert cli.main(["fit", f"model={SMALL}", "gpu=cloud", "imgsz=8192", "batch=64"]) == 0
    assert "no type fits imgsz=8192 batch=64" in capsys.readouterr().out


def test_every_type_of_the_sdk_is_known() -> None:
    from yolo_ckpt.integration import cloud
    from yolo_ckpt.planning.cards import TOTAL_MIB

    assert set(cloud.gpu_types()) <= set(TOTAL_MIB)


def test_fit(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from yolo_ckpt.integration import fit, look

    monkeypatch.setattr(fit, "SIZES", (320, 640))
    monkeypatch.setattr(look, "MODES", ("off", "full"))
    assert cli.main(["fit", "model=yolo26n.yaml", "gpu=1GiB", "format=json"]) == 0
    stock, full = json.loads(capsys.readouterr().out)
    assert 0 < stock["batches"]["640"] < full["batches"]["640"]
    assert stock["largest_imgsz"] < full["largest_imgsz"]
    model = host_model("yolo26n.yaml", "meta")
    target = look.Target.of(gpu="1GiB", budget=None, amp="")
    conditions = Conditions(
        imgsz=640, batch=1, budget_bytes=1 << 30, extra_bytes=look.extra_of(model, target), amp=target.amp,
        device="cuda",
    )  # fmt: skip
    fits = fit.Fits(model, conditions)
    for imgsz, batch in ((640, stock["batches"]["640"]), (stock["largest_imgsz"], 1)):
        assert fits.peak_bytes("off", imgsz, batch) <= 1 << 30
    assert fits.peak_bytes("off", 640, stock["batches"]["640"] + 1) > 1 << 30
    assert fits.peak_bytes("off", stock["largest_imgsz"] + 32, 1) > 1 << 30


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("fit", "model=yolo26n.yaml"), "fit needs gpu="),
        (("fit", "model=yolo26n.yaml", "gpu=voodoo2"), "gpu=voodoo2"),
        (("fit", "model=yolo26n.yaml", "gpu=t4", "imgsz=640", "batch=4"), "batch=4 works with gpu=cloud"),
        (("plan", "model=yolo26n.yaml", "ckpt_budget=50%"), "ckpt_budget=50% is a share"),
        (("plan", "model=yolo26n.yaml", "gpu=t4", "amp=int4"), "amp=int4"),
        (("plan", "model=yolo26n.yaml", "imgsz=640", "ckpt_budget=4MiB"), "at least"),
    ],
)
def test_wrong_requests(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1
