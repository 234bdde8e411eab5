"""The public face."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yolo_ckpt


def test_all_is_sorted_and_there() -> None:
    assert yolo_ckpt.__all__ == sorted(yolo_ckpt.__all__)
    assert all(getattr(yolo_ckpt, name, None) is not None for name in yolo_ckpt.__all__)
    assert callable(yolo_ckpt.plan)


def test_importing_does_not_import_the_host() -> None:
    code = "import sys, yolo_ckpt; sys.exit('ultralytics' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LAYERS = [
    ("errors", "units"),
    ("settings", "plan"),
    ("planning", "reporting"),
    ("remat", "measuring", "hotspots"),
    ("stages", "attachment"),
    ("planner",),
    ("integration", "data"),
    ("api", "helptext", "datacommands", "cli", "__main__"),
]


def test_imports_point_downward() -> None:
    """A module imports from its own layer (inside its own folder, or earlier in the layer) or from lower ones only."""
    import ast

    root = Path(yolo_ckpt.__file__).parent
    level = {name: i for i, layer in enumerate(LAYERS) for name in layer}
    for path in root.rglob("*.py"):
        mine = path.relative_to(root).parts[0].removesuffix(".py")
        if mine == "__init__":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            for name in (n for n in names if n.startswith("yolo_ckpt.")):
                other = name.split(".")[1]
                assert other == mine or level[other] < level[mine] or (level[other] == level[mine] and other != mine), (
                    f"{path} imports {name}, which lies above it"
                )


def test_lower_layers_know_no_torch_and_no_host() -> None:
    root = Path(yolo_ckpt.__file__).parent
    for folder, banned in (
        ("planning", "torch"),
        ("reporting", "torch"),
        ("remat", "ultralytics"),
        ("measuring", "ultralytics"),
    ):
        for path in (root / folder).rglob("*.py"):
            lines = path.read_text(encoding="utf-8").splitlines()
            assert not [line for line in lines if line.startswith((f"import {banned}", f"from {banned}"))], path
