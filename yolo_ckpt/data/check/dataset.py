"""A data set as the host takes it: its YAML, read by the host's own function, and the files of its splits."""

from __future__ import annotations

import tarfile
import zipfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from yolo_ckpt.data.check.findings import Finding, finding
from yolo_ckpt.data.check.labels import Rules
from yolo_ckpt.data.check.listing import Listing, list_images
from yolo_ckpt.errors import SettingsError
from yolo_ckpt.integration import compat

SPLITS = ("train", "val", "test")
TASKS = ("detect", "segment", "obb", "pose")


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """What a YAML says.

    Attributes:
        yaml: Its path.
        root: Folder that most of its files are in.
        names: Of the classes.
        channels: Of the images.
        keypoints: Points of an object and numbers of a point; zeros where it has none.
        listings: Files by split.
        findings: What is wrong with the YAML itself.
    """

    yaml: str
    root: str
    names: tuple[str, ...] = ()
    channels: int = 3
    keypoints: tuple[int, int] = (0, 0)
    listings: dict[str, Listing]
    findings: tuple[Finding, ...] = ()

    def rules(self, task: str, *, any_class: bool = False) -> Rules:
        """What its label rows have to be."""
        points, dims = self.keypoints
        return Rules(task=task, classes=0 if any_class else len(self.names), points=points, dims=dims)


def endings() -> frozenset[str]:
    """Of the names that the host takes for images."""
    from ultralytics.data.utils import IMG_FORMATS

    return frozenset(IMG_FORMATS)


def resolve(data: str) -> DataSet:
    """The data set that `data=` names; nothing is downloaded.

    Raises:
        SettingsError: `data` is not a local YAML or folder with one.
    """
    _check_local(data)
    try:
        described = compat.described_data(data)
    except Exception as error:  # whatever the host says: training would stop at it
        return _unusable(data, error)
    return of_description(described, data)


def of_description(described: dict[str, Any], data: str, limit: int | None = None) -> DataSet:
    """The data set of the host's own description of it; about `limit` images of each split at most."""
    taken = endings()
    listings = {split: _listed(split, described[split], taken, limit) for split in SPLITS if described.get(split)}
    names = described["names"]
    return DataSet(
        yaml=str(described.get("yaml_file") or data), root=str(described.get("path") or ""),
        names=tuple(str(n) for n in (names.values() if isinstance(names, dict) else names)),
        channels=int(described.get("channels") or 3), keypoints=_keypoints(described.get("kpt_shape")),
        listings=listings,
    )  # fmt: skip


def _listed(split: str, given: Any, taken: frozenset[str], limit: int | None) -> Listing:
    """The files of a split, which may be one place or a list of them; training goes on without a test split."""
    listing = list_images([str(place) for place in (given if isinstance(given, list) else [given])], taken, limit)
    if split != "test":
        return listing
    return replace(
        listing, findings=tuple(replace(f, kind="note") if f.kind == "fails" else f for f in listing.findings)
    )


def _keypoints(shape: Any) -> tuple[int, int]:
    """Points and numbers of each, where the host takes them (`YOLODataset.__init__`)."""
    if not isinstance(shape, (list, tuple)) or len(shape) != 2 or not all(isinstance(n, int) for n in shape):
        return 0, 0
    return (shape[0], shape[1]) if shape[0] > 0 and shape[1] in (2, 3) else (0, 0)


def _check_local(data: str) -> None:
    """Refuse what the host would fetch or unpack.

    Raises:
        SettingsError: It would.
    """
    if "://" in data or data.lower().endswith(".ndjson"):
        raise SettingsError(f"data={data} would be downloaded, which check does not; give the YAML of what is on disk")
    path = Path(data)
    if path.is_file() and (zipfile.is_zipfile(path) or tarfile.is_tarfile(path)):
        raise SettingsError(f"data={data} is an archive, which check does not unpack; give the YAML of what is in it")
    if path.exists() and path.is_file() and path.suffix.lower() not in (".yaml", ".yml"):
        raise SettingsError(f"data={data} is no YAML; give the data set's YAML, or the folder that it is in")
    if path.is_dir() and not any([*path.rglob("*.yaml"), *path.rglob("*.yml")]):
        raise SettingsError(f"data={data} holds no YAML; give the data set's YAML (path, train, val, names)")


def _unusable(data: str, error: Exception) -> DataSet:
    """A data set of which the host says what is wrong.

    Raises:
        SettingsError: There is no such file.
    """
    message = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, FileNotFoundError) and not Path(data).exists() and "images not found" not in message:
        raise SettingsError(f"data={data} is not there; give the path of the data set's YAML") from None
    reason = message.split(" Note dataset download directory", maxsplit=1)[0]
    absent = "images not found" in message
    advice = "correct path: and val:, or fetch the data first, which training does where the YAML has download:"
    said = finding("data-unusable", data, reason, advice=advice if absent else "")
    return DataSet(yaml=data, root="", listings={}, findings=(said,))
