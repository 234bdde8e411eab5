"""What can be wrong with a data set: one row for each kind of finding, with what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["fails", "loses", "note"]

SEVERITIES: tuple[Severity, ...] = ("fails", "loses", "note")


@dataclass(frozen=True, kw_only=True)
class Code:
    """A kind of finding.

    Attributes:
        kind: `fails` (training stops), `loses` (it goes on without images or objects, or with destroyed ones), `note`.
        title: What such files are, for the heading of a group.
        advice: What to do.
    """

    kind: Severity
    title: str
    advice: str


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong with one file.

    Attributes:
        code: A key of `CODES`.
        kind: That of the code, where the file is no exception.
        file: Path of the image, label file, folder or YAML.
        reason: What was found in it.
        advice: What to do.
    """

    code: str
    kind: Severity
    file: str
    reason: str
    advice: str


_CONVERT = "write them as 8-bit PNG with `yolo-ckpt convert`"
_COPY = "copy them again from the source"

# What it is, and what to do, by what becomes of training.
_FAILS = {
    "data-unusable": ("the data set cannot be used", "correct the YAML"),
    "split-missing": ("a split is not there", "correct its path in the YAML"),
    "split-empty": ("a split has no image", "correct its path, or convert its files"),
    "split-unusable": ("a split has no usable image", "repair what is listed here"),
    "split-unlabelled": (
        "a split has no label file",
        "put them where they are looked for: the host takes the image's path with its last /images/ (in small letters) "
        "replaced by /labels/, and .txt for the ending",
    ),
    "keypoints-undefined": ("kpt_shape is missing", "say kpt_shape: [points, 2 or 3] in the YAML"),
    "image-undecodable": ("images that stop training when they are loaded", _CONVERT),
    "image-channels": ("images with other channels than the data set", "correct channels: in the YAML, or the images"),
    "label-boxes": ("labels of boxes for a task of polygons", "label the outlines, or train task=detect"),
}
_LOSES = {
    "folder-unreadable": ("folders that cannot be read", "grant the right to read them"),
    "folder-loop": ("links back into their own folder, which the host follows again and again", "remove the link"),
    "list-entry": ("lines of a list that name no image", "correct or remove the line"),
    "image-ignored": ("pictures that the host passes over because of their names", _CONVERT),
    "image-missing": ("images that are not there", "bring them back, or unlist them"),
    "image-empty": ("images of zero bytes", _COPY),
    "image-unreadable": ("files that the host cannot read", "replace or remove them, or `yolo-ckpt convert` them"),
    "image-format": ("images in a format that the host refuses", _CONVERT),
    "image-too-small": ("images under 10 px", "remove them"),
    "image-too-large": ("images above the host's limit", "cut them into tiles: `yolo-ckpt convert tile=2048`"),
    "image-truncated": ("images that are cut off", _COPY),
    "image-rewritten": (
        "JPEGs with bytes after their end, which the host replaces with re-encoded ones",
        "keep a copy, or cut the extra bytes off",
    ),
    "image-few-levels": ("images of which the host keeps few grey levels", _CONVERT),
    "image-bands": ("bands that the host drops", "say channels: in the YAML, or choose with `yolo-ckpt convert`"),
    "image-pages": ("images of several pages; the host reads the first", "split them with `yolo-ckpt convert`"),
    "label-orphan": ("label files without an image", "bring the images back, or remove them"),
    "label-unreadable": ("unreadable label files; the host drops their images", "save them as UTF-8 text"),
    "label-malformed": ("wrong rows; the host drops their images", "correct the rows"),
    "label-outside": ("labels outside; the host drops their images", "write shares of the image, 0 to 1"),
    "label-class": ("unknown classes; the host drops their images", "correct the label, or names: in the YAML"),
    "label-corners": (
        "labels that look like corners (x1 y1 x2 y2) in the place of centre and size",
        "write class, centre x, centre y, width, height as shares of the image",
    ),
    "label-no-area": ("objects without area, which the host drops", "correct or remove the rows"),
    "object-too-small": (
        "objects of 2 px or less at this imgsz, which the host's augmentation drops",
        "train at a larger imgsz, or cut tiles with `yolo-ckpt convert`",
    ),
    "object-too-thin": (
        "objects at least 100 times as long as wide, which the host's augmentation drops",
        "cut them into shorter ones: `yolo-ckpt convert tile=`",
    ),
}
_NOTES = {
    "split-overlap": ("splits share images", "measure on images that were not trained on"),
    "image-deep": ("16-bit images, of which the host keeps the high byte", "enough, or `yolo-ckpt convert` them"),
    "image-uniform": ("images of a single value", "remove them, or convert their originals with another window="),
    "image-cmyk": ("CMYK images, converted without a profile", "make them RGB, to be sure of the colours"),
    "image-palette": ("palette images, read as colours", "nothing, unless their values are classes"),
    "image-bilevel": ("1-bit images, read as 0 and 255", "nothing, unless they are masks"),
    "image-turned": ("images turned by EXIF, trained on upright", "make sure the labels are for the upright picture"),
    "image-orientation": ("EXIF orientations that do not exist", "nothing: the host ignores them"),
    "image-duplicate": ("images with the same content", "keep one of them"),
    "image-leak": ("images with the same content in two splits", "keep it in one: the metrics are flattered"),
    "image-replaced": ("a newer .npy is loaded instead", "remove the .npy, unless it is the host's own cache"),
    "image-name": ("names that are not valid UTF-8", "rename them: loggers may stop at them"),
    "label-missing": ("images without a label file, trained as background", "nothing, if they show no object"),
    "label-shared": ("images that share a label file", "give each its own name, not only its own ending"),
    "label-over-edge": ("objects that reach over the edge", "nothing, if they are right: they are clipped"),
    "label-duplicate": ("rows that stand twice, which the host removes", "remove them"),
    "memory-workers": ("host memory", "fewer workers=, a smaller batch= or cache=False"),
    "memory-shared": ("shared memory", "fewer workers=, or a larger /dev/shm (docker run --shm-size)"),
    "memory-cache": ("the image cache", "cache=disk, or leave cache= out"),
}

_TABLES: tuple[tuple[Severity, dict[str, tuple[str, str]]], ...] = (
    ("fails", _FAILS), ("loses", _LOSES), ("note", _NOTES),
)  # fmt: skip
CODES = {
    code: Code(kind=kind, title=title, advice=advice)
    for kind, table in _TABLES
    for code, (title, advice) in table.items()
}


def finding(code: str, file: str, reason: str, *, kind: Severity | None = None, advice: str = "") -> Finding:
    """A finding of the kind `code`; `kind` and `advice` where this file is another case than most."""
    row = CODES[code]
    return Finding(code=code, kind=kind or row.kind, file=file, reason=reason, advice=advice or row.advice)


def counted(findings: Iterable[Finding]) -> dict[Severity, int]:
    """How many there are of each severity."""
    counts = Counter(f.kind for f in findings)
    return {kind: counts[kind] for kind in SEVERITIES}
