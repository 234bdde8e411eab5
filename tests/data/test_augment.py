"""The presets: labels lie on their objects afterwards, grey stays grey, and the same seed gives the same images."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.data.shapes import SIDE, found, inside, labelled, overlaps, write_shapes
from yolo_ckpt.data.augment import Labelled, albumentations, augmentation
from yolo_ckpt.errors import RequestError
from yolo_ckpt.integration.augmented import augment
from yolo_ckpt.settings import AUGMENT

pytest.importorskip("ultralytics")

PRESETS = [name for name in AUGMENT if name != "none"]
TASKS = ["detect", "segment", "obb", "pose"]
STILL = {"mosaic": 0.0, "hsv_h": 0.0, "hsv_s": 0.0, "hsv_v": 0.0, "mask_ratio": 1}
presets = pytest.mark.parametrize("name", PRESETS)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The data set of shapes for a task."""
    return functools.cache(lambda task: write_shapes(tmp_path_factory.mktemp("shapes") / task, task, count=2))


def data_set(yaml: Path, task: str, name: str, **given: Any) -> Any:
    """The host's training set, as a run with the preset `name` has it."""
    from ultralytics.cfg import get_cfg
    from ultralytics.data.build import build_yolo_dataset
    from ultralytics.data.utils import check_det_dataset

    data = check_det_dataset(str(yaml))
    args = get_cfg(overrides={"task": task, "imgsz": SIDE, **STILL, **given})
    augment(SimpleNamespace(args=args, data=data, save_dir=yaml.parent), name)
    return build_yolo_dataset(args, data["train"], 2, data, mode="train")


def items(data: Any, count: int = 12, *, first: bool = False) -> list[dict[str, Any]]:
    """`count` items one after the other, or the first one as often."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    return [data[0 if first else i % len(data)] for i in range(count)]


@pytest.mark.parametrize("task", TASKS)
@presets
def test_labels_lie_on_their_objects(name: str, task: str, sets: Any) -> None:
    """Also on those that are cut at the border of the image, and no label is lost: there are as many as without."""
    augmented = items(data_set(sets(task), task, name))
    given = {
        key: augmentation(name, Labelled(task=task)).arguments.get(key) for key in ("translate", "scale", "degrees")
    }
    stock = items(data_set(sets(task), task, "none", **{k: v for k, v in given.items() if v is not None}))
    shares = [share for item in augmented for share in overlaps(labelled(task, item), found(item["img"].numpy()))]
    assert [len(item["cls"]) for item in augmented] == [len(item["cls"]) for item in stock]
    assert len(shares) > 150
    assert min(shares) > 0.9


FIXED = {"translate": 0.001, "scale": 0.001, "degrees": 0.001}


def orientations(name: str, task: str, sets: Any, **given: Any) -> set[int]:
    """In which of the eight orientations, by number, one image comes out."""
    args = {**FIXED, **given}
    data = data_set(sets(task), task, "none", **args, fliplr=0.0)
    upright = inside(data[0]["img"].numpy())[::8, ::8]
    views = [np.rot90(v, k) for v in (upright, upright.T) for k in range(4)]
    images = [item["img"].numpy() for item in items(data_set(sets(task), task, name, **args), 64, first=True)]
    return {int(np.argmax([(inside(image)[::8, ::8] == view).mean() for view in views])) for image in images}


def test_aerial_images_come_in_all_eight_orientations(sets: Any) -> None:
    assert len(orientations("aerial", "detect", sets)) == 8


@pytest.mark.parametrize("name", ["none", "industrial"])
def test_others_are_mirrored_at_most(name: str, sets: Any) -> None:
    assert len(orientations(name, "detect", sets)) == 2


@presets
def test_the_same_seed_gives_the_same_images(name: str, sets: Any) -> None:
    first, again = (items(data_set(sets("detect"), "detect", name, mosaic=1.0)) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one["img"], other["img"])
        assert torch.equal(one["bboxes"], other["bboxes"])
    assert not torch.equal(first[0]["img"], first[2]["img"])


def test_loaders_with_workers_give_the_same_images_again(sets: Any) -> None:
    """Each worker has a seed of its own, made of the run's."""
    from ultralytics.data.build import build_dataloader

    def batches() -> list[torch.Tensor]:
        torch.manual_seed(0)
        loader = build_dataloader(data_set(sets("detect"), "detect", "aerial"), 1, workers=2, device="cpu")
        images = [batch["img"] for _ in range(3) for batch in loader]
        assert loader.num_workers == 2
        loader.close()
        return images

    first, again = batches(), batches()
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert len({image.numpy().tobytes() for image in first}) == 6


def test_mirrored_keypoints_change_sides(sets: Any) -> None:
    """The three points of every shape go round clockwise, in a mirrored image too, since the first two change places;
    and they lie on the corners of their shapes."""
    for item in items(data_set(sets("pose"), "pose", "aerial", **FIXED), 24):
        points = item["keypoints"].numpy()[..., :2] * SIDE
        a, b = points[:, 1] - points[:, 0], points[:, 2] - points[:, 0]
        assert (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0] > 0).all()
        boxes = item["bboxes"].numpy() * SIDE
        corners = np.abs(points - boxes[:, None, :2]) - boxes[:, None, 2:] / 2
        assert np.abs(corners).max() < 1


def test_keypoints_that_a_mirror_makes_others_are_not_mirrored(sets: Any, tmp_path: Path) -> None:
    text = sets("pose").read_text(encoding="utf-8")
    yaml = tmp_path / "data.yaml"
    yaml.write_text("\n".join(row for row in text.splitlines() if not row.startswith("flip_idx")), encoding="utf-8")
    assert len(orientations("aerial", "pose", lambda _: yaml)) == 1
    assert "no flip_idx" in augmentation("aerial", Labelled(task="pose", mirrored=False)).left_out[0]


def test_images_without_labels(tmp_path: Path) -> None:
    for task in TASKS:
        yaml = write_shapes(tmp_path / task, task, count=2)
        for file in (yaml.parent / "labels" / "train").glob("*.txt"):
            file.write_text("", encoding="utf-8")
        assert [len(item["cls"]) for item in items(data_set(yaml, task, "aerial"), 6)] == [0] * 6


@presets
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_images_stay_grey(name: str, channels: int) -> None:
    """In both ways of storing them, and every transform does change something."""
    image = np.random.default_rng(0).integers(60, 200, (96, 80, 1), dtype=np.uint8).repeat(channels, 2)
    made = augmentation(name, Labelled(task="obb", channels=channels))
    for transform in made.transforms:
        transform.p = 1.0
        out = albumentations().Compose([transform], seed=1)(image=image)["image"]
        assert out.shape == image.shape
        assert out.dtype == np.uint8
        assert not np.array_equal(out, image)
        assert np.ptp(out.astype(int), axis=2).max() <= 1  # the way to L*a*b* and back rounds


@presets
def test_transforms_are_stock_and_come_back_from_their_records(name: str) -> None:
    """What weights and args.yaml hold: dictionaries of plain values that albumentations alone understands."""
    import yaml

    al = albumentations()
    for transform in augmentation(name, Labelled(task="detect")).transforms:
        assert type(transform).__module__.startswith("albumentations.")
        record = yaml.safe_load(yaml.safe_dump(al.to_dict(transform)))
        assert str(al.from_dict(record)) == str(transform)


@presets
def test_what_moves_labels(name: str) -> None:
    """Changes of pixels, but for the one transform that moves points exactly."""
    al = albumentations()
    for task in (*TASKS, "semantic", "depth"):
        moving = [
            t for t in augmentation(name, Labelled(task=task)).transforms if not isinstance(t, al.ImageOnlyTransform)
        ]
        exact = name == "aerial" and task != "obb"
        assert [type(t) for t in moving] == ([al.Transpose] if exact else [])


def test_rectangles_keep_their_shape() -> None:
    made = augmentation("aerial", Labelled(task="detect", rect=True))
    assert not [t for t in made.transforms if not isinstance(t, albumentations().ImageOnlyTransform)]
    assert "rect=True" in made.left_out[0]
    assert made.arguments["flipud"] == 0.5


def test_images_of_many_channels_get_no_pixel_transforms() -> None:
    made = augmentation("aerial", Labelled(task="segment", channels=8))
    assert made.transforms == ()
    assert "not 8" in made.left_out[-1]


def test_classification_is_refused() -> None:
    with pytest.raises(RequestError, match="auto_augment"):
        augmentation("medical", Labelled(task="classify"))
