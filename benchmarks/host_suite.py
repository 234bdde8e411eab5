"""Ultralytics' own tests, once stock and once with a plan on every training: what passes stock has to pass planned.

    python benchmarks/host_suite.py folder=/tmp/suite [ckpt=full] [tests=test_engine,test_cli]

The tests come out of the source distribution of the installed version. They want weights and data sets that the host
would download; here both are stand-ins: weights built from the model YAMLs, and data sets of eight made images. Plans
are switched on the way a user does it for a whole environment, by the hook of `yolo-ckpt enable` and the variable
YOLO_CKPT, so trainings that the tests start in processes of their own are planned as well. Prints one JSON line: how
many tests passed in both runs, how many trainings were planned, and the names of those that passed stock alone.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from importlib import metadata
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from yolo_ckpt.integration import hook

TESTS = "test_engine,test_python,test_cli,test_integrations"
BOXES = ("0 0.3 0.3 0.2 0.2", "1 0.6 0.6 0.3 0.3", "2 0.5 0.2 0.2 0.1")
CORNERS = "0 0.2 0.2 0.5 0.2 0.5 0.5 0.2 0.5"
ROWS = {
    "coco8": BOXES, "coco8-grayscale": BOXES, "coco8-multispectral": BOXES,
    "coco8-seg": (CORNERS,), "dota8": (CORNERS,),
    "coco8-pose": ("0 0.5 0.5 0.4 0.4 " + " ".join(f"0.{3 + i % 4} 0.{3 + i % 5} 2" for i in range(17)),),
}  # fmt: skip
WEIGHTS = tuple(f"yolo26{stem}" for stem in ("n", "n-seg", "n-sem", "n-depth", "n-cls", "n-pose", "n-obb", "s"))
WEIGHTS += ("yolo11n", "yolov8n")
COUNT = "YOLO_CKPT_SUITE_COUNT"  # a file that gets one line for each planned training
PREPARE = """
import shutil, sys
from pathlib import Path
from ultralytics import YOLO, settings
folder = Path(sys.argv[1])
settings.update({"datasets_dir": str(folder / "datasets"), "weights_dir": str(folder / "weights"),
                 "runs_dir": str(folder / "runs"), "sync": False})
for name in sys.argv[2].split(","):
    YOLO(f"{name}.yaml").save(folder / "weights" / f"{name}.pt")
model = YOLO("yolo11n.yaml")
from ultralytics.nn.tasks import DetectionModel
model.model = DetectionModel("yolo11n.yaml", ch=1, verbose=False)
model.model.args = {"task": "detect"}
model.model.task = "detect"
model.save(folder / "weights" / "yolo11n-grayscale.pt")
spaced = folder / "weights" / "path with spaces"
spaced.mkdir()
shutil.copy(folder / "weights" / "yolo26n.pt", spaced)
"""
PLUGIN = f"""
import os
from yolo_ckpt.integration import run

prepare = run.Run.prepare

def counted(self, trainer):
    first = self.plan is None
    prepare(self, trainer)
    if first and self.plan is not None:
        with open(os.environ["{COUNT}"], "a") as file:
            file.write(type(trainer).__name__ + "\\n")

run.Run.prepare = counted
"""


def fetch(folder: Path) -> Path:
    """The tests of the installed version, in `folder`."""
    version = metadata.version("ultralytics")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "ultralytics"]
    subprocess.run([*command, "--dest", str(folder), f"ultralytics=={version}"], check=True)
    with tarfile.open(folder / f"ultralytics-{version}.tar.gz") as archive:
        members = [m for m in archive.getmembers() if m.name.split("/")[1:2] == ["tests"]]
        archive.extractall(folder / "suite", members=members, filter="data")
    return folder / "suite" / f"ultralytics-{version}"


def write_images(folder: Path) -> None:
    """Four images; their place tells the split."""
    rng = np.random.default_rng(len(str(folder.name)))
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(4):
        cv2.imwrite(str(folder / f"{i:012d}.jpg"), rng.integers(0, 255, (96, 128, 3), dtype=np.uint8))


def write_data(folder: Path) -> None:
    """The stand-in data sets."""
    for name, rows in ROWS.items():
        for split in ("train", "val"):
            write_images(folder / name / "images" / split)
            labels = folder / name / "labels" / split
            labels.mkdir(parents=True, exist_ok=True)
            for image in (folder / name / "images" / split).iterdir():
                (labels / f"{image.stem}.txt").write_text("\n".join(rows), encoding="utf-8")
    for split in ("train", "val"):
        for i in range(10):
            write_images(folder / "imagenet10" / split / f"n0{i}")
        for name, kind, value in (("cityscapes8", "masks", 7), ("depth8-png", "depth", 900)):
            write_images(folder / name / "images" / split)
            maps = folder / name / kind / split
            maps.mkdir(parents=True, exist_ok=True)
            dtype = np.uint8 if kind == "masks" else np.uint16
            for image in (folder / name / "images" / split).iterdir():
                cv2.imwrite(str(maps / f"{image.stem}.png"), np.full((96, 128), value, dtype))


def run_suite(suite: Path, folder: Path, tests: str, ckpt: str | None) -> dict[str, str]:
    """Outcome of every test."""
    name = ckpt or "stock"
    plugins = folder / f"plugins-{name}"
    plugins.mkdir(exist_ok=True)
    environment = {**os.environ, "YOLO_CONFIG_DIR": str(folder / "config"), "YOLO_AUTOINSTALL": "false"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    environment["PYTHONPATH"] = os.pathsep.join([str(plugins), str(suite), str(Path(__file__).parents[1])])
    if ckpt:
        (plugins / "sitecustomize.py").write_text(hook.WATCHER, encoding="utf-8")
        (plugins / "suite_plugin.py").write_text(PLUGIN, encoding="utf-8")
        environment |= {hook.VARIABLE: f"ckpt={ckpt}", COUNT: str(folder / f"planned-{name}.txt")}
    report = folder / f"{name}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command += ["-p", "suite_plugin"] if ckpt else []
    command += [f"tests/{t}.py" for t in tests.split(",")]
    with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
        subprocess.run(command, cwd=suite, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    return dict(outcome(case) for case in ET.parse(report).iter("testcase"))


def outcome(case: Any) -> tuple[str, str]:
    """(name, outcome) of one test in the report."""
    kinds = {child.tag for child in case} & {"failure", "error", "skipped"}
    name = re.sub(r"0x[0-9a-f]+|/tmp/\S+", "", f"{case.get('classname')}::{case.get('name')}")
    return name, next(iter(kinds), "passed")


def main() -> None:
    """Run the suite twice."""
    options = {"ckpt": "full", "tests": TESTS} | dict(a.split("=", 1) for a in sys.argv[1:])
    folder = Path(options["folder"]).resolve()
    folder.mkdir(parents=True)
    write_data(folder / "datasets")
    environment = {**os.environ, "YOLO_CONFIG_DIR": str(folder / "config")}
    (folder / "weights").mkdir()
    subprocess.run([sys.executable, "-c", PREPARE, str(folder), ",".join(WEIGHTS)], check=True, env=environment)
    suite = fetch(folder)
    stock = run_suite(suite, folder, options["tests"], None)
    planned = run_suite(suite, folder, options["tests"], options["ckpt"])
    passed = [{name for name, kind in outcomes.items() if kind == "passed"} for outcomes in (stock, planned)]
    count = folder / f"planned-{options['ckpt']}.txt"
    record = {
        "ultralytics": metadata.version("ultralytics"), "ckpt": options["ckpt"], "tests": len(stock),
        "passed_stock": len(passed[0]), "passed_planned": len(passed[1]),
        "trainings_planned": len(count.read_text(encoding="utf-8").splitlines()) if count.is_file() else 0,
        "only_stock": sorted(passed[0] - passed[1]), "only_planned": sorted(passed[1] - passed[0]),
        "not_passed_stock": sorted(set(stock) - passed[0]),
    }  # fmt: skip
    (folder / "result.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
