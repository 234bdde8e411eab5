"""Every file in configs/ is one that the host and the plugin take, and trains; its forecast is that of what it says."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from importlib.metadata import PackagePath
from pathlib import Path
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
import yaml

from yolo_ckpt import cli
from yolo_ckpt.integration import PlanCallback, configs
from yolo_ckpt.integration.shell import planned
from yolo_ckpt.units import parse_bytes

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
FIELDS = ("aerial", "industrial", "medical")
CLASSES = (8, 12, 24, 48, 80)

by_name = pytest.mark.parametrize("file", CONFIGS, ids=lambda p: p.stem)


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("configs_benchmark", ROOT / "benchmarks" / "configs.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["configs_benchmark"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_one_for_every_field_and_card() -> None:
    assert {p.stem for p in CONFIGS} == {f"{field}-{size}gb" for field in FIELDS for size in CLASSES}


@pytest.mark.parametrize("given", ["aerial-8gb", "aerial-8gb.yaml", "configs/aerial-8gb.yaml"])
def test_a_file_of_ours_is_found_by_its_name(given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert configs.config_file(given) == str(ROOT / "configs" / "aerial-8gb.yaml")
    own = tmp_path / given
    own.parent.mkdir(exist_ok=True)
    own.touch()
    assert configs.config_file(given) == given


@pytest.mark.parametrize("given", ["aerial-9gb.yaml", "mine/aerial-8gb.yaml", "/aerial-8gb.yaml"])
def test_other_names_are_the_hosts_affair(given: str) -> None:
    assert configs.config_file(given) == given


def test_an_installed_package_knows_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = PackagePath("../../../share/yolo-ckpt/configs/aerial-8gb.yaml")
    monkeypatch.setattr(configs, "__file__", str(tmp_path / "yolo_ckpt" / "integration" / "configs.py"))
    monkeypatch.setattr(configs, "files", lambda _: [record, PackagePath("yolo_ckpt/plan.py")])
    monkeypatch.setattr(PackagePath, "locate", lambda path: tmp_path / path.name, raising=False)
    assert configs.config_file("aerial-8gb") == str(tmp_path / "aerial-8gb.yaml")
    assert configs.config_file("plan.py") == "plan.py"


@by_name
def test_host_and_plugin_take_it(file: Path, own_callbacks: dict[str, list[object]]) -> None:
    """As `yolo-ckpt train cfg=...` reads it: ours are taken out, the host knows the rest, the command line wins."""
    from ultralytics.cfg import check_dict_alignment, get_cfg
    from ultralytics.utils import DEFAULT_CFG_DICT

    with planned(["train", f"cfg={file}", "ckpt_budget=1GiB"], ckpt="auto") as rest:
        content = yaml.safe_load(Path(rest[1].removeprefix("cfg=")).read_text(encoding="utf-8"))
        check_dict_alignment(DEFAULT_CFG_DICT, content)
        arguments = get_cfg(overrides=content)
    (callback,) = (c for c in own_callbacks["on_pretrain_routine_start"] if isinstance(c, PlanCallback))
    assert (callback.settings.ckpt, callback.settings.ckpt_budget) == ("auto", "1GiB")
    assert callback.settings.ckpt_augment == file.stem.partition("-")[0]
    assert arguments.imgsz % 32 == 0
    assert "data" not in content
    assert not (arguments.rect and arguments.mosaic)  # the host trains rectangles without mosaic


@by_name
def test_its_forecast_fits(file: Path, benchmark: ModuleType) -> None:
    """The comment says what is forecast, for the budget in the file on the card of its class."""
    text = file.read_text(encoding="utf-8")
    sizes = {name: parse_bytes(size) for name, size in re.findall(r"# +([a-z]+) +([\d.]+ [GM]iB)", text)}
    (way,) = set(sizes) - {"stock", "budget"}
    assert way in ("auto", "selective")
    assert sizes[way] <= sizes["budget"] < sizes["stock"]
    assert sizes["budget"] <= 0.9 * (int(file.stem.rpartition("-")[2].removesuffix("gb")) << 30)
    assert f"{benchmark.Config.read(file).card} (" in text


def test_a_forecast_is_that_of_its_file(benchmark: ModuleType) -> None:
    """The cheapest one, without its plan, simulated again."""
    from yolo_ckpt.integration import look
    from yolo_ckpt.integration.models import load_model
    from yolo_ckpt.settings import Settings

    config = benchmark.Config.read(ROOT / "configs" / "aerial-8gb.yaml")
    target = look.Target.of(gpu=config.card, budget="90%", amp="")
    arguments = config.arguments["imgsz"], config.arguments["batch"], benchmark.OBJECTS["aerial"], Settings()
    conditions = look._conditions(load_model(config.architecture, "meta"), target, *arguments)
    stock = conditions.simulated(load_model(config.architecture, "meta")).step(None).peak_bytes + conditions.extra_bytes
    assert f"stock     {benchmark.format_bytes(stock)}\n" in config.text
    assert target.budget_bytes is not None
    assert f"budget    {benchmark.format_bytes(target.budget_bytes)}," in config.text


def test_a_new_forecast_replaces_the_old(benchmark: ModuleType) -> None:
    text = CONFIGS[0].read_text(encoding="utf-8")
    once = benchmark.rewritten(text, ["# forecast A", "#     stock     1.00 GiB"])
    assert yaml.safe_load(once) == yaml.safe_load(text)
    assert once.count("stock") == 1
    assert benchmark.rewritten(once, ["# forecast B"]).count("# forecast") == 1


@pytest.fixture
def made_segments(tmp_path: Path) -> Path:
    """Two noise images with a rectangle as a polygon, which all of the three fields' models train on."""
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (tmp_path / "set" / kind / split).mkdir(parents=True)
        image = np.random.RandomState(0).randint(90, 160, (96, 128, 3)).astype(np.uint8)
        cv2.rectangle(image, (20, 20), (70, 60), (220, 40, 40), -1)
        cv2.imwrite(str(tmp_path / "set" / "images" / split / "a.png"), image)
        polygon = "0 0.16 0.21 0.55 0.21 0.55 0.63 0.16 0.63\n"
        (tmp_path / "set" / "labels" / split / "a.txt").write_text(polygon, encoding="utf-8")
    data = {"path": str(tmp_path / "set"), "train": "images/train", "val": "images/val", "names": ["a"]}
    (tmp_path / "set" / "data.yaml").write_text(yaml.safe_dump(data), encoding="utf-8")
    return tmp_path / "set" / "data.yaml"


@pytest.mark.parametrize("field", FIELDS)
def test_one_step(field: str, made_segments: Path, tmp_path: Path, own_callbacks: dict[str, list[object]]) -> None:
    """One epoch of one batch on the CPU; what is on the command line wins, the rest is the file's."""
    file = ROOT / "configs" / f"{field}-8gb.yaml"
    model = yaml.safe_load(file.read_text(encoding="utf-8"))["model"].replace(".pt", ".yaml")
    steps: list[Any] = []
    own_callbacks["on_train_batch_end"].append(steps.append)
    status = cli.main(
        ["train", f"cfg={file}", f"data={made_segments}", f"model={model}", "imgsz=64", "batch=1", "epochs=1",
         "workers=0", "device=cpu", "plots=False", "pretrained=False", f"project={tmp_path}", "name=run"]
    )  # fmt: skip
    assert status == 0
    assert len(steps) == 1
    arguments = yaml.safe_load((tmp_path / "run" / "args.yaml").read_text(encoding="utf-8"))
    assert (arguments["imgsz"], arguments["batch"], arguments["epochs"]) == (64, 1, 1)
    of_file = yaml.safe_load(file.read_text(encoding="utf-8"))
    given = [name for name in of_file if name not in ("model", "imgsz", "batch", "epochs", "workers")]
    assert {name: arguments[name] for name in given if name in arguments} == {
        name: of_file[name] for name in given if not name.startswith("ckpt")
    }
    assert arguments["augmentations"]  # those of ckpt_augment
    plan = json.loads((tmp_path / "run" / "ckpt_plan.json").read_text(encoding="utf-8"))
    assert (plan["ckpt"], plan["imgsz"], plan["batch"]) == ("auto", 64, 1)
    assert (tmp_path / "run" / "weights" / "last.pt").is_file()
