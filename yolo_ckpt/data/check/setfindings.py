"""What is said about splits as a whole, and about files that do not belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from yolo_ckpt.data.check.dataset import DataSet
from yolo_ckpt.data.check.findings import Finding, Severity, finding
from yolo_ckpt.data.check.scan import Looked
from yolo_ckpt.units import many

_TRAINED = ("train", "val")  # a run needs both


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
    owners = Counter(one.label_path for one in {one.path: one for one in looked}.values())
    for path, images in owners.items():
        if images > 1:
            yield finding("label-shared", path, many(images, "image"))
    yield from _replaced(data, looked)
    yield from _orphans(data, owners)


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


def _orphans(data: DataSet, owners: Counter[str]) -> Iterator[Finding]:
    """Label files below the folders where the labels of a split are, for which there is no picture of any kind."""
    pictures = {
        Path(f.file).stem for each in data.listings.values() for f in each.findings if f.code == "image-ignored"
    }
    seen: set[Path] = set()
    for folder in _label_folders(data):
        for path in sorted(folder.rglob("*.txt")):
            if path in seen or str(path) in owners or path.stem in pictures or path.name.startswith("."):
                continue
            seen.add(path)
            rows = _rows(path)
            if rows:
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
