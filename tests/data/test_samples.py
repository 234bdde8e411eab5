"""Samples: what is asked for is written whole or not at all; the nuclei's labels are their mask."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from yolo_ckpt.data import samples
from yolo_ckpt.data.samples import medical
from yolo_ckpt.data.samples.files import Image, Sample, decoded, write_yaml
from yolo_ckpt.data.wheels import Wheel
from yolo_ckpt.errors import SampleError, SettingsError


def one_file(folder: Path, final: Path) -> None:
    write_yaml(folder / "data.yaml", final, {0: "a"})


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(samples.SAMPLES, "tiny", Sample(write=one_file))


@pytest.mark.usefixtures("tiny")
def test_a_sample_is_written_once(tmp_path: Path) -> None:
    folder = tmp_path / "a #b" / "tiny"  # a comment in YAML, if it were not quoted
    assert samples.write_sample("tiny", folder) == ([folder / "data.yaml"], True)
    assert yaml.safe_load((folder / "data.yaml").read_text(encoding="utf-8"))["path"] == str(folder)
    assert samples.write_sample("tiny", folder) == ([folder / "data.yaml"], False)
    assert [p.name for p in folder.parent.iterdir()] == ["tiny"]


@pytest.mark.usefixtures("tiny")
def test_a_folder_with_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(SettingsError, match="is there already and is no sample"):
        samples.write_sample("tiny", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_what_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(folder: Path, final: Path) -> None:
        one_file(folder, final)
        raise SampleError("the network is down")

    monkeypatch.setitem(samples.SAMPLES, "tiny", Sample(write=broken))
    with pytest.raises(SampleError):
        samples.write_sample("tiny", tmp_path / "tiny")
    assert not list(tmp_path.iterdir())


def discs(height: int = 160, width: int = 200, count: int = 40) -> Image:
    """An instance mask (H, W) of discs, the later ones over the earlier."""
    rng, mask = np.random.RandomState(0), np.zeros((height, width), np.uint16)
    for i in range(1, count + 1):
        centre, axes = (rng.randint(0, width), rng.randint(0, height)), (rng.randint(3, 14), rng.randint(3, 14))
        cv2.ellipse(mask, centre, axes, float(rng.randint(0, 180)), 0, 360, i, -1)
    return mask


def test_no_object_is_on_both_sides_of_the_cut() -> None:
    mask = discs(width=240, count=120)
    end, begin = medical.columns(mask)
    assert 80 <= end <= begin < 240
    left, right = mask[:, :end], mask[:, begin:]
    assert not set(np.unique(left[left > 0])) & set(np.unique(right[right > 0]))
    assert len(np.unique(left)) > 10
    assert len(np.unique(right)) > 5

    def crossing(column: int) -> int:
        return len(set(np.unique(mask[:, :column])) & set(np.unique(mask[:, column:])))

    assert begin > end  # some object crosses every column
    assert crossing(end) == min(crossing(column) for column in range(80, 161))


def test_windows_keep_grey_levels() -> None:
    image = np.random.RandomState(0).randint(0, 2048, (256, 256)).astype(np.uint16)
    grey, low, high = medical.windowed(image)
    assert grey.dtype == np.uint8
    assert len(np.unique(grey)) >= 200
    assert 0 <= low < 10
    assert 2037 < high < 2048


@pytest.fixture
def made_wheels(monkeypatch: pytest.MonkeyPatch) -> Image:
    """Archives laid out as the two wheels, with a made image; its mask."""
    mask = discs(128, 192)
    mask[60:75, :2] = 99  # a nucleus of which the border of the image leaves two columns
    image = (20 + 200 * (mask > 0) + np.random.RandomState(1).randint(0, 20, mask.shape)).astype(np.uint16)
    members = {
        f"stardist/data/images/{name}.tif": cv2.imencode(".tif", content)[1].tobytes()
        for name, content in (("img2d", image), ("mask2d", mask))
    }
    members["stardist-0.9.2.dist-info/licenses/LICENSE.txt"] = b"BSD"
    members["pydicom-3.0.2.dist-info/licenses/LICENSE"] = b"MIT"
    members |= {f"pydicom/data/test_files/{name}": name.encode() for name in (*medical.DICOM, "README.txt")}

    @contextmanager
    def opened(wheel: Wheel) -> Iterator[zipfile.ZipFile]:
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as archive:
            for name, content in members.items():
                if name.startswith(wheel.name):
                    archive.writestr(name, content)
        with zipfile.ZipFile(held) as archive:
            yield archive

    monkeypatch.setattr(medical, "opened", opened)
    return mask


def test_the_medical_sample(made_wheels: Image, tmp_path: Path) -> None:
    """The host finds every image and label in order, and originals and licences lie beside them."""
    from ultralytics.data.utils import check_det_dataset, verify_image_label

    (yaml_file,), _ = samples.write_sample("medical", tmp_path / "nuclei")
    root, data = yaml_file.parent, check_det_dataset(yaml_file)
    found = 0
    for split in ("train", "val"):
        (image,) = Path(data[split]).glob("*.png")
        label = root / "labels" / split / f"{image.stem}.txt"
        checked = verify_image_label((str(image), str(label), "", False, 1, 0, 0, False))
        assert checked[-1] == ""  # nothing to complain of
        found += len(checked[1])
        assert len(checked[3]) == len(checked[1])  # a polygon for each
    end, begin = medical.columns(made_wheels)
    parts = [part == i for part in (made_wheels[:, :end], made_wheels[:, begin:]) for i in np.unique(part[part > 0])]
    thin = sum(min(part.any(axis=0).sum(), part.any(axis=1).sum()) < 3 for part in parts)
    assert 0 < thin == len(parts) - found
    for name, member in medical.ORIGINALS.items():
        assert decoded((root / "originals" / name).read_bytes()).dtype == np.uint16, member
    assert (root / "originals" / "dicom" / "CT_small.dcm").read_bytes() == b"CT_small.dcm"
    assert {p.name for p in (root / "originals" / "dicom").iterdir()} >= {"LICENSE", "README.txt"}
    note = (root / "NOTE.txt").read_text(encoding="utf-8")
    assert f"columns 0 to {end - 1}" in note
    assert f"column {begin}" in note
