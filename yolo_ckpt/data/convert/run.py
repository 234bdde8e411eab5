"""The whole conversion: look, split, convert, put in place."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import psutil

from yolo_ckpt.data.convert.job import Job, Outcome, Probe, convert, died, is_tiled, not_done, probe
from yolo_ckpt.data.convert.labels.find import Labels, find_labels
from yolo_ckpt.data.convert.naming import stems
from yolo_ckpt.data.convert.picture import Header
from yolo_ckpt.data.convert.pool import budget_bytes, run_all, workers_for
from yolo_ckpt.data.convert.problems import BrokenFileError
from yolo_ckpt.data.convert.report import Conversion, FileReport
from yolo_ckpt.data.convert.request import Request
from yolo_ckpt.data.convert.sources import sources, split_named
from yolo_ckpt.data.convert.split import shared, splits
from yolo_ckpt.data.convert.writer import drop_strays, finish, finish_labels, folder_for, write_report
from yolo_ckpt.errors import ConvertError, SettingsError
from yolo_ckpt.units import format_bytes

Advance = Callable[[str, int, int], None]  # what is done, how many are, of how many
_PROBED_HERE_UP_TO = 200  # files; headers are short


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What is to be converted, by place in `labels.images`.

    Attributes:
        labels: Images and labels.
        headers: Of the images that can be converted.
        outcomes: Of those that cannot.
        split: Of each image that can.
        lines: What is to be said about it.
    """

    labels: Labels
    headers: dict[int, Header]
    outcomes: dict[int, Outcome]
    split: dict[int, str]
    lines: list[str]


def convert_data(request: Request, advance: Advance) -> Conversion:
    """Converts `request.src` to `request.dst`.

    Returns:
        What was done. Nothing is written where no file could be converted.

    Raises:
        SettingsError: There is nothing to convert, or the labels are not clear.
        ConvertError: The target cannot be written; nothing of it is left behind.
    """
    try:
        plan = _planned(request, advance)
        with folder_for(request.dst) as folder:
            return _converted(request, plan, folder, advance)
    except KeyboardInterrupt:
        raise ConvertError(f"stopped; nothing was written to dst={request.dst}") from None


def _planned(request: Request, advance: Advance) -> _Plan:
    labels = find_labels(sources(request.src), request)
    if not labels.images:
        raise SettingsError(
            f"src={request.src} has no image that is known here: DICOM, TIFF, PNG, JPEG, BMP, WebP, ..."
        )
    headers: dict[int, Header] = {}
    outcomes: dict[int, Outcome] = {}
    probes = [Probe(source=source, request=request) for source in labels.images]
    place = {source.path: i for i, source in enumerate(labels.images)}
    workers = 1 if len(probes) <= _PROBED_HERE_UP_TO else workers_for(probes, request.workers)
    with closing(run_all(probe, probes, workers=workers, budget=budget_bytes(), died=died)) as results:
        for done, (wanted, found) in enumerate(results, 1):
            advance("looking", done, len(probes))
            looked = _within_memory(wanted, found) if isinstance(found, Header) else found
            if isinstance(looked, Header):
                headers[place[wanted.source.path]] = looked
            else:
                outcomes[place[wanted.source.path]] = looked
    for index, why in labels.unclear.items():
        if headers.pop(index, None):
            outcomes[index] = not_done(labels.images[index], request, BrokenFileError(why))
    split, lines = _split(request, labels, headers)
    return _Plan(labels=labels, headers=headers, outcomes=outcomes, split=split, lines=lines)


def _within_memory(wanted: Probe, header: Header) -> Header | Outcome:
    free = int(psutil.virtual_memory().available)
    if header.bytes_needed < free:
        return header
    sizes = f"{header.width} x {header.height} px take about {format_bytes(header.bytes_needed)} of memory"
    error = BrokenFileError(f"{sizes}, {format_bytes(free)} are free; save it as an uncompressed TIFF")
    return not_done(wanted.source, wanted.request, error)


def _split(request: Request, labels: Labels, headers: dict[int, Header]) -> tuple[dict[int, str], list[str]]:
    places = sorted(headers)
    files = [labels.images[i] for i in places]
    groups = [headers[i].group or str(labels.images[i].path) for i in places]
    given = [split_named(f.relative) or labels.splits.get(i, "") for i, f in zip(places, files, strict=True)]
    found = splits(groups, given, request.val, request.seed)
    lines = []
    by = request.group if any(headers[i].group for i in places) else "image"
    if "val" in given:
        rest = ", all else trains" if "" in given else ""
        lines.append(f"the splits are as the folders (or the names of the label files) have them{rest}")
    elif places:
        count = {s: len({g for g, f in zip(groups, found, strict=True) if f == s}) for s in ("train", "val")}
        counts = "" if by == "image" else f": {count['train']} to train, {count['val']} to validate"
        lines.append(f"split by {by}, seed {request.seed}{counts}")
    both = shared(groups, found)
    lines += [f"{both} {by}s are in more than one split there: metrics will be too good"] if both else []
    return dict(zip(places, found, strict=True)), lines


def _converted(request: Request, plan: _Plan, folder: Path, advance: Advance) -> Conversion:
    jobs = _jobs(request, plan, folder)
    outcomes = dict(plan.outcomes)
    place = {job.source.path: index for job, index in zip(jobs, sorted(plan.headers), strict=True)}
    workers = workers_for(jobs, request.workers)
    with closing(run_all(convert, jobs, workers=workers, budget=budget_bytes(), died=died)) as results:
        for done, (job, outcome) in enumerate(results, 1):
            advance("converting", done, len(jobs))
            outcomes[place[job.source.path]] = outcome
    channels = _same_channels(outcomes)
    images = [image for outcome in outcomes.values() for image in outcome.images]
    assert len(set(images)) == len(images), "two files wrote images of one name"
    drop_strays(folder, images)
    names = _names(request, plan.labels, outcomes)
    emptied = finish_labels(folder, names)
    result = _summed(request, plan, outcomes, names, emptied)
    if not result.images:
        shutil.rmtree(folder)
        return result
    finish(folder, request.dst, names, task=request.task, channels=channels, counts=result.images)
    write_report(folder, result.record(private=True))
    return result


def _jobs(request: Request, plan: _Plan, folder: Path) -> list[Job]:
    parts = [_parts(plan.headers.get(i), request) for i in range(len(plan.labels.images))]
    called = stems(plan.labels.images, request.names, parts)
    return [
        Job(
            source=plan.labels.images[i], request=request, header=plan.headers[i], label=plan.labels.of_image.get(i),
            split=plan.split[i], stem=called[i], folder=folder,
        )
        for i in sorted(plan.headers)
    ]  # fmt: skip


def _parts(header: Header | None, request: Request) -> tuple[bool, bool]:
    return (False, False) if header is None else (header.frames > 1, is_tiled(header.width, header.height, request))


def _same_channels(outcomes: dict[int, Outcome]) -> int:
    """The number of channels of all images; grey and colour ones go together, since the host reads both as colours."""
    counts = Counter(3 if o.bands == 1 else o.bands for o in outcomes.values() if o.done == "converted")
    if not counts:
        return 3
    channels = counts.most_common(1)[0][0]
    for outcome in outcomes.values():
        bands = 3 if outcome.bands == 1 else outcome.bands
        if outcome.done == "converted" and bands != channels:
            outcome.done, outcome.why = "failed", f"it has {outcome.bands} bands, most others have {channels}"
            outcome.images, outcome.objects, outcome.empty = [], Counter(), 0
    return channels


def _names(request: Request, labels: Labels, outcomes: dict[int, Outcome]) -> list[str]:
    """Class names in the order of their numbers: as asked, as the labels have them, or by name."""
    if request.classes:
        return list(request.classes)
    if labels.names:
        return list(labels.names)
    seen = sorted({name for outcome in outcomes.values() for name in outcome.objects}, key=_natural)
    if labels.format == "yolo":  # without names: the numbers stay what they are
        return [f"class_{i}" for i in range(1 + max((int(name.removeprefix("class_")) for name in seen), default=0))]
    return seen or ["object"]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Numbers in a name sort as numbers."""
    parts = re.split(r"(\d+)", name)
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in parts)


def _summed(
    request: Request, plan: _Plan, outcomes: dict[int, Outcome], names: Sequence[str], emptied: int
) -> Conversion:
    images = Counter(image.split("/")[1] for outcome in outcomes.values() for image in outcome.images)
    lines = list(plan.lines)
    seen: Counter[str] = Counter()
    for outcome in outcomes.values():
        seen.update(outcome.objects)
    lines += _about_classes(request, plan, seen, names)
    lines += [] if request.without_labels else _about_labels(plan, outcomes, emptied)
    if images and not (images["val"] and images["train"]):
        lines.append("one split is empty, so train and val are the same images: metrics say nothing about new ones")
    return Conversion(
        request=request,
        files=[FileReport(source=s, outcome=outcomes[i]) for i, s in enumerate(plan.labels.images)],
        labels=plan.labels.format,
        names=names,
        images=images,
        lines=lines,
        unused=plan.labels.unused,
    )


def _about_classes(request: Request, plan: _Plan, seen: Counter[str], names: Sequence[str]) -> list[str]:
    lines = []
    others = Counter({name: count for name, count in seen.items() if name not in names})
    if others:
        most = ", ".join(f"{name} {count}" for name, count in others.most_common(5))
        more = ", ..." if len(others) > 5 else ""
        lines.append(f"objects of classes that classes= does not name were left out: {most}{more}")
    for name in request.classes if plan.labels.format else ():
        if name not in seen:
            near = get_close_matches(name, others, n=1)
            lines.append(f"no object is of class {name}" + (f"; did you mean {near[0]}?" if near else ""))
    if request.mask != "auto" and plan.labels.format != "mask":
        lines.append(f"mask={request.mask} had no effect: the labels are {plan.labels.format or 'none'}")
    return lines


def _about_labels(plan: _Plan, outcomes: dict[int, Outcome], emptied: int) -> list[str]:
    if not plan.labels.format:
        return ["no labels were found: the images are written without (give labels=PATH if there are some)"]
    done = [i for i, outcome in outcomes.items() if outcome.done == "converted"]
    bare = sum(i not in plan.labels.of_image for i in done)
    lines = [f"images without a label, which train as background: {bare}"] if bare else []
    total, empty = sum(len(o.images) for o in outcomes.values()), emptied + sum(o.empty for o in outcomes.values())
    lines += [f"images that show no object, which train as background: {empty} of {total}"] if empty > bare else []
    unused = len(plan.labels.unused)
    lines += [f"labels of images that are not there: {unused}"] if unused else []
    stray = plan.labels.stray
    return lines + ([f"annotations with an image_id that no image has: {stray}"] if stray else [])
