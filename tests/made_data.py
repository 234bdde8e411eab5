"""A made data set, and training on it in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def made_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six noise images with rectangles, two classes, as a YOLO data set; the path of its YAML."""
    import cv2

    root, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    for split, count in (("train", 4), ("val", 2)):
        for kind in ("images", "labels"):
            (root / kind / split).mkdir(parents=True)
        for i in range(count):
            image = rng.integers(90, 160, (96, 96, 3), dtype=np.uint8)
            rows = []
            for _ in range(4):
                x, y, w, h = (*rng.integers(0, 50, 2), *rng.integers(10, 40, 2))
                cv2.rectangle(image, (int(x), int(y)), (int(x + w), int(y + h)), (220, 40, 40), -1)
                rows.append(f"{rng.integers(0, 2)} {(x + w / 2) / 96} {(y + h / 2) / 96} {w / 96} {h / 96}")
            cv2.imwrite(str(root / "images" / split / f"{i}.png"), image)
            (root / "labels" / split / f"{i}.txt").write_text("\n".join(rows), encoding="utf-8")
    (root / "data.yaml").write_text(
        f"path: {root}\ntrain: images/train\nval: images/val\nnames: [a, b]\n", encoding="utf-8"
    )
    return root / "data.yaml"


@pytest.fixture
def arguments(made_data: Path, tmp_path: Path) -> dict[str, Any]:
    """Arguments of a short training run on the CPU."""
    return {
        "data": str(made_data), "imgsz": 96, "batch": 2, "epochs": 2, "device": "cpu", "workers": 0, "amp": False,
        "plots": False, "project": str(tmp_path), "name": "run", "exist_ok": True, "verbose": False,
    }  # fmt: skip


@pytest.fixture
def own_callbacks(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[object]]:
    """The host's default callbacks, for this test alone."""
    from ultralytics.utils.callbacks import base

    own = {k: list(v) for k, v in base.default_callbacks.items()}
    monkeypatch.setattr(base, "default_callbacks", own)
    return own
