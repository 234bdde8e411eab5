"""A run that streams to the Platform sends what it sends without a plan, but for times.

A local server plays the Platform and records what the host's own callback posts.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("ultralytics_platform")
ROOT = Path(__file__).parents[2]
TRAIN = """
import os, sys
from ultralytics import YOLO, settings
settings.update(runs_dir=os.getcwd())  # by default the repository that the host is installed in, if there is one
yolo = YOLO("yolo26n.yaml")
if sys.argv.pop() == "full":
    import yolo_ckpt
    yolo_ckpt.attach(yolo, ckpt="full")
yolo.train(data=sys.argv[1], imgsz=64, epochs=2, batch=2, device="cpu", workers=0, project="somebody/some-project",
           name="run", exist_ok=True)
"""
# Measured anew in every run, or naming the machine's state or the folder.
VOLATILE = {"system", "environment", "speedMs", "chunkId", "save_dir", "uploadPath", "modelSize"}


class Platform(ThreadingHTTPServer):
    """Answers every request well, and remembers it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.posted: list[tuple[str, Any]] = []
        self.uploaded: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Platform

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _answer(self, record: dict[str, Any]) -> None:
        text = json.dumps(record).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.server.posted.append((self.path, json.loads(self._body() or b"{}")))
        upload = {"uploadUrl": f"{self.server.url}/upload", "gcsPath": "bucket/best.pt"}
        self._answer({"modelId": "model-1", "runId": "run-1", **upload})

    def do_PUT(self) -> None:
        self.server.uploaded.append(self._body())
        self._answer({})

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def platform() -> Iterator[Platform]:
    server = Platform()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()


def stream(ckpt: str, data: Path, folder: Path, platform: Platform) -> tuple[list[Any], list[bytes], Path]:
    """Train with the Platform on; what was posted and uploaded, and the run folder."""
    platform.posted.clear()
    platform.uploaded.clear()
    folder.mkdir()
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}
    environment |= {
        "ULTRALYTICS_API_KEY": "ul_" + "0" * 40, "ULTRALYTICS_PLATFORM_URL": platform.url,
        "YOLO_CONFIG_DIR": str(folder), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", TRAIN, str(data), ckpt], capture_output=True, text=True, check=False, env=environment,
        cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    run = next(folder.rglob("args.yaml")).parent
    return list(platform.posted), list(platform.uploaded), run


def without_volatile(record: Any) -> Any:
    if isinstance(record, dict):
        return {k: without_volatile(v) for k, v in record.items() if k not in VOLATILE}
    return [without_volatile(v) for v in record] if isinstance(record, list) else record


def events(posted: list[Any]) -> list[Any]:
    """What was posted, without the console, whose lines are cut by time, in an order that threads cannot change."""
    kept = [(path, without_volatile(body)) for path, body in posted if body.get("event") != "console_output"]
    return sorted(kept, key=lambda pair: json.dumps(pair, sort_keys=True))


def test_the_platform_sees_a_stock_run(platform: Platform, made_data: Path, tmp_path: Path) -> None:
    stock, stock_weights, _ = stream("stock", made_data, tmp_path / "a", platform)
    planned, planned_weights, run = stream("full", made_data, tmp_path / "b", platform)
    assert (run / "ckpt_report.json").is_file()
    assert {body["event"] for _, body in stock if "event" in body} >= {
        "training_started", "epoch_end", "training_complete",
    }  # fmt: skip
    assert events(stock) == events(planned)
    console = "".join(body["data"]["content"] for _, body in planned if body.get("event") == "console_output")
    assert "Checkpoint: " in console
    assert "out of memory" not in console.lower()
    assert len(stock_weights) == len(planned_weights) == 1
    models = [
        torch.load(io.BytesIO(w[0]), weights_only=False)["model"].state_dict() for w in (stock_weights, planned_weights)
    ]
    assert all(torch.equal(v, models[1][k]) for k, v in models[0].items())
