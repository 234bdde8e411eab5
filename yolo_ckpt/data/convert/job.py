"""One source file to the images and labels it becomes. Runs in a worker process."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from yolo_ckpt.data.convert import dicom, limits, plain, tiff
from yolo_ckpt.data.convert.labels.find import Label
from yolo_ckpt.data.convert.labels.items import placed
from yolo_ckpt.data.convert.labels.load import loaded
from yolo_ckpt.data.convert.naming import frame_name, is_numbered, tile_name
from yolo_ckpt.data.convert.picture import Header, Picture
from yolo_ckpt.data.convert.problems import BrokenFileError, LeftOutError, raise_if_full, said
from yolo_ckpt.data.convert.request import Request
from yolo_ckpt.data.convert.rows import Row, Whole, cut_row, wholes
from yolo_ckpt.data.convert.sources import Source
from yolo_ckpt.data.convert.tiles import Tile, tiles
from yolo_ckpt.data.convert.writer import encoded, label_file

_FEW_LEVELS = 16


@dataclass(frozen=True, kw_only=True)
class Job:
    """What a worker needs for one source file.

    Attributes:
        source: The file.
        request: The whole request.
        header: What its header says.
        label: Its label, None for none.
        split: `train`, `val` or `test`.
        stem: What its images are called.
        folder: Where the data set is being written.
    """

    source: Source
    request: Request
    header: Header
    label: Label | None
    split: str
    stem: str
    folder: Path

    @property
    def bytes_needed(self) -> int:
        """Memory that the job may take."""
        return self.header.bytes_needed


@dataclass(kw_only=True)
class Outcome:
    """What became of one source file.

    Attributes:
        done: `converted`, `left out` or `failed`.
        why: Why not, without a path in it.
        sha256: Of the source file, where its name is not to stand in the report.
        images: Files written, from the data set's root.
        objects: Rows written, by class.
        empty: Images without an object.
        bands: Channels of the images.
        windows: How values became grey levels.
        notes: What was changed or left out, counted.
        dropped: What the source said besides its pixels, by kind.
    """

    done: str = "converted"
    why: str = ""
    sha256: str = ""
    images: list[str] = field(default_factory=list)
    objects: Counter[str] = field(default_factory=Counter)
    empty: int = 0
    bands: int = 0
    windows: set[str] = field(default_factory=set)
    notes: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Probe:
    """A source file whose header is wanted."""

    source: Source
    request: Request
    bytes_needed: int = 0


def probe(wanted: Probe) -> Header | Outcome:
    """The header of a source file, or why it will not be converted."""
    source, request = wanted.source, wanted.request
    try:
        if source.kind == "broken":
            raise BrokenFileError(source.why)
        if source.kind == "other":
            raise LeftOutError(source.why)
        found = _header(source, request)
        if not is_tiled(found.width, found.height, request):
            limits.check_trainable(found.width, found.height)
        return found
    except OSError as error:
        return not_done(source, request, BrokenFileError(f"it cannot be read: {said(error)}"))
    except (BrokenFileError, LeftOutError) as error:
        return not_done(source, request, error)


def _header(source: Source, request: Request) -> Header:
    if source.kind == "dicom":
        return dicom.header(source.path, request.group)
    return tiff.header(source.path, request.bands) if source.kind == "tiff" else plain.header(source.path)


def is_tiled(width: int, height: int, request: Request) -> bool:
    """True for a picture that is cut into tiles."""
    return 0 < request.tile < max(width, height)


def convert(job: Job) -> Outcome:
    """Writes what one source file becomes. Where that fails, images that its outcome does not list may be left.

    Raises:
        ConvertError: The disk is full.
    """
    outcome = Outcome()
    try:
        _convert(job, outcome)
    except OSError as error:
        raise_if_full(error)
        return not_done(job.source, job.request, BrokenFileError(f"it cannot be converted: {said(error)}"))
    except (BrokenFileError, LeftOutError) as error:
        return not_done(job.source, job.request, error)
    finally:
        _scratch(job).unlink(missing_ok=True)
    outcome.notes = +outcome.notes  # without the zeros
    outcome.sha256 = _digest(job.source, job.request)
    return outcome


def died(job: Job | Probe) -> Outcome:
    """The outcome of a file whose process ended."""
    error = BrokenFileError("its decoder crashed, or the system ended it for the memory it took")
    return not_done(job.source, job.request, error)


def not_done(source: Source, request: Request, error: BrokenFileError | LeftOutError) -> Outcome:
    """The outcome of a file that gives no image, and why."""
    why = str(error).replace(str(source.path), "the file").replace(source.path.name, "the file")
    done = "left out" if isinstance(error, LeftOutError) else "failed"
    return Outcome(done=done, why=why, sha256=_digest(source, request))


def _digest(source: Source, request: Request) -> str:
    if not is_numbered(source, request.names):
        return ""
    try:
        return hashlib.sha256(source.path.read_bytes()).hexdigest()
    except OSError:
        return "unreadable"


def _convert(job: Job, outcome: Outcome) -> None:
    if job.header.frames > 1 and job.label is not None:
        raise BrokenFileError(
            f"it has {job.header.frames} pictures and one label; convert it with labels=none and label its pictures"
        )
    for index, picture in enumerate(_pictures(job)):
        stem = job.stem if job.header.frames == 1 else frame_name(job.stem, index)
        outcome.bands = picture.pixels.shape[2]
        outcome.windows.add(picture.window.text)
        outcome.notes.update(picture.notes)
        outcome.dropped.update(picture.dropped)
        _write_picture(job, stem, picture, outcome)


def _pictures(job: Job) -> Iterator[Picture]:
    choice, path = job.request.window, job.source.path
    if job.source.kind == "dicom":
        return dicom.read(path, choice)
    if job.source.kind == "tiff":
        return tiff.read(path, choice, job.request.bands, _scratch(job))
    return iter([plain.read(path, choice)])


def _scratch(job: Job) -> Path:
    return job.folder / f"{job.stem}.unpacked"


def _write_picture(job: Job, stem: str, picture: Picture, outcome: Outcome) -> None:
    width, height = picture.size
    request = job.request
    objects = _objects(job, picture, outcome.notes)
    tiled = is_tiled(width, height, request)
    places = tiles(width, height, request.tile, request.overlap) if tiled else [(0, 0, width, height)]
    seen: set[int] = set()
    levels_seen = np.zeros(256, bool)
    around = np.array([whole.bounds for whole in objects or ()]).reshape(-1, 4)
    for place in places:
        x0, y0, x1, y1 = place
        limits.check_trainable(x1 - x0, y1 - y0)
        levels = picture.window.apply(np.asarray(picture.pixels[y0:y1, x0:x1]))
        levels_seen |= _levels_in(levels)
        name = tile_name(stem, place) if tiled else stem
        near = _touching(around, place)
        rows = _rows(objects, near, place, request, seen, outcome.notes) if objects is not None else None
        _write(job, name, levels, rows, outcome)
    _note_levels(picture, int(levels_seen.sum()), outcome.notes)
    if objects is not None:
        outcome.notes["objects shown too little by every tile, left out"] += len(objects) - len(seen)


def _levels_in(levels: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Which of the 256 grey levels (H, W, C) has; NumPy would count them in eight bytes for each."""
    whole = np.ascontiguousarray(levels)
    counts = [cv2.calcHist([whole], [channel], None, [256], [0, 256]).ravel() for channel in range(whole.shape[2])]
    found: npt.NDArray[np.bool_] = np.any(np.array(counts) > 0, axis=0)
    return found


def _note_levels(picture: Picture, count: int, notes: Counter[str]) -> None:
    if count == 1:
        notes["pictures of a single grey level: nothing can be seen in them (look at window=)"] += 1
    elif count < _FEW_LEVELS and picture.window.low and picture.pixels.dtype != bool:
        notes[f"pictures of fewer than {_FEW_LEVELS} grey levels (look at window=)"] += 1


def _objects(job: Job, picture: Picture, notes: Counter[str]) -> list[Whole] | None:
    """The objects of the picture; None where it has no label."""
    if job.label is None:
        return None
    annotation = loaded(job.label, picture.size, job.request)
    notes.update(annotation.notes)
    items = placed(annotation, picture.size, picture.stored_size, picture.orientation)
    return wholes(items, picture.size, job.request.task, notes)


def _touching(around: npt.NDArray[np.float64], place: Tile) -> list[int]:
    """Which of the boxes (N, 4) a tile touches: there may be thousands of both."""
    x0, y0, x1, y1 = place
    found = (around[:, 0] <= x1) & (around[:, 2] >= x0) & (around[:, 1] <= y1) & (around[:, 3] >= y0)
    indices: list[int] = np.flatnonzero(found).tolist()
    return indices


def _rows(
    objects: list[Whole], near: list[int], place: Tile, request: Request, seen: set[int], notes: Counter[str]
) -> list[Row]:
    rows = []
    for index in near:
        row = cut_row(objects[index], place, request.task, request.min_visible, notes)
        if row is not None:
            rows.append(row)
            seen.add(index)
    return rows


def _write(job: Job, name: str, levels: npt.NDArray[np.uint8], rows: list[Row] | None, outcome: Outcome) -> None:
    data, suffix = encoded(levels, job.request.jpeg)
    image = f"images/{job.split}/{name}{suffix}"
    outcome.images.append(image)
    (job.folder / image).write_bytes(data)
    if rows is not None:
        lines = [json.dumps([row.name, " ".join(f"{v:.7g}" for v in row.values)]) for row in rows]
        label_file(job.folder / image).write_text("\n".join(lines), encoding="utf-8")
    outcome.objects.update(row.name for row in rows or ())
    outcome.empty += int(not rows)
