"""What is said about splits as a whole, and about files that do not belong together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from yolo_ckpt.data.check.dataset import DataSet
from yolo_ckpt.data.check.findings import Finding, Severity, finding
from yolo_ckpt.data.check.scan import Looked
from yolo_ckpt.units import many

_TRAINED = ("train", "val")  # a run needs both
_ENOUGH, _RISING, _LEAVING, _FAR = 5, 0.85, 0.25, 0.02  # boxes, shares of them, share of the image


def split_findings(data: DataSet, looked: Sequence[Looked], dropped: set[str]) -> Iterator[Finding]:
    """Splits without images, without usable ones, or without labels."""
    for split, listing in data.listings.items():
        mine = [one for one in looked if one.split == split]
        used = [one for one in mine if one.path not in dropped]
        kind: Severity = "fails" if split in _TRAINED else "note"
        where = ", ".join(listing.folders) or data.yaml
        if not mine:
            if not any(f.code == "split-missing" for f in listing.findings):
                yield finding("split-empty", where, f"{split} has no image that the host takes", kind=kind)
        elif not used:
            yield finding("split-unusable", where, f"all {len(mine):,} images of {split} are dropped", kind=kind)
        elif not any(one.labels.found for one in used):
            stops: Severity = "fails" if split == "train" else "note"
            reason = f"{split}: none of {len(used):,} images has one; looked for {used[0].label_path}"
            yield finding("split-unlabelled", where, reason, kind=stops)


def overlap_findings(data: DataSet) -> Iterator[Finding]:
    """Splits that list the same files."""
    splits = list(data.listings.items())
    for i, (split, listing) in enumerate(splits):
        for other, another in splits[i + 1 :]:
            shared = len(set(listing.images) & set(another.images))
            if shared:
                yield finding("split-overlap", data.yaml, f"{shared:,} images of {other} are in {split} too")


def file_findings(data: DataSet, looked: Sequence[Looked]) -> Iterator[Finding]:
    """Label files that several images share or none has, and arrays that are loaded instead of images."""
    owners: dict[str, list[Looked]] = defaultdict(list)
    for one in {one.path: one for one in looked}.values():
        owners[one.label_path].append(one)
    yield from _shared(owners)
    yield from _corners(data, looked)
    yield from _replaced(data, looked)
    yield from _orphans(data, owners)


def _shared(owners: Mapping[str, Sequence[Looked]]) -> Iterator[Finding]:
    """Images of one stem. Where their sizes differ, they hardly show the same."""
    for path, images in owners.items():
        if len(images) > 1:
            sizes = {(one.header.width, one.header.height) for one in images}
            kind: Severity = "loses" if len(sizes) > 1 else "note"
            differ = " of different sizes: one of them is trained with labels of another" if len(sizes) > 1 else ""
            yield finding("label-shared", path, f"{many(len(images), 'image')}{differ}", kind=kind)


def _corners(data: DataSet, looked: Iterable[Looked]) -> Iterator[Finding]:
    """Boxes `x1 y1 x2 y2`: their third and fourth numbers are larger than the first and second, and read as centre and
    size most of them leave the image. That of boxes that are right: large ones in the middle do not leave it."""
    boxes = [one.labels.boxes for one in looked if one.labels.found and not one.labels.code and len(one.labels.boxes)]
    every = np.concatenate(boxes) if boxes else np.zeros((0, 4))
    rising = (every[:, 2:] > every[:, :2]).all(1)
    leaving = ((every[:, :2] - every[:, 2:] / 2 < -_FAR) | (every[:, :2] + every[:, 2:] / 2 > 1 + _FAR)).any(1)
    if len(every) >= _ENOUGH and rising.mean() > _RISING and leaving.mean() > _LEAVING:
        yield finding("label-corners", data.yaml, f"{int((rising & leaving).sum()):,} of {len(every):,} objects")


def _replaced(data: DataSet, looked: Iterable[Looked]) -> Iterator[Finding]:
    """The host loads an .npy file beside an image, unless it is older (`BaseDataset.load_image`)."""
    arrays = {array for listing in data.listings.values() for array in listing.arrays}
    for one in looked if arrays else ():
        array = Path(one.path).with_suffix(".npy")
        if str(array) in arrays and _is_newer(array, Path(one.path)):
            yield finding("image-replaced", one.path, f"{array.name} is loaded instead")


def _is_newer(array: Path, image: Path) -> bool:
    try:
        return array.stat().st_mtime >= image.stat().st_mtime
    except OSError:
        return False


def _orphans(data: DataSet, owners: Mapping[str, Sequence[Looked]]) -> Iterator[Finding]:
    """Label files below the folders where the labels of a split are, for which there is no picture of any kind."""
    pictures = {
        Path(f.file).stem for each in data.listings.values() for f in each.findings if f.code == "image-ignored"
    }
    names = {Path(one.path).name for images in owners.values() for one in images}
    seen: set[Path] = set()
    for folder in _label_folders(data):
        for path in sorted(folder.rglob("*.txt")):
            if path in seen or str(path) in owners or path.stem in pictures or path.name.startswith("."):
                continue
            seen.add(path)
            rows = _rows(path)
            if rows and path.stem in names:
                advice = f"name it {Path(path.stem).stem}.txt: the image's ending does not stay in it"
                yield finding("label-orphan", str(path), f"{many(rows, 'row')} for {path.stem}", advice=advice)
            elif rows:
                yield finding("label-orphan", str(path), f"{many(rows, 'row')}, and no image of that name")


def _label_folders(data: DataSet) -> list[Path]:
    from ultralytics.data.utils import img2label_paths

    roots = [folder for listing in data.listings.values() for folder in listing.folders]
    folders = [Path(path).parent for path in img2label_paths([str(Path(root) / "x.jpg") for root in roots])]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _rows(path: Path) -> int:
    """Rows of a label file; 0 for other texts, such as the names of the classes."""
    try:
        rows = [line.split() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
        numbers = [float(word) for word in rows[0]] if rows else []
    except (OSError, UnicodeDecodeError, ValueError):
        return 0
    return len(rows) if len(numbers) >= 5 else 0
