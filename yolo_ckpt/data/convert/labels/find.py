"""Finds the labels of the images: the format, the files, the class names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from yolo_ckpt.data.convert.labels import coco
from yolo_ckpt.data.convert.labels.match import Candidate, matched
from yolo_ckpt.data.convert.labels.recognise import (
    is_dota,
    is_other_xml,
    is_table,
    is_yolo,
    meaning_of,
    seems_coco,
    seems_mask,
    sniffed,
    without_ending,
    yolo_classes,
)  # fmt: skip
from yolo_ckpt.data.convert.request import Request
from yolo_ckpt.data.convert.sources import Source, sources, split_in_name, split_named
from yolo_ckpt.errors import SettingsError
from yolo_ckpt.units import many


@dataclass(frozen=True, kw_only=True)
class Label:
    """Where the label of one image is.

    Attributes:
        format: One of `request.FORMATS`.
        path: The file.
        entry: The image's part of a COCO file.
        meaning: What the values of a mask are.
        names: Class names by number, for YOLO text.
        keypoint_values: Numbers behind the box in its rows.
    """

    format: str
    path: Path
    entry: coco.Entry | None = None
    meaning: str = ""
    names: tuple[str, ...] = ()
    keypoint_values: int = 0


@dataclass(frozen=True, kw_only=True)
class Labels:
    """The labels of a data set.

    Attributes:
        format: One of `request.FORMATS`, empty where there are none.
        images: The files to convert: no masks among them.
        of_image: Labels by place in `images`.
        unclear: Images for which more than one label fits, and why.
        unused: Labels whose image is not there.
        names: Class names in the order of their numbers; empty where only the labels tell.
        splits: By place in `images`, where a COCO file's name says it.
        stray: Annotations of COCO files that belong to no image there.
    """

    format: str
    images: tuple[Source, ...]
    of_image: dict[int, Label] = field(default_factory=dict)
    unclear: dict[int, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    splits: dict[int, str] = field(default_factory=dict)
    stray: int = 0


def find_labels(files: Sequence[Source], request: Request) -> Labels:
    """The labels under `labels=`, or else under `src=`.

    Raises:
        SettingsError: More than one format is there, or `labels=` has none that belongs to an image.
    """
    images = tuple(f for f in files if f.kind and (request.src.is_dir() or f.path == request.src))
    images = _without_masks(files, images, request)
    if request.without_labels:
        return Labels(format="", images=images)
    files = files if request.labels is None else _under(request.labels)
    wanted = [request.format_in] if request.format_in else list(_FINDERS)
    tried = [labels for name in wanted if (labels := _FINDERS[name](files, images, request))]
    found = [labels for labels in tried if labels.of_image or labels.unclear]
    if len(found) > 1:
        counts = " and ".join(f"{labels.format} for {len(labels.of_image)} images" for labels in found)
        raise SettingsError(f"labels of several formats are there: {counts}; choose with format_in=, or labels=none")
    if not found and (request.labels is not None or request.format_in):
        where = request.labels or request.src
        kind = f"{request.format_in} label" if request.format_in else "label"
        raise SettingsError(f"{where} has no {kind} for any image under src={request.src}; names have to match")
    if not found and request.src.is_dir():
        _refuse_strangers(tried, request)
    return found[0] if found else Labels(format="", images=images)


def _refuse_strangers(tried: Sequence[Labels], request: Request) -> None:
    """Labels are there, and were written for other names."""
    for labels in tried:
        if labels.unused:
            raise SettingsError(
                f"{many(len(labels.unused), f'{labels.format} label')} under src={request.src}, such as "
                f"{labels.unused[0]}, and none has the name of an image; correct the names, or say labels=none"
            )


def _under(labels: Path) -> list[Source]:
    if labels.is_dir():
        return sources(labels)
    return [f for f in sources(labels) if f.path == labels]


def _find_coco(files: Sequence[Source], images: tuple[Source, ...], request: Request) -> Labels | None:
    paths = [f.path for f in files if f.path.suffix.lower() == ".json"]
    if not request.format_in and (request.labels is None or request.labels.is_dir()):
        paths = [path for path in paths if seems_coco(path)]
    names: dict[str, None] = {}
    candidates, stray = [], 0
    for path in paths:
        found, order, others = coco.entries(path)
        stray += others
        names.update(dict.fromkeys(order))
        candidates += [_coco_candidate(entry, path) for entry in found]
    matches = matched([((f.path.name, f.stem), f.relative) for f in images], candidates)
    given = {i: (split_in_name(e.source), e) for i, (e, _) in matches.labels.items()}
    return Labels(
        format="coco",
        images=images,
        of_image={i: Label(format="coco", path=path, entry=e) for i, (e, path) in matches.labels.items()},
        unclear=dict(matches.unclear),
        unused=tuple(entry.file_name for entry, _ in matches.unused),
        names=tuple(names),
        splits={i: split for i, (split, _) in given.items() if split},
        stray=stray,
    )


def _coco_candidate(entry: coco.Entry, path: Path) -> Candidate[tuple[coco.Entry, Path]]:
    name = PurePath(entry.file_name.replace("\\", "/"))
    folder = name.parent / (split_in_name(entry.source) or ".")
    return Candidate(key=(entry, path), stems=(name.name, name.stem), folder=folder)


def _find_voc(files: Sequence[Source], images: tuple[Source, ...], request: Request) -> Labels | None:
    found = [f for f in files if f.path.suffix.lower() == ".xml" and (request.format_in or not is_other_xml(f.path))]
    labels = _beside(found, images, "voc")
    listed = _listed_splits(files)
    splits = {i: listed[f.stem] for i, f in enumerate(images) if f.stem in listed}
    return replace(labels, splits={**splits, **labels.splits})


def _listed_splits(files: Sequence[Source]) -> dict[str, str]:
    """The split of each stem in `ImageSets/Main/train.txt` and the like."""
    found: dict[str, str] = {}
    for file in files:
        if "ImageSets" in file.relative.parts and file.path.name in ("train.txt", "val.txt", "test.txt"):
            lines = file.path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
            found.update({line.split()[0]: file.path.stem for line in lines if line.strip()})
    return found


def _find_dota(files: Sequence[Source], images: tuple[Source, ...], request: Request) -> Labels | None:
    return _texts(files, images, "dota", is_dota, request)


def _find_yolo(files: Sequence[Source], images: tuple[Source, ...], request: Request) -> Labels | None:
    labels = _texts(files, images, "yolo", is_yolo, request)
    if labels is None:
        return None
    folders = [request.src.parent] if request.labels is None else [request.labels.parent, request.src]
    classes = yolo_classes(files, folders)
    names = classes.names or request.classes
    of_image = {
        i: replace(label, names=names, keypoint_values=classes.keypoint_values) for i, label in labels.of_image.items()
    }
    return replace(labels, names=names, of_image=of_image)


def _texts(
    files: Sequence[Source], images: tuple[Source, ...], name: str, belongs: Callable[[str], bool], request: Request
) -> Labels | None:
    labels = _beside([f for f in files if f.path.suffix.lower() == ".txt"], images, name)
    mine = [label.path for label in labels.of_image.values()]
    if mine and not request.format_in and not sniffed(mine, belongs):
        return None
    root = request.labels or request.src
    sure = belongs if mine else lambda line: belongs(line) and not is_table(line)
    unused = [text for text in labels.unused if sniffed([root / text], sure)]  # not classes.txt, train.txt, notes
    return replace(labels, unused=tuple(unused))


def _find_mask(files: Sequence[Source], images: tuple[Source, ...], request: Request) -> Labels | None:
    pictures = {f.path.resolve() for f in images}
    masks = [f for f in files if f.kind in ("image", "tiff") and f.path.resolve() not in pictures]
    labels = _beside(masks, images, "mask")
    if not labels.of_image:
        return None
    meaning = meaning_of([label.path for label in labels.of_image.values()], request.mask)
    of_image = {i: replace(label, meaning=meaning) for i, label in labels.of_image.items()}
    return replace(labels, of_image=of_image)


def _without_masks(files: Sequence[Source], images: tuple[Source, ...], request: Request) -> tuple[Source, ...]:
    """Masks are no images to convert, whatever format the labels have: what seems to be one, or lies in the folder of
    the labels, and has the name of another image."""
    labels = request.labels.resolve() if request.labels is not None else None
    if labels is not None and request.src.resolve().is_relative_to(labels):
        labels = None  # all images lie there
    masks = {
        f.path: f
        for f in images
        if f.kind in ("image", "tiff") and (seems_mask(f) or (labels and f.path.resolve().is_relative_to(labels)))
    }
    named = {name for f in images if f.path not in masks for name in (f.path.name, f.stem)}
    taken = {path for path, f in masks.items() if not named.isdisjoint(_stems(f, "mask"))}
    return tuple(f for f in images if f.path not in taken)


def _beside(files: Sequence[Source], images: tuple[Source, ...], name: str) -> Labels:
    candidates = [Candidate(key=f, stems=_stems(f, name), folder=f.relative.parent) for f in files]
    matches = matched([((f.path.name, f.stem), f.relative) for f in images], candidates)
    return Labels(
        format=name,
        images=images,
        of_image={i: Label(format=name, path=f.path) for i, f in matches.labels.items()},
        unclear=dict(matches.unclear),
        unused=tuple(str(f.relative) for f in matches.unused) if name != "mask" else (),  # other pictures, mostly
        splits={i: split for i, f in matches.labels.items() if (split := split_named(f.relative))},
    )


def _stems(file: Source, name: str) -> tuple[str, ...]:
    return (file.stem, without_ending(file.stem)) if name == "mask" else (file.path.stem,)


_FINDERS: dict[str, Callable[[Sequence[Source], tuple[Source, ...], Request], Labels | None]] = {
    "coco": _find_coco,
    "voc": _find_voc,
    "dota": _find_dota,
    "yolo": _find_yolo,
    "mask": _find_mask,
}
