"""Forecasts against real training steps on the CPU: peak live bytes of a step with its loss.

    python benchmarks/forecast.py yolo26n.yaml yolo11n-seg.yaml sizes=320,480,640 batch=2 objects=10

Prints one JSON line per model, size and way (stock, selective, full, and plans for 60 % and 35 % of stock's peak): the
forecast by simulation, what the real step had alive, their ratio, and whether the plan's bits are stock's.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from yolo_ckpt.errors import BudgetInfeasibleError
from yolo_ckpt.integration.auto import auto_plan
from yolo_ckpt.integration.bench import STOCK, bench_model
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.models import load_model
from yolo_ckpt.planner import make_plan
from yolo_ckpt.settings import Settings

SHARES = (0.6, 0.35)
MIB = 1 << 20


def rows(name: str, imgsz: int, batch: int, objects: int) -> list[dict[str, object]]:
    """The lines of one model and size."""
    model = load_model(name, "cpu")
    wanted = Conditions(imgsz=imgsz, batch=batch, budget_bytes=0, objects=objects)
    simulated = wanted.simulated(model)
    plans = {c: make_plan(model, Settings(ckpt=c), imgsz=imgsz, batch=batch) for c in ("selective", "full")}
    forecasts = {STOCK: simulated.step(None).peak_bytes}
    for share in SHARES:
        try:
            plans[f"auto {share:.0%}"] = auto_plan(
                model, replace(wanted, budget_bytes=int(share * forecasts[STOCK]))
            ).plan
        except BudgetInfeasibleError as error:
            print(json.dumps({"model": name, "imgsz": imgsz, "share": share, "refused": str(error)}), flush=True)
    forecasts |= {way: simulated.step(plan).peak_bytes for way, plan in plans.items()}
    ways = bench_model(model, plans, imgsz=imgsz, batch=batch, objects=objects, device="cpu", peers=(), rounds=0)
    return [
        {
            "model": name, "imgsz": imgsz, "batch": batch, "way": way.way,
            "forecast_mib": round(forecasts[way.way] / MIB, 2), "measured_mib": round((way.live_bytes or 0) / MIB, 2),
            "ratio": round(forecasts[way.way] / way.live_bytes, 4) if way.live_bytes else None,
            "same_bits": way.difference is None,
        }
        for way in ways
    ]  # fmt: skip


def main() -> None:
    """Compare what the arguments ask for."""
    options = {"sizes": "320,480,640", "batch": "2", "objects": "10"}
    options |= dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a)
    for name in (a for a in sys.argv[1:] if "=" not in a):
        for imgsz in map(int, options["sizes"].split(",")):
            for row in rows(name, imgsz, int(options["batch"]), int(options["objects"])):
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
