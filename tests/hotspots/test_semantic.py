"""The bounded loss of semantic segmentation against the host's."""

from __future__ import annotations

import copy
import functools
import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import yolo_ckpt
from tests.conftest import host_model
from yolo_ckpt.hotspots import rounded_parts, semantic
from yolo_ckpt.hotspots.knownlosses import semantic_role
from yolo_ckpt.measuring import LiveBytes, tensors_in

losses = pytest.importorskip("ultralytics.utils.loss")

MIB = 1 << 20
Stock = losses.SemanticSegmentationLoss

# For masks of 96 x 128: an eighth, a third (nearly), no whole ratio, full size, full height, larger than the masks.
SIZES = [(12, 16), (32, 42), (20, 52), (96, 128), (96, 16), (120, 200)]
FP32 = 1e-5  # of the largest: the host's own gradients are 6e-6 from those in fp64


@pytest.fixture(autouse=True)
def in_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small problems in several bands, the last one with a single row."""
    monkeypatch.setattr(semantic, "SMALL", 0)
    monkeypatch.setattr(semantic, "AT_ONCE", 7 * 128 * 19)


def stock(classes: int, weight: Tensor | None = None, kind: Any = Stock) -> Any:
    """The host's loss."""
    model: Any = nn.Conv2d(1, 1, 1)
    model.model, model.args, model.class_weights = [SimpleNamespace(nc=classes)], SimpleNamespace(data=""), weight
    return kind(model)


def bounded(classes: int, weight: Tensor | None = None) -> Any:
    loss = stock(classes, weight)
    role = semantic_role(loss)
    assert role is semantic.BoundedSemanticLoss
    loss.__class__ = type("Bounded", (role, Stock), {})
    return loss


Problem = tuple[tuple[Tensor, ...], Tensor]


def problem(classes: int, size: tuple[int, int] = (12, 16), images: int = 3, auxiliary: bool = True) -> Problem:
    """Logits and auxiliary ones, and masks of 96 x 128 of which a tenth does not count."""
    g = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(images, classes, *size, generator=g)
    extra = 3 * torch.randn(images, classes, 6, 8, generator=g)
    masks = torch.randint(max(classes, 2), (images, 96, 128), generator=g).int()
    masks[torch.rand(masks.shape, generator=g) < 0.1] = 255
    return (logits, extra) if auxiliary else (logits,), masks


def results(loss: Any, given: Problem, autocast: torch.dtype | None = None) -> dict[str, Tensor]:
    """The loss, its parts, and the gradients of the logits."""
    logits = tuple(t.clone().requires_grad_() for t in given[0])
    with torch.autocast("cpu", autocast or torch.bfloat16, enabled=autocast is not None):
        value, items = loss(logits if len(logits) > 1 else logits[0], {"semantic_mask": given[1]})
    (1000 * value).backward()
    grads = {f"gradient {i}": t.grad for i, t in enumerate(logits) if t.grad is not None}
    assert len(grads) == len(logits)
    assert not any(t.requires_grad for t in items.values())
    return {"loss": value.detach(), **items, **grads}


def assert_close(expected: dict[str, Tensor], found: dict[str, Tensor], tolerance: float) -> None:
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert found[name].shape == value.shape, name
        assert apart(value, found[name]) <= tolerance, name


def apart(expected: Tensor, found: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float((expected.double() - found.double()).abs().max()) / max(float(expected.abs().max()), 1e-30)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("classes", [1, 2, 5])
def test_value_and_gradients_are_the_hosts(classes: int, size: tuple[int, int]) -> None:
    given = problem(classes, size)
    assert_close(results(stock(classes), given), results(bounded(classes), given), FP32)


@pytest.mark.parametrize("classes", [1, 5])
def test_without_auxiliary_logits(classes: int) -> None:
    given = problem(classes, auxiliary=False)
    assert_close(results(stock(classes), given), results(bounded(classes), given), FP32)


def test_without_gradients() -> None:
    """As in validation."""
    logits, masks = problem(5)
    with torch.inference_mode():
        (a, _), (b, items) = (make(5)(logits, {"semantic_mask": masks}) for make in (stock, bounded))
    assert apart(a, b) <= FP32
    assert not b.requires_grad
    assert set(items) == {"ce_loss", "dice_loss", "aux_loss"}


def test_class_weights() -> None:
    weight, given = torch.tensor([0.2, 3.0, 1.0, 0.0, 0.7]), problem(5)
    expected = results(stock(5, weight), given)
    assert_close(expected, results(bounded(5, weight), given), FP32)
    assert apart(expected["gradient 0"], results(bounded(5), given)["gradient 0"]) > 0.1


@pytest.mark.parametrize("classes", [1, 5])
@pytest.mark.parametrize("which", ["one image", "all", "rows", "none"])
def test_pixels_that_do_not_count(classes: int, which: str) -> None:
    logits, masks = problem(classes)
    if which == "none":
        masks = masks.clamp_max(max(classes, 2) - 1)
    masks[{"one image": 1, "all": slice(None), "rows": (slice(None), slice(20)), "none": slice(0)}[which]] = 255
    found = results(bounded(classes), (logits, masks))
    assert_close(results(stock(classes), (logits, masks)), found, FP32)
    if which == "all":
        assert not any(t.any() for name, t in found.items() if name.startswith("gradient"))


@pytest.mark.parametrize("classes", [1, 5])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [True, False])
def test_half_precision(classes: int, dtype: torch.dtype, autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As exact as the host, against fp64, also where every row is a band."""
    monkeypatch.setattr(semantic, "AT_ONCE", 1)
    logits, masks = problem(classes, images=2)
    given = (tuple(t.to(dtype) for t in logits), masks[:, :48, :64])
    amp = dtype if autocast else None
    exact = results(stock(classes).double(), (tuple(t.double() for t in given[0]), given[1]))
    expected, found = (results(make(classes), given, amp) for make in (stock, bounded))
    assert {k: t.dtype for k, t in expected.items()} == {k: t.dtype for k, t in found.items()}
    for name, value in exact.items():
        lucky = torch.finfo(dtype).eps / 16  # the host's sum of two numbers may be right by chance
        assert apart(value, found[name]) <= 1.5 * apart(value, expected[name]) + lucky, name


def test_gradients_are_those_of_fp64() -> None:
    given, wide = problem(5), problem(5)
    exact = results(stock(5).double(), (tuple(t.double() for t in wide[0]), wide[1]))
    found = results(bounded(5), given)
    assert all(apart(value, found[name]) <= 2e-6 for name, value in exact.items())


def test_small_ones_are_the_hosts_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    given = problem(5)
    monkeypatch.setattr(semantic, "SMALL", 5 * given[1].numel())
    loss = bounded(5)
    expected, found = results(stock(5), given), results(loss, given)
    assert all(torch.equal(value, found[name]) for name, value in expected.items())
    assert semantic_noted(loss) == []
    monkeypatch.setattr(semantic, "SMALL", 5 * given[1].numel() - 1)
    assert any(not torch.equal(value, found[name]) for name, value in results(loss, given).items())
    assert semantic_noted(loss) == ["the semantic loss"]


def semantic_noted(loss: Any) -> list[str]:
    model = nn.Module()
    model.criterion = loss
    return rounded_parts(model)


def peak_bytes(loss: Any, given: Problem) -> int:
    """Beyond the logits, their gradients and the masks."""
    logits = tuple(t.clone().requires_grad_() for t in given[0])
    for t in logits:
        t.grad = torch.zeros_like(t)
    with LiveBytes() as live:
        live.add([*logits, *(t.grad for t in logits if t.grad is not None), given[1]])
        before = live.current_bytes
        loss(logits, {"semantic_mask": given[1]})[0].backward()
    return live.peak_bytes - before


@pytest.mark.parametrize("classes", [1, 5])
def test_what_it_needs_does_not_grow_with_the_images(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semantic, "AT_ONCE", (classes + 2) * 128 * 12)
    few, many = (peak_bytes(bounded(classes), problem(classes, images=n)) for n in (2, 12))
    given = sum(t.nbytes for t in problem(classes, images=10)[0])
    assert many - few <= 2 * given  # gradients in the making
    assert few < 16 * 4 * semantic.AT_ONCE
    assert many < 0.1 * peak_bytes(stock(classes), problem(classes, images=12))


def test_no_mask_chooses_pixels() -> None:
    """On a CUDA device each would wait for it."""

    class Chosen(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            waits = func in (Tensor.item, Tensor.tolist, Tensor.nonzero, Tensor.__bool__, Tensor.__int__)
            masks = func is Tensor.__getitem__ and any(t.dtype is torch.bool for t in tensors_in(args[1]))
            assert not waits
            assert not masks
            return func(*args, **(kwargs or {}))

    for classes in (1, 5):
        with Chosen():
            results(bounded(classes), problem(classes))


class Logged(Stock):  # type: ignore[misc,valid-type]
    """A user's own, which shows in no result."""

    def forward(self, preds: Any, batch: Any) -> Any:
        self.seen = len(batch)
        return super().forward(preds, batch)


class Replaced(Stock):  # type: ignore[misc,valid-type]
    """A user's own, all of it."""

    squared = False

    def forward(self, preds: Any, batch: Any) -> Any:
        value, items = Stock.forward(self, preds, batch)
        return value + (value - 1).square() * self.squared, items

    def _ce_loss(self, *given: Any) -> Any:
        return Stock._ce_loss(self, *given)

    def _dice_loss(self, *given: Any) -> Any:
        return Stock._dice_loss(self, *given)

    def _binary_dice_loss(self, *given: Any) -> Any:
        return Stock._binary_dice_loss(self, *given)


class Squared(Replaced):
    """The same methods with another constant."""

    squared = True
    forward, _ce_loss = Replaced.forward, Replaced._ce_loss
    _dice_loss, _binary_dice_loss = Replaced._dice_loss, Replaced._binary_dice_loss


class Demanding(Replaced):
    """It wants more of a batch."""

    def forward(self, preds: Any, batch: Any) -> Any:
        return super().forward(preds, batch | {"semantic_mask": batch["semantic_mask"] * batch["depth"]})

    _ce_loss, _dice_loss, _binary_dice_loss = Replaced._ce_loss, Replaced._dice_loss, Replaced._binary_dice_loss


class Constant(Stock):  # type: ignore[misc,valid-type]
    """Nothing of it is replaced."""

    name = "constant"


@pytest.mark.parametrize("classes", [1, 4])
def test_whom_it_stands_for(classes: int) -> None:
    def role(kind: Any) -> Any:
        return semantic_role(stock(classes, kind=kind))

    assert role(Stock) is role(Constant) is role(Replaced) is semantic.BoundedSemanticLoss
    assert role(Logged) is role(Demanding) is role(Squared) is None
    changed = stock(classes, kind=Replaced)
    changed.squared = True
    assert semantic_role(changed) is None
    assert semantic_role(nn.CrossEntropyLoss()) is semantic_role(None) is semantic_role(print) is None


def test_an_entropy_of_other_options_is_asked_about_anew() -> None:
    loss = stock(4)
    assert semantic_role(loss) is not None
    loss.ce.reduction = "mean"
    assert semantic_role(loss) is None
    loss.ce.reduction, loss.ce.label_smoothing = "sum", 0.1
    smooth = copy.deepcopy(loss)
    role = semantic_role(loss)
    assert role is not None
    loss.__class__ = type("Bounded", (role, Stock), {})
    assert_close(results(smooth, problem(4)), results(loss, problem(4)), FP32)


def test_a_method_of_the_objects_own() -> None:
    loss = stock(4)
    loss.forward = functools.partial(Stock.forward, loss)
    assert semantic_role(loss) is None


def test_asking_leaves_the_loss_as_it_is() -> None:
    loss = stock(3, torch.tensor([1.0, 2.0, 3.0]))
    parts, ce = dict(loss.__dict__), loss.ce
    assert semantic_role(loss) is not None
    assert loss.ce is ce
    assert loss.__dict__ == parts
    assert ce.weight.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("stages", ["all", "0-4"])
def test_a_plan_brings_it_and_takes_it_away(stages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the head planned, where the loss is a stage too, and without."""
    from yolo_ckpt.integration.batches import made_batch

    monkeypatch.setattr(semantic, "AT_ONCE", 21 * 96 * 20)

    def trained(model: Any) -> list[Tensor]:
        loss, _ = model(dict(data))
        loss.sum().backward()
        return [loss.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]

    unplanned = host_model("yolo26n-sem.yaml")
    data = made_batch(unplanned, imgsz=96, batch=2, objects=0, device="cpu")
    planned: Any = copy.deepcopy(unplanned)
    plan = yolo_ckpt.plan(planned, imgsz=96, batch=2, ckpt="full", ckpt_stages=stages)
    yolo_ckpt.apply(planned, plan)
    expected, found = trained(unplanned), trained(planned)
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):  # some gradients are zero but for rounding, up to 1e-9
        assert float((a - b).abs().max()) <= 1e-5 * float(a.abs().max()) + 1e-8
    assert issubclass(type(planned.criterion), semantic.BoundedSemanticLoss)
    assert planned.criterion.__class__ is Stock
    assert rounded_parts(planned) == ["the semantic loss"]
    assert type(pickle.loads(pickle.dumps(planned)).criterion) is Stock
    yolo_ckpt.remove(planned)
    assert type(planned.criterion) is Stock
    yolo_ckpt.apply(planned, plan)
    assert issubclass(type(planned.criterion), semantic.BoundedSemanticLoss)
