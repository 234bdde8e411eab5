"""Putting a plan on and taking it off leaves the model what it was."""

from __future__ import annotations

import copy
import functools
import io
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import yolo_ckpt
from tests.conftest import both_modes, host_model, plain_step, toy
from yolo_ckpt import attachment
from yolo_ckpt.attachment import is_planned

LOAD_BLOCKED = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "yolo_ckpt":
            raise ImportError("blocked")
sys.meta_path.insert(0, Block())
import torch
from ultralytics.nn.tasks import DetectionModel, torch_safe_load
model = torch_safe_load(sys.argv[1], safe_only=sys.argv[2] == "restricted")[0]["model"]
assert type(model) is DetectionModel, type(model)
assert not [m for m in model.modules() if "yolo_ckpt" in type(m).__module__ or "forward" in m.__dict__]
model.eval()(torch.zeros(1, 3, 64, 64))
print("loaded")
"""


def planned(model: nn.Module, ckpt: str = "full", **settings: str) -> nn.Module:
    return yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt=ckpt, **settings))


def fingerprint(model: nn.Module) -> list[tuple[str, type, type, tuple[str, ...]]]:
    return [(name, type(m), m.__class__, tuple(m.__dict__)) for name, m in model.named_modules()]


@both_modes
def test_remove_gives_back_what_was(ckpt: str) -> None:
    model = toy()
    before, text, keys = fingerprint(model), repr(model), list(model.state_dict())
    planned(model, ckpt)
    assert is_planned(model)
    assert (repr(model), list(model.state_dict())) == (text, keys)
    yolo_ckpt.remove(model)
    assert not is_planned(model)
    assert fingerprint(model) == before


def test_isinstance_and_class_answer_the_original() -> None:
    model = toy()
    kinds = [m.__class__ for m in model.modules()]
    planned(model)
    assert [m.__class__ for m in model.modules()] == kinds
    assert all(isinstance(m, kind) for m, kind in zip(model.modules(), kinds, strict=True))


def test_apply_twice_remove_and_apply_again() -> None:
    model, twin = toy(), toy()
    once = fingerprint(planned(twin))
    planned(planned(model, "selective"))
    assert fingerprint(model) == once
    planned(model, "off")
    assert not is_planned(model)
    planned(model)
    assert fingerprint(model) == once
    plain_step()(model, 0)


def test_a_copy_is_planned_and_independent() -> None:
    model = planned(toy())
    clone = copy.deepcopy(model)
    assert is_planned(clone)
    with torch.no_grad():
        for parameter in clone.parameters():
            parameter.zero_()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    plain_step()(clone, 0)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    yolo_ckpt.remove(clone)
    assert is_planned(model)


@pytest.mark.parametrize("loader", ["plain", "restricted"])
def test_a_pickle_is_stock(loader: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"model": planned(host_model("yolo26n.yaml")), "train_args": {}}, path)
    done = subprocess.run(
        [sys.executable, "-c", LOAD_BLOCKED, str(path), loader], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip().endswith("loaded"), done.stderr


def test_a_pickle_does_not_name_the_package() -> None:
    buffer = io.BytesIO()
    torch.save(planned(host_model("yolo11n.yaml")), buffer)
    assert b"yolo_ckpt" not in buffer.getvalue()


def test_only_selected_stages_are_planned() -> None:
    model = host_model("yolo26n.yaml")
    plan = yolo_ckpt.plan(model, imgsz=64, batch=1, ckpt="full", ckpt_stages="0-2,neck")
    yolo_ckpt.apply(model, plan)
    changed = {i for i, stage in enumerate(model.model) if is_planned(stage)}
    assert changed == {s.index for s in plan.planned} == {0, 1, 2, *range(11, 23)}


def test_a_plan_for_another_model_is_refused() -> None:
    plan = yolo_ckpt.plan(toy(), imgsz=32, batch=1, ckpt="full")
    with pytest.raises(yolo_ckpt.PlanError, match="another model"):
        yolo_ckpt.apply(host_model("yolo26n.yaml"), plan)


def test_a_model_without_stages_is_refused() -> None:
    with pytest.raises(yolo_ckpt.RequestError, match="no stages"):
        yolo_ckpt.plan(nn.Linear(1, 1), imgsz=32, batch=1)


def test_a_replaced_forward_is_left_as_it_is() -> None:
    model = toy()
    model.model[2].forward = lambda x: x
    plan = yolo_ckpt.plan(model, imgsz=32, batch=1, ckpt="full")
    assert "replaced" in plan.stages[2].reason
    yolo_ckpt.apply(model, plan)
    plain_step()(model, 0)


def test_fuse_after_training_still_works() -> None:
    model = host_model("yolo26n.yaml")
    images = torch.rand(1, 3, 64, 64)
    stock = copy.deepcopy(model).eval().fuse(verbose=False)(images)[0]
    fused = planned(model).eval().fuse(verbose=False)(images)[0]
    assert torch.equal(stock, fused)


def one_loss(model: nn.Module) -> torch.Tensor:
    """The loss of one image with one box, through the model's own criterion."""
    from ultralytics.cfg import get_cfg

    model.args = get_cfg()
    box = torch.full((1, 4), 0.5)
    batch = {"img": torch.rand(1, 3, 64, 64), "cls": torch.zeros(1, 1), "bboxes": box, "batch_idx": torch.zeros(1)}
    return model(batch)[0].sum()


def test_a_planned_model_runs_the_engines_loop_and_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    for name in ("stage_loop", "run_loss"):
        original = getattr(attachment, name)
        monkeypatch.setattr(attachment, name, lambda *a, n=name, o=original: (called.append(n), o(*a))[1])
    one_loss(host_model("yolo26n.yaml")).backward()
    assert called == []
    one_loss(planned(host_model("yolo26n.yaml"))).backward()
    assert called == ["stage_loop", "run_loss"]


@pytest.mark.parametrize("wrapped", ["function", "method", "partial"])
def test_a_criterion_that_cannot_change_its_class_stays(wrapped: str) -> None:
    model = host_model("yolo26n.yaml")
    own = model.init_criterion
    from ultralytics.cfg import get_cfg

    model.args = get_cfg()
    made = own()

    def function(predictions: object, batch: object) -> object:
        return made(predictions, batch)

    criteria = {
        "function": function,
        "method": made.__call__,
        "partial": functools.partial(made),
    }
    model.criterion = criteria[wrapped]
    one_loss(planned(model)).backward()
    assert model.criterion is criteria[wrapped]
    yolo_ckpt.remove(model)


@pytest.mark.parametrize("stages", ["all", "backbone"])
def test_the_losses_assigners_are_bounded_and_given_back(stages: str) -> None:
    from yolo_ckpt.hotspots.assigner import BoundedAssigner

    def bounded(model: Any) -> list[bool]:
        criterion = model.criterion
        return [isinstance(c.assigner, nn.Module) and BoundedAssigner in type(c.assigner).__mro__ for c in (
            criterion.one2many, criterion.one2one
        )]  # fmt: skip

    model = planned(host_model("yolo26n.yaml"), ckpt_stages=stages)
    one_loss(model).backward()
    assert bounded(model) == [True, True]
    assert model.criterion.one2many.assigner.__class__.__name__ == "TaskAlignedAssigner"
    loaded = pickle.loads(pickle.dumps(model))
    assert bounded(loaded) == [False, False]
    yolo_ckpt.remove(model)
    assert bounded(model) == [False, False]
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=64, batch=1, ckpt="full"))
    assert bounded(model) == [True, True]
