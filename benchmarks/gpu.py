"""What plans do on a CUDA device: parity, memory, step time, and the largest image that fits a card.

    python benchmarks/gpu.py                       # under ten minutes; writes benchmarks/results/DATE-gpu.{json,md}
    python benchmarks/gpu.py minutes=4 out=/tmp/results card_gib=24

Needs no network and no data set: models from their YAML, noise images with random objects, and the model's own loss.
Where there is no CUDA device it runs a small form on the CPU, which shows that the script works and nothing else.
Every case is written when it is done; cases that the time does not reach are named in the result.
"""

from __future__ import annotations

import datetime
import gc
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

import yolo_ckpt
from yolo_ckpt.integration.auto import auto_plan
from yolo_ckpt.integration.batches import made_batch
from yolo_ckpt.integration.bench import MODES, PEERS, STOCK, bench_model
from yolo_ckpt.integration.conditions import Conditions
from yolo_ckpt.integration.forecast import AMP
from yolo_ckpt.integration.models import load_model
from yolo_ckpt.integration.versions import installed
from yolo_ckpt.measuring import WayResult
from yolo_ckpt.reporting import write_whole

EAGER = PEERS[:2]
OBJECTS = 30


@dataclass(frozen=True)
class Case:
    """One model at one size."""

    model: str
    imgsz: int
    batch: int
    amp: str
    peers: tuple[str, ...] = EAGER
    rounds: int = 5
    budgets: tuple[float, ...] = ()


CUDA_CASES = (
    Case("yolo26m.yaml", 1280, 4, "fp16", peers=EAGER[:1], budgets=(0.5, 0.25)),
    Case("yolo26m.yaml", 1280, 16, "fp16", peers=EAGER[:1]),
    Case("yolo26n.yaml", 640, 16, "fp16"),
    Case("yolo26s.yaml", 2048, 2, "fp16", peers=EAGER[:1], budgets=(0.4,)),
    Case("yolo26x.yaml", 1280, 8, "bf16", peers=EAGER[:1]),
    Case("yolo11m.yaml", 1280, 4, "fp16", peers=EAGER[:1]),
    Case("yolo26m.yaml", 2048, 2, "bf16", peers=EAGER[:1]),
    Case("yolo26n.yaml", 4096, 1, "fp16", peers=EAGER[:1]),
    Case("yolo26m.yaml", 1280, 4, "fp32", peers=EAGER[:1]),
    Case("yolo26x.yaml", 4096, 1, "fp16", peers=(), rounds=3),
    Case("yolo11m.yaml", 4096, 1, "bf16", peers=(), rounds=3),
    Case("yolo26x.yaml", 2048, 1, "fp16", peers=EAGER[:1]),
    Case("yolo26s.yaml", 640, 16, "bf16"),
    Case("yolo26m.yaml", 1280, 4, "fp16", peers=PEERS[2:]),
)
CPU_CASES = (
    Case("yolo26n.yaml", 160, 2, "bf16", rounds=2, budgets=(0.8, 0.5)),
    Case("yolo11n.yaml", 128, 1, "fp32", rounds=2),
)
COLUMNS = [
    "model", "imgsz", "batch", "AMP", "way", "allocated", "reserved", "live", "forecast live", "workspace", "step ms",
    "x stock", "parity",
]  # fmt: skip
CARD_MODELS = ("yolo26m.yaml", "yolo26x.yaml")


def bench(case: Case, device: str) -> dict[str, Any]:
    """Stock, our modes, plans for a budget and the peers for one case, and what was forecast for each."""
    model = load_model(case.model, "cpu")
    amp = AMP[case.amp]
    wanted = Conditions(imgsz=case.imgsz, batch=case.batch, budget_bytes=0, objects=OBJECTS, amp=amp, device=device)
    simulated = wanted.simulated(model)
    workspace = simulated.workspace_bytes(torch.device(device))
    plans = {ckpt: yolo_ckpt.plan(model, imgsz=case.imgsz, batch=case.batch, ckpt=ckpt) for ckpt in MODES}
    forecasts = {STOCK: simulated.step(None).peak_bytes}
    refused = {}
    for share in case.budgets:
        way = f"auto {share:.0%}"
        try:
            plans[way] = auto_plan(model, replace(wanted, budget_bytes=int(share * forecasts[STOCK]))).plan
        except yolo_ckpt.BudgetInfeasibleError as error:
            refused[way] = error.least_bytes
    forecasts |= {name: simulated.step(plan).peak_bytes for name, plan in plans.items()}
    ways = _ways(case, model, plans, device)
    return {
        "case": asdict(case),
        "workspace_bytes": workspace,
        "refused": refused,
        "ways": [{**asdict(way), "forecast_bytes": forecasts.get(way.way)} for way in ways],
    }


def _ways(case: Case, model: Any, plans: dict[str, Any], device: str) -> list[WayResult]:
    return bench_model(
        model, plans, imgsz=case.imgsz, batch=case.batch, objects=OBJECTS, device=device, peers=case.peers,
        amp=AMP[case.amp], rounds=case.rounds,
    )  # fmt: skip


def largest_imgsz(name: str, ckpt: str, card_gib: float, deadline: float) -> int | None:
    """The largest image side, a multiple of 64, at which a step of batch 1 in fp16 fits in `card_gib`."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(min(card_gib * 2**30 / total, 1.0))
    low, high = 0, 0
    try:
        size = 1024
        while not high or high - low > 64:
            if time.monotonic() > deadline:
                return None
            if fits(name, ckpt, size):
                low = size
            else:
                high = size
            size = (low + high) // 128 * 64 if high else size * 2
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    return low


def fits(name: str, ckpt: str, imgsz: int) -> bool:
    """True when two steps of batch 1 run: the second has the gradients of the first."""
    try:
        step_twice(name, ckpt, imgsz)
        return True
    except torch.OutOfMemoryError:
        return False
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def step_twice(name: str, ckpt: str, imgsz: int) -> None:
    """Two steps in fp16."""
    model = load_model(name, "cuda")
    yolo_ckpt.apply(model, yolo_ckpt.plan(model, imgsz=imgsz, batch=1, ckpt=ckpt))
    batch = made_batch(model, imgsz=imgsz, batch=1, objects=OBJECTS, device="cuda")
    for _ in range(2):
        with torch.autocast("cuda", torch.float16):
            loss, _ = model(batch)
        loss.sum().backward()


def cards(card_gib: float, deadline: float) -> Iterator[dict[str, Any]]:
    """The largest image per model and mode on a card with `card_gib` of memory."""
    for name in CARD_MODELS:
        for ckpt in ("off", *MODES):
            yield {"model": name, "ckpt": ckpt, "imgsz": largest_imgsz(name, ckpt, card_gib, deadline)}


def markdown(record: dict[str, Any]) -> str:
    """The record as a page."""
    lines = [
        f"# {record['device']}, {record['date']}",
        "",
        ", ".join(f"{k} {v}" for k, v in record["versions"].items()),
    ]
    lines += [
        "",
        "One training step with the loss, 30 objects per image, after a first step; deterministic kernels.",
        "",
    ]
    lines += [
        "Sizes in MiB. Workspace: of the largest convolutions, measured by themselves, on top of what is live.",
        "",
    ]
    lines += [_row(COLUMNS), "|" + "---|" * len(COLUMNS)]
    for row in record["cases"]:
        case = row["case"]
        key = [case["model"], case["imgsz"], case["batch"], case["amp"]]
        for way in row["ways"]:
            lines.append(_row([*key, *_cells(way, row["workspace_bytes"])]))
        for name, least in row["refused"].items():
            lines.append(_row([*key, name, f"needs {least / 2**20:,.0f}", *[""] * 7]))
    if record["not_reached"]:
        lines += ["", f"Not reached in the time given: {', '.join(record['not_reached'])}."]
    if record["cards"]:
        lines += ["", f"Largest image at batch 1, fp16, with {record['card_gib']:g} GiB of this device:", ""]
        lines += ["| model | ckpt | imgsz |", "|---|---|---|"]
        lines += [_row([row["model"], row["ckpt"], row["imgsz"] or "not reached"]) for row in record["cards"]]
    return "\n".join(lines) + "\n"


def _row(cells: list[Any]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _cells(way: dict[str, Any], workspace_bytes: int) -> list[str]:
    if not way["fits"]:
        return [way["way"], "does not fit", *[""] * 7]
    sizes = ("allocated_bytes", "reserved_bytes", "live_bytes", "forecast_bytes")
    mib = ["" if way[k] is None else f"{way[k] / 2**20:,.0f}" for k in sizes]
    mib.append("" if way["forecast_bytes"] is None else f"{workspace_bytes / 2**20:,.0f}")
    times = [f"{way['step_ms']:.1f}", f"{way['step_ratio']:.3f}"] if way["step_ms"] else ["", ""]
    return [way["way"], *mib, *times, "reference" if way["way"] == STOCK else way["difference"] or "equal"]


def main() -> None:
    """Run the cases that the time allows."""
    options = {"minutes": "9", "out": str(Path(__file__).parent / "results"), "card_gib": "24"}
    options |= dict(a.split("=", 1) for a in sys.argv[1:])
    cuda = torch.cuda.is_available()
    torch.use_deterministic_algorithms(True, warn_only=True)  # as the host trains by default
    torch.backends.cudnn.deterministic = True
    start = time.monotonic()
    deadline = start + 60 * float(options["minutes"])
    record: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "device": torch.cuda.get_device_name() if cuda else "CPU (small form)",
        "versions": installed(),
        "card_gib": float(options["card_gib"]),
        "cases": [],
        "not_reached": [],
        "cards": [],
    }
    out = Path(options["out"], f"{record['date']}-gpu{'' if cuda else '-small'}")
    out.parent.mkdir(parents=True, exist_ok=True)

    def write() -> None:
        write_whole(out.with_suffix(".json"), json.dumps(record, indent=1))
        write_whole(out.with_suffix(".md"), markdown(record))

    cards_from = start + 0.72 * (deadline - start)  # the rest is for the cards
    for case in CUDA_CASES if cuda else CPU_CASES:
        label = f"{case.model} {case.imgsz} {case.amp}"
        if time.monotonic() > (cards_from if cuda else deadline):
            record["not_reached"].append(label)
            continue
        began = time.monotonic()
        record["cases"].append(bench(case, "cuda" if cuda else "cpu"))
        write()
        print(f"{label}: {time.monotonic() - began:.0f} s", flush=True)
    for row in cards(record["card_gib"], deadline) if cuda else ():
        record["cards"].append(row)
        write()
        print(row, flush=True)
    write()
    print(markdown(record))


if __name__ == "__main__":
    main()
