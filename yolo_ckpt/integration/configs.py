"""The configuration files that come with this package: `cfg=aerial-24gb.yaml` works in any folder."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

FOLDER = "configs"


def config_file(given: str) -> str:
    """The file that `cfg=` names: as it is given, or, where there is none, that of ours by this name. `aerial-24gb`,
    `aerial-24gb.yaml` and `configs/aerial-24gb.yaml` are names of ours."""
    path = Path(given)
    if path.exists() or str(path.parent) not in (".", FOLDER):
        return given
    name = path.name if path.suffix else f"{path.name}.yaml"
    return str(shipped().get(name, given))


def shipped() -> dict[str, Path]:
    """Our files by name: those of the clone that this is, or of the installed package."""
    clone = Path(__file__).parents[2]
    if (clone / "pyproject.toml").is_file():
        return {path.name: path for path in sorted((clone / FOLDER).glob("*.yaml"))}
    try:
        recorded = files("yolo-ckpt") or []
    except PackageNotFoundError:
        recorded = []
    return {file.name: Path(str(file.locate())) for file in recorded if file.parent.parts[-2:] == ("yolo-ckpt", FOLDER)}
