"""Which label belongs to which image: the same stem, and the most folders in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Generic, TypeVar

from yolo_ckpt.data.convert.sources import split_named

Key = TypeVar("Key")


@dataclass(frozen=True, kw_only=True)
class Candidate(Generic[Key]):
    """Something that may be the label of an image.

    Attributes:
        key: What is given back.
        stems: What an image has to be called.
        folder: Where it lies.
    """

    key: Key
    stems: tuple[str, ...]
    folder: PurePath


@dataclass(frozen=True, kw_only=True)
class Matches(Generic[Key]):
    """The outcome.

    Attributes:
        labels: The label of each image (by its place) that has one.
        unclear: Images with more than one label that fits as well, and why.
        unused: Labels without an image.
    """

    labels: Mapping[int, Key]
    unclear: Mapping[int, str] = field(default_factory=dict)
    unused: Sequence[Key] = ()


def matched(images: Iterable[tuple[tuple[str, ...], PurePath]], candidates: Sequence[Candidate[Key]]) -> Matches[Key]:
    """Finds the label of each image. One in the folder of another split, where both name one, is none.

    Args:
        images: What each may be called, the most exact first, and its path from the root.
        candidates: The labels.
    """
    by_stem: dict[str, list[int]] = defaultdict(list)
    for place, candidate in enumerate(candidates):
        for stem in dict.fromkeys(candidate.stems):
            by_stem[stem].append(place)
    claims: dict[int, list[tuple[int, int, PurePath]]] = defaultdict(list)
    unclear: dict[int, str] = {}
    for image, (names, path) in enumerate(images):
        places = next((by_stem[name] for name in names if name in by_stem), [])
        places = [place for place in places if _may_be_of(path, candidates[place].folder)]
        scores = [_nearness(path.parent, candidates[place].folder) for place in places]
        best = [place for place, score in zip(places, scores, strict=True) if score == max(scores)]
        if len(best) > 1:
            unclear[image] = f"{len(best)} labels fit it as well"
        for place in best[:1] if len(best) == 1 else ():
            claims[place].append((max(scores), image, path.parent))
    labels = _settled(claims, unclear)
    return Matches(
        labels={image: candidates[place].key for image, place in labels.items()},
        unclear=unclear,
        unused=[c.key for place, c in enumerate(candidates) if place not in claims and not unclear],
    )


def _settled(claims: Mapping[int, list[tuple[int, int, PurePath]]], unclear: dict[int, str]) -> dict[int, int]:
    """Of several images that claim a label the nearest gets it: others of that name have none."""
    labels = {}
    for place, claim in claims.items():
        nearest = [(image, folder) for score, image, folder in claim if score == max(c[0] for c in claim)]
        if len({folder for _, folder in nearest}) > 1:
            unclear.update({image: f"its label fits {len(nearest)} images as well" for image, _ in nearest})
        else:
            labels.update({image: place for image, _ in nearest})
    return labels


def _may_be_of(image: PurePath, folder: PurePath) -> bool:
    splits = {split_named(image), split_named(folder / image.name)} - {""}
    return len(splits) < 2


def _nearness(image: PurePath, label: PurePath) -> int:
    mine = {part.lower() for part in image.parts}
    return 1000 * (image == label) + sum(part.lower() in mine for part in label.parts)
