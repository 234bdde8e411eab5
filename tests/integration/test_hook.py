"""`yolo-ckpt enable`: the plain `yolo` command takes our flags in that environment, and without a trace afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
YOLO = "import sys; sys.argv[0] = 'yolo'; from ultralytics.cfg import entrypoint; entrypoint()"


class Environment:
    """A virtual environment that sees this one's packages, but has a site-packages of its own."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.python = folder / "bin" / "python"
        self.site = Path(self.run("-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])").stdout.strip())
        packages = [p for p in sys.path if "site-packages" in p]
        (self.site / "shared.pth").write_text("\n".join([str(ROOT), *packages, ""]), encoding="utf-8")

    def run(self, *arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, **variables}
        command = [self.python, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)

    def ours(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "yolo_ckpt", *arguments)

    def files(self) -> set[Path]:
        return set(self.site.rglob("*"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture
def enabled(environment: Environment) -> Environment:
    environment.ours("enable")
    return environment


def test_enable_status_disable(environment: Environment) -> None:
    environment.ours("disable")
    before = environment.files()
    assert json.loads(environment.ours("status", "format=json").stdout)["enabled"] is False
    assert environment.ours("enable").returncode == 0
    status = json.loads(environment.ours("status", "format=json").stdout)
    assert status["enabled"] is True
    assert status["environment"] == str(environment.site)
    assert status["versions"]["ultralytics"]
    assert "was enabled already" in environment.ours("enable").stdout
    environment.run("-c", "pass")
    assert environment.ours("disable").returncode == 0
    assert {f for f in environment.files() if f.is_file()} == {f for f in before if f.is_file()}
    assert "was not enabled" in environment.ours("disable").stdout


def test_nothing_is_imported_until_ultralytics_is(enabled: Environment) -> None:
    code = "import sys; print([m for m in sys.modules if m.split('.')[0] in ('yolo_ckpt', 'torch', 'ultralytics')])"
    assert enabled.run("-c", code).stdout.strip() == "[]"


def test_the_plain_command_plans(enabled: Environment, made_data: Path, tmp_path: Path) -> None:
    flags = ["ckpt", "=", "full", "--ckpt_stages=0-5"]
    done = enabled.run(
        "-c", YOLO, "detect", "train", "model=yolo26n.yaml", f"data={made_data}", "imgsz=64", "epochs=1", "batch=2",
        "device=cpu", "plots=False", f"project={tmp_path}", "name=run", *flags,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plan = json.loads((tmp_path / "run" / "ckpt_plan.json").read_text(encoding="utf-8"))
    assert [s["index"] for s in plan["stages"] if s["action"] == "full"] == [0, 1, 2, 3, 4, 5]
    assert "ckpt" not in (tmp_path / "run" / "args.yaml").read_text(encoding="utf-8")


def test_the_command_of_the_platform_plans(enabled: Environment, made_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("ultralytics_platform")
    done = enabled.run(
        "-c", "import sys; from ultralytics_platform.cli import main; sys.exit(main())", "train", "model=yolo26n.yaml",
        f"data={made_data}", "imgsz=64", "epochs=1", "batch=2", "device=cpu", "plots=False", f"project={tmp_path}",
        "name=run", "ckpt=full",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "ckpt_plan.json").is_file()


def test_the_plain_command_takes_the_flags_of_the_environment(
    enabled: Environment, made_data: Path, tmp_path: Path
) -> None:
    done = enabled.run(
        "-c", YOLO, "train", "model=yolo26n.yaml", f"data={made_data}", "imgsz=64", "epochs=1", "batch=2",
        "device=cpu", "plots=False", f"project={tmp_path}", "name=run", YOLO_CKPT="ckpt=full",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "ckpt_plan.json").is_file()


def test_the_plain_command_without_flags_is_stock(enabled: Environment, made_data: Path, tmp_path: Path) -> None:
    done = enabled.run(
        "-c", YOLO, "train", "model=yolo26n.yaml", f"data={made_data}", "imgsz=64", "epochs=1", "batch=2",
        "device=cpu", "plots=False", f"project={tmp_path}", "name=run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "run").glob("ckpt_*"))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["train", "ckpt=fast"], "ckpt=fast"),
        (["train", "ckpt_stage=all"], "did you mean ckpt_stages"),
        (["predict", "ckpt=full"], "works in training"),
    ],
)
def test_wrong_flags_of_the_plain_command(enabled: Environment, flags: list[str], says: str, tmp_path: Path) -> None:
    done = enabled.run("-c", YOLO, "model=yolo26n.yaml", *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip().startswith("yolo: ")
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_flags_in_the_environment(enabled: Environment, made_data: Path, tmp_path: Path) -> None:
    """As the host starts trainings by itself, in tuning: a new process that gets no flags of ours."""
    arguments = [
        "-m", "ultralytics.cfg.__init__", "train", "model=yolo26n.yaml", f"data={made_data}", "imgsz=64", "epochs=1",
        "batch=2", "device=cpu", "plots=False", f"project={tmp_path}", "name=run",
    ]  # fmt: skip
    done = enabled.run(*arguments, YOLO_CKPT="ckpt=full ckpt_stages=0-5")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "ckpt_plan.json").is_file()
    refused = enabled.run("-m", "ultralytics.cfg.__init__", "checks", YOLO_CKPT="ckpt=fast")
    assert refused.returncode != 0
    assert "YOLO_CKPT: ckpt=fast" in refused.stderr


def test_without_the_package_the_host_is_stock(enabled: Environment) -> None:
    shared = enabled.site / "shared.pth"
    text = shared.read_text(encoding="utf-8")
    try:
        shared.write_text(text.replace(f"{ROOT}\n", ""), encoding="utf-8")
        code = (
            "import importlib.util; assert importlib.util.find_spec('yolo_ckpt') is None; import ultralytics.cfg as c"
        )
        done = enabled.run("-I", "-c", code + "; print(hasattr(c.entrypoint, '__wrapped__'))")
    finally:
        shared.write_text(text, encoding="utf-8")
    assert done.stdout.strip() == "False", done.stderr
