"""What a file that may be a label holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import yaml

from yolo_ckpt.data.convert.labels import mask
from yolo_ckpt.data.convert.labels.dota import is_heading
from yolo_ckpt.data.convert.problems import BrokenFileError
from yolo_ckpt.data.convert.sources import Source
from yolo_ckpt.errors import SettingsError

_MASK_FOLDERS = frozenset(
    ("annotations", "gt", "ground_truth", "groundtruth", "instances", "label", "labels", "mask", "masks",
     "segmentation", "segmentations", "segmentationclass", "segmentationobject")
)  # fmt: skip
_IMAGE_FOLDERS = frozenset(("image", "images", "img", "imgs", "jpegimages"))
_MASK_ENDINGS = ("_mask", "_masks", "_label", "_labels", "_gt", "_seg", "_segmentation", "_instance", "_instances")
_SNIFFED = 20


def seems_mask(file: Source) -> bool:
    """Whether a picture's folder or name says that it is a mask: the deepest folder that says anything counts."""
    for part in reversed(file.relative.parts[:-1]):
        if part.lower() in _MASK_FOLDERS | _IMAGE_FOLDERS:
            return part.lower() in _MASK_FOLDERS
    return without_ending(file.stem) != file.stem


def without_ending(stem: str) -> str:
    """A mask's stem without `_mask` and the like."""
    return next((stem[: -len(end)] for end in _MASK_ENDINGS if stem.lower().endswith(end)), stem)


def meaning_of(paths: Sequence[Path], asked: str) -> str:
    """What the values of masks are, where some of them leave no doubt.

    Raises:
        SettingsError: They do.
    """
    if asked != "auto":
        return asked
    seen: set[int] = set()
    for path in paths[:: max(1, len(paths) // _SNIFFED)][:_SNIFFED]:
        try:
            values = mask.read(path)
        except BrokenFileError:
            continue  # its image is listed as failed when its turn comes
        here = {int(v) for v in set(values.ravel()[:: max(1, values.size // 1_000_000)].tolist()) if v}
        if values.dtype.itemsize > 1 and len(here) > 1 and max(here) < mask.COLOUR:
            return "instance"  # nobody needs 16 bits for classes
        seen |= here
    if len(seen) > 1:
        few = ", ".join(map(mask.text_of, sorted(seen)[:5]))
        raise SettingsError(
            f"the masks have several values ({few}{', ...' if len(seen) > 5 else ''}): say mask=instance (a value for "
            f"each object) or mask=semantic (a value for each class)"
        )
    return "binary"


def sniffed(paths: Sequence[Path], belongs: Callable[[str], bool]) -> bool:
    """Whether what the first label files hold is of a format; empty ones say nothing."""
    lines: list[str] = []
    for path in paths[:: max(1, len(paths) // _SNIFFED)]:
        try:
            lines += [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()][:5]
        except (OSError, UnicodeDecodeError):
            continue
    lines = [line for line in lines if not is_heading(line)]
    return bool(lines) and sum(map(belongs, lines)) * 2 >= len(lines)


def is_dota(line: str) -> bool:
    """Whether a line is eight numbers and a class name."""
    words = line.split()
    return len(words) in (9, 10) and all(map(_is_number, words[:8])) and not _is_number(words[8])


def is_yolo(line: str) -> bool:
    """Whether a line is nothing but numbers, as many as a box has or more."""
    words = line.split()
    return len(words) >= 5 and all(map(_is_number, words))


def is_table(line: str) -> bool:
    """Whether a line of numbers is none of a YOLO label: they are fractions there, behind the class."""
    words = line.split()
    return all(map(_is_number, words)) and not all(0 <= float(word) <= 1.01 for word in words[1:])


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class Classes:
    """What a YOLO data set says of its label files.

    Attributes:
        names: Class names by number; empty where nothing says them.
        keypoint_values: Numbers behind the box in a row of a pose data set.
    """

    names: tuple[str, ...] = ()
    keypoint_values: int = 0


def yolo_classes(files: Iterable[Source], folders: Iterable[Path]) -> Classes:
    """What a data set's YAML, `classes.txt` or `obj.names` says: one among the files, or in one of the folders, where a
    YAML has to be a data set's.

    Raises:
        SettingsError: The names cannot be read.
    """
    inside = ((file.path, False) for file in sorted(files, key=lambda f: len(f.relative.parts)))
    near = ((path, True) for folder in folders for path in _named_in(folder))
    for path, strict in chain(inside, near):
        found = _classes_in(path, strict=strict)
        if found is not None:
            return found
    return Classes()


def _named_in(folder: Path) -> list[Path]:
    """Files of a folder that may name classes; none where it cannot be listed, since nobody asked for it."""
    try:
        paths = [path for path in folder.iterdir() if _may_name_classes(path)]
    except OSError:
        return []
    return sorted(path for path in paths if path.is_file())


def _may_name_classes(path: Path) -> bool:
    return path.suffix.lower() in (".yaml", ".yml") or path.name.lower() in ("classes.txt", "obj.names")


def _classes_in(path: Path, *, strict: bool) -> Classes | None:
    if not _may_name_classes(path):
        return None
    if path.suffix.lower() in (".yaml", ".yml"):
        return _of_yaml(path, strict=strict)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read as UTF-8 text ({error}); save it so, or take it away") from error
    return Classes(names=tuple(line.strip() for line in lines if line.strip()))


def _of_yaml(path: Path, *, strict: bool) -> Classes | None:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    if not isinstance(document, dict) or (strict and not document.keys() & {"train", "val"}):
        return None
    names, shape = document.get("names"), document.get("kpt_shape")
    if isinstance(names, dict) and names and all(isinstance(key, int) for key in names):
        names = [names.get(i, f"class_{i}") for i in range(max(names) + 1)]
    if not isinstance(names, list) or not names:
        return None
    values = shape[0] * shape[1] if isinstance(shape, list) and len(shape) == 2 else 0
    return Classes(names=tuple(map(str, names)), keypoint_values=values if isinstance(values, int) else 0)


def seems_coco(path: Path) -> bool:
    """Whether a JSON file speaks of what a COCO data set has, also where it is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return all(f'"{key}"'.encode() in content for key in ("images", "categories"))


def is_other_xml(path: Path) -> bool:
    """Whether an XML file is something else than Pascal VOC, as GDAL's `.aux.xml` beside an image is."""
    try:
        head = path.read_bytes()[:4096]
    except OSError:
        return False
    root = re.search(rb"<([A-Za-z][^\s>/]*)", head)
    return root is not None and root[1].lower() != b"annotation"
