"""Sample data sets: one per field, each from nothing to a folder that Ultralytics trains on."""

from __future__ import annotations

from pathlib import Path

from yolo_ckpt.data.newfolder import new_folder
from yolo_ckpt.data.samples import aerial, industrial, medical
from yolo_ckpt.data.samples.files import Sample
from yolo_ckpt.errors import SampleError, SettingsError

SAMPLES: dict[str, Sample] = {"aerial": aerial.SAMPLE, "medical": medical.SAMPLE, "industrial": industrial.SAMPLE}


def write_sample(name: str, folder: Path) -> tuple[list[Path], bool]:
    """Write the sample data set `name` into `folder`, unless it is there.

    Returns:
        The YAML files of the data sets in it, and whether anything was written.

    Raises:
        SettingsError: There is no such sample, or `folder` holds something else.
        SampleError: It could not be fetched, or not be written; nothing is left behind.
    """
    if name not in SAMPLES:
        raise SettingsError(f"sample {name} is not known; use one of {', '.join(SAMPLES)}")
    sample = SAMPLES[name]
    yamls = [folder / yaml for yaml in sample.yamls]
    if all(yaml.is_file() for yaml in yamls):
        return yamls, False
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SettingsError(f"dir={folder} is there already and is no sample data set; give an empty or a new folder")
    with new_folder(folder, "dir", SampleError) as partial:
        sample.write(partial, folder)
    return yamls, True
