"""Steps and validations that do not fit: what is dropped, what goes on, and what ends the run.

Memory is never really short here. A stage, the gradient of a stage's output, the preparation of a batch or a validation
batch fails as it does when memory is not enough.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.integration.running import train, unequal
from yolo_ckpt.integration.validation import _part_of

ultralytics = pytest.importorskip("ultralytics")

TINY = """
nc: 2
backbone:
  - [-1, 1, Conv, [8, 3, 2]]
  - [-1, 1, Conv, [16, 3, 2]]
  - [-1, 1, C3k2, [16, False, 0.25]]
  - [-1, 1, Conv, [32, 3, 2]]
  - [-1, 1, C3k2, [32, False, 0.25]]
  - [-1, 1, Conv, [32, 3, 2]]
head:
  - [-1, 1, C3k2, [32, False, 0.25]]
  - [[4, 6], 1, Detect, [nc]]
"""
WINDOW = 2  # batches in an accumulation window
BATCHES = 4  # in an epoch
FAILED = "CUDA out of memory. (made)"


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A small detector's YAML."""
    path = tmp_path / "yolo_tiny.yaml"
    path.write_text(TINY, encoding="utf-8")
    return str(path)


@pytest.fixture
def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """Three epochs of four batches, two in an accumulation window."""
    return {
        **arguments, "imgsz": 64, "batch": 1, "epochs": 3, "nbs": WINDOW, "warmup_epochs": 0, "val": False,
        "mosaic": 0.0, "optimizer": "AdamW",
    }  # fmt: skip


def raise_failed(*_: Any) -> Any:
    raise torch.OutOfMemoryError(FAILED)


class Failing:
    """Makes batches fail: those numbered in `at`, each time they are tried, in one of the `PLACES`."""

    def __init__(self, place: str, at: set[int]) -> None:
        self.place, self.at, self.count, self.failures = place, set(at), -1, 0

    def callbacks(self) -> dict[str, Callable[[Any], None]]:
        return {"on_train_start": self.arm, "on_train_batch_start": self.next}

    def next(self, _: Any) -> None:
        self.count += 1

    def arm(self, trainer: Any) -> None:
        stages = trainer.model.model
        where = {"backbone": 2, "head": 7, "gradient of the head": 6, "gradient of the backbone": 0}[self.place]
        if self.place.startswith("gradient"):
            stages[where].register_forward_hook(self.on_output)
        else:
            stages[where].register_forward_pre_hook(self.on_input)

    def due(self) -> bool:
        if self.count in self.at:
            self.failures += 1
            return True
        return False

    def on_input(self, module: nn.Module, given: Any) -> None:
        first = given[0][0] if isinstance(given[0], list) else given[0]
        if module.training and torch.is_grad_enabled() and not first.is_meta and self.due():
            raise_failed()

    def on_output(self, module: nn.Module, _: Any, out: Tensor) -> None:
        if module.training and out.requires_grad and not out.is_meta and self.count in self.at:
            out.register_hook(self.on_gradient)

    def on_gradient(self, _: Tensor) -> None:
        if self.due():
            raise_failed()


PLACES = ("backbone", "head", "gradient of the head", "gradient of the backbone")


def run(
    given: dict[str, Any], model: str, ckpt: str, callbacks: dict[str, Callable[[Any], None]], **settings: Any
) -> Any:
    """One run with more callbacks, as `train`."""
    original = ultralytics.YOLO.train

    def with_callbacks(self: Any, **arguments: Any) -> Any:
        for event, callback in callbacks.items():
            self.add_callback(event, callback)
        return original(self, **arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ultralytics.YOLO, "train", with_callbacks)
        return train(given, ckpt, model, **settings)


def skipping(
    windows: set[int], monkeypatch: pytest.MonkeyPatch, length: int = WINDOW
) -> dict[str, Callable[[Any], None]]:
    """Makes a stock run never see the batches of these windows, nor step at their ends."""
    from ultralytics.engine.trainer import BaseTrainer
    from ultralytics.nn.tasks import DetectionModel

    batch = [-1]
    forward, step = DetectionModel.forward, BaseTrainer.optimizer_step

    def skipped() -> bool:
        return batch[0] // length in windows

    def run_or_not(self: Any, x: Any, *more: Any, **named: Any) -> Any:
        if isinstance(x, dict) and self.training and skipped():
            if getattr(self, "criterion", None) is None:
                self.criterion = self.init_criterion()
            names = ("box_loss", "cls_loss", "dfl_loss")
            return torch.zeros(1, requires_grad=True), {n: torch.zeros(()) for n in names}
        return forward(self, x, *more, **named)

    def step_or_not(self: Any) -> None:
        self.optimizer.zero_grad() if skipped() else step(self)

    monkeypatch.setattr(DetectionModel, "forward", run_or_not)
    monkeypatch.setattr(BaseTrainer, "optimizer_step", step_or_not)
    return {"on_train_batch_start": lambda _: batch.__setitem__(0, batch[0] + 1)}


def same_state(stock: dict[str, Any], planned: dict[str, Any]) -> list[str]:
    """Names of model and EMA tensors that differ, and of the optimizer's."""
    for end in (stock, planned):
        end.pop("losses")  # those of dropped batches are nothing
        states = end["trainer"].optimizer.state.values()
        end |= {f"optimizer.{i}.{k}": v for i, s in enumerate(states) for k, v in s.items()}
    return unequal(stock, planned)


ALL = os.environ.get("YOLO_CKPT_ALL_CASES") == "1"  # several minutes
CASES = [
    (place, {batch} if not again else {batch, 2 * (batch // 2) + 2})
    for place in PLACES
    for again in (False, True)
    for batch in ((0, 3, 4, 7, 8, 11) if not again else (0, 3, 5, 7, 9))
]
CHOSEN = CASES if ALL else [case for i, case in enumerate(CASES) if i % 12 in (0, 2, 5) or i in (7, 31)]


@pytest.mark.parametrize(("place", "at"), CHOSEN, ids=[f"{p} {sorted(a)}" for p, a in CHOSEN])
def test_the_run_is_one_that_never_saw_the_window(
    place: str,
    at: set[int],
    tiny: str,
    given: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing = Failing(place, at)
    settings = {}
    if len(at) > 1:  # a plan that can be tightened twice
        given, settings = {**given, "imgsz": 192}, {"ckpt_budget": "9000KiB"}
    with caplog.at_level(logging.WARNING, logger="ultralytics"):
        planned = run(given, tiny, "auto" if len(at) > 1 else "selective", failing.callbacks(), **settings)
    assert failing.failures == len({b for b in at if b < 3 * BATCHES})
    trainer = planned["trainer"]
    assert trainer.batch_size == 1
    assert trainer.epoch == 2
    ours = [r.getMessage() for r in caplog.records if "did not fit" in r.getMessage()]
    assert len(ours) == failing.failures
    assert not any("out of memory" in line.lower() for line in ours)
    report = (Path(trainer.save_dir) / "ckpt_report.md").read_text(encoding="utf-8")
    assert f"Steps that did not fit ({failing.failures})" in report
    loaded = ultralytics.YOLO(Path(trainer.save_dir) / "weights" / "last.pt")
    assert next(loaded.model.parameters()).isfinite().all()
    with monkeypatch.context() as patch:
        stock = run(given, tiny, "stock", skipping({b // WINDOW for b in at}, patch))
    assert same_state(stock, planned) == []


def test_a_window_that_goes_on_in_the_next_epoch_is_dropped_whole(
    tiny: str, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**given, "nbs": 3}  # batches 3, 4 and 5, of which the first is the last of its epoch
    planned = run(given, tiny, "selective", Failing("head", {3}).callbacks())
    with monkeypatch.context() as patch:
        stock = run(given, tiny, "stock", skipping({1}, patch, 3))
    assert same_state(stock, planned) == []


def seen_by_validation(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, tuple[int, ...]]]:
    """File and shape of every image that is validated, in order."""
    from ultralytics.models.yolo.detect import DetectionValidator

    seen: list[tuple[str, tuple[int, ...]]] = []
    preprocess = DetectionValidator.preprocess

    def note(self: Any, batch: Any) -> Any:
        seen.extend((Path(file).name, tuple(batch["img"].shape[2:])) for file in batch["im_file"])
        return preprocess(self, batch)

    monkeypatch.setattr(DetectionValidator, "preprocess", note)
    return seen


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Sixteen images of two shapes."""
    import cv2
    import numpy as np

    root, rng = tmp_path / "mixed", np.random.default_rng(0)
    for i in range(16):
        for kind in ("images", "labels"):
            (root / kind).mkdir(parents=True, exist_ok=True)
        image = rng.integers(0, 255, (32 if i % 2 else 96, 96, 3), dtype=np.uint8)
        cv2.imwrite(str(root / "images" / f"{i}.png"), image)
        (root / "labels" / f"{i}.txt").write_text("0 0.5 0.5 0.2 0.4", encoding="utf-8")
    path = root / "data.yaml"
    path.write_text(f"path: {root}\ntrain: images\nval: images\nnames: [a, b]\n", encoding="utf-8")
    return path


class FailingValidation:
    """Makes the first validation batch of the validation numbered `at` fail `times` times."""

    def __init__(self, at: int, times: int) -> None:
        self.at, self.times, self.validation = at, times, -1

    def callbacks(self) -> dict[str, Callable[[Any], None]]:
        return {"on_train_epoch_end": self.next, "on_train_start": self.arm}

    def next(self, _: Any) -> None:
        self.validation += 1

    def arm(self, trainer: Any) -> None:
        trainer.validator.callbacks["on_val_batch_start"].append(self.fail)

    def fail(self, _: Any) -> None:
        if self.validation == self.at and self.times:
            self.times -= 1
            raise_failed()


VALIDATIONS = [(ckpt, at, times) for ckpt in ("selective", "full") for at in range(4) for times in (1, 2)]


@pytest.mark.parametrize(("ckpt", "at", "times"), VALIDATIONS if ALL else VALIDATIONS[1::5])
def test_a_validation_that_does_not_fit_is_done_in_smaller_parts(
    ckpt: str, at: int, times: int, tiny: str, given: dict[str, Any], mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {**given, "batch": 4, "data": str(mixed), "val": True, "epochs": 3}
    failing = FailingValidation(min(at, 2), times)
    if at == 3:  # the last one, of the best weights
        failing.at, failing.times = 2, 0
        original = failing.next
        failing.next = lambda t: (original(t), setattr(failing, "times", 0))  # type: ignore[method-assign,func-returns-value,assignment]
    with monkeypatch.context() as patch:
        seen = seen_by_validation(patch)
        callbacks = failing.callbacks()
        if at == 3:
            callbacks["on_model_save"] = lambda t: setattr(failing, "times", times if t.epoch == 2 else 0)
        planned = run(given, tiny, ckpt, callbacks)
    assert failing.times == 0
    trainer = planned["trainer"]
    assert trainer.test_loader.batch_size == 4 // 2**times
    events = type(trainer)._yolo_ckpt_run.validation.events
    assert [line.partition(": ")[2] for line in events] == [
        f"{4 // 2**i} images at a time did not fit; now {2 // 2**i}" for i in range(times)
    ]
    with monkeypatch.context() as patch:
        expected = seen_by_validation(patch)
        stock = run(given, tiny, "stock", {})
    assert len({shape for _, shape in expected}) > 1
    assert len(seen) == len(expected) == 4 * 16
    assert seen == expected
    assert unequal(stock, planned) == []


def test_validation_takes_as_many_images_as_training(tiny: str, given: dict[str, Any], mixed: Path) -> None:
    given = {**given, "batch": 2, "data": str(mixed), "val": True, "epochs": 1}
    for ckpt, batch in (("full", 2), ("stock", 4)):
        assert run(given, tiny, ckpt, {})["trainer"].test_loader.batch_size == batch


@pytest.mark.parametrize(
    ("group", "most", "part"), [(8, 4, 4), (8, 3, 2), (6, 4, 3), (10, 2, 2), (14, 3, 2), (5, 9, 5), (1, 0, 1)]
)
def test_parts_do_not_cross_groups(group: int, most: int, part: int) -> None:
    assert _part_of(group, most) == part


def test_one_image_that_does_not_fit_ends_validation_with_the_hosts_error(tiny: str, given: dict[str, Any]) -> None:
    given = {**given, "batch": 2, "val": True, "epochs": 1}
    with pytest.raises(torch.OutOfMemoryError, match="made"):
        run(given, tiny, "full", FailingValidation(0, 99).callbacks())


def test_a_later_epoch_without_a_tighter_plan_is_begun_again_with_half_the_batch(
    tiny: str, given: dict[str, Any]
) -> None:
    failing = Failing("backbone", {2})
    planned = run(
        {**given, "batch": 2}, tiny, "full", failing.callbacks()
    )  # two batches in an epoch: the second's first
    trainer = planned["trainer"]
    assert failing.failures == 1
    assert trainer.batch_size == trainer.args.batch == 1
    assert trainer.start_epoch == 0
    assert trainer.epoch == 2
    assert failing.count == 2 + 1 + 2 * BATCHES - 1  # the first epoch, the failed batch, two epochs with half the batch
    rows = (Path(trainer.save_dir) / "results.csv").read_text(encoding="utf-8").splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["1", "2", "3"]


def test_the_end_is_the_hosts_error_and_what_was_saved_is_there(tiny: str, given: dict[str, Any]) -> None:
    failing = Failing("head", set(range(2, 99)))
    with pytest.raises(torch.OutOfMemoryError, match="made"):
        run({**given, "batch": 2}, tiny, "full", failing.callbacks())
    assert failing.failures == 4  # as often as the host tries
    last = Path(given["project"]) / "run" / "weights" / "last.pt"
    assert next(ultralytics.YOLO(last).model.parameters()).isfinite().all()


def test_another_error_is_not_taken_for_one_of_memory(tiny: str, given: dict[str, Any]) -> None:
    failing = Failing("backbone", {3})
    failing.on_input = lambda *_: (_ for _ in ()).throw(RuntimeError("something else"))  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="something else"):
        run(given, tiny, "selective", failing.callbacks())


def test_what_failed_is_let_go(tiny: str, given: dict[str, Any]) -> None:
    """The host still holds the loss when the next batch begins; the graph behind it is gone."""
    import gc
    import weakref

    kept: list[weakref.ref[Any]] = []
    alive: list[bool] = []

    class Watched(Failing):
        def on_output(self, module: nn.Module, given: Any, out: Tensor) -> None:
            super().on_output(module, given, out)
            if self.count in self.at and out.requires_grad and not out.is_meta:
                kept.append(weakref.ref(out.grad_fn))

        def next(self, trainer: Any) -> None:
            super().next(trainer)
            gc.collect()
            alive.extend(ref() is not None for ref in kept)

    run(given, tiny, "selective", Watched("gradient of the head", {4}).callbacks())
    assert alive
    assert not any(alive)


def test_a_run_that_is_over_holds_nothing(tiny: str, given: dict[str, Any]) -> None:
    """The guard lies on the model: no table of the package keeps model, optimizer or trainer."""
    import gc
    import weakref

    found = run({**given, "epochs": 1}, tiny, "full", {})
    alive = [weakref.ref(found["trainer"]), weakref.ref(found["trainer"].model)]
    found.clear()
    gc.collect()
    assert [ref() for ref in alive] == [None, None]
