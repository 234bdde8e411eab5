"""Plans for budgets: what `ckpt=auto` chooses for shares of stock's peak, and what it costs by estimate.

    python benchmarks/planner.py yolo26n.yaml yolo26m.yaml yolo11m.yaml yolov8x.yaml imgsz=1280 batch=1

Prints one JSON line per model and budget: the budget, the forecast peak of a step with its loss, the estimated added
time, and how many stages have which action; then the same for the modes `selective` and `full`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace

from yolo_ckpt.errors import BudgetInfeasibleError
from yolo_ckpt.integration.auto import auto_plan
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.forecast import AMP
from yolo_ckpt.integration.models import load_model
from yolo_ckpt.plan import Plan
from yolo_ckpt.planner import make_plan
from yolo_ckpt.settings import Settings

SHARES = (0.9, 0.7, 0.5, 0.4, 0.3, 0.25, 0.2)


def show(model: str, what: str, budget_bytes: int | None, plan: Plan | None, peak_bytes: int | None) -> None:
    """One line."""
    row = {
        "model": model,
        "budget": what,
        "budget_mib": None if budget_bytes is None else budget_bytes >> 20,
        "peak_mib": None if peak_bytes is None else peak_bytes >> 20,
        "added": None if plan is None or plan.added_share is None else round(plan.added_share, 4),
        "actions": {} if plan is None else dict(Counter(s.action for s in plan.stages)),
    }
    print(json.dumps(row), flush=True)


def main() -> None:
    """Plan what the arguments ask for."""
    options = {"imgsz": "1280", "batch": "1", "amp": "fp32"} | dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a)
    imgsz, batch = int(options["imgsz"]), int(options["batch"])
    for name in (a for a in sys.argv[1:] if "=" not in a):
        model = load_model(name, "meta")
        wanted = Conditions(imgsz=imgsz, batch=batch, budget_bytes=0, amp=AMP[options["amp"]])
        simulated = wanted.simulated(model)
        stock = simulated.step(None).peak_bytes
        show(name, "stock", None, None, stock)
        for ckpt in ("selective", "full"):
            plan = make_plan(model, Settings(ckpt=ckpt), imgsz=imgsz, batch=batch)
            peak = simulated.step(plan).peak_bytes
            show(name, ckpt, None, plan, peak)
            same = auto_plan(model, replace(wanted, budget_bytes=peak))
            show(name, f"peak of {ckpt}", peak, same.plan, same.plan.peak_bytes)
        for share in SHARES:
            budget = int(share * stock)
            try:
                found = auto_plan(model, replace(wanted, budget_bytes=budget))
                show(name, f"{share:.0%}", budget, found.plan, found.plan.peak_bytes)
            except BudgetInfeasibleError as error:
                show(name, f"{share:.0%}", budget, None, None)
                print(json.dumps({"model": name, "budget": f"{share:.0%}", "refused": str(error)}), flush=True)


if __name__ == "__main__":
    main()
