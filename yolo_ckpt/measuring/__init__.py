"""Measuring what a step holds and how long it takes. torch only."""

from yolo_ckpt.measuring.bench import WayResult, run_bench
from yolo_ckpt.measuring.ledger import LiveTensor
from yolo_ckpt.measuring.live import LiveBytes, bytes_of, tensors_in
from yolo_ckpt.measuring.parity import State, first_difference, snapshot
from yolo_ckpt.measuring.step import Measurement, StageBytes, measure_step, training_step

__all__ = [
    "LiveBytes", "LiveTensor", "Measurement", "StageBytes", "State", "WayResult", "bytes_of", "first_difference",
    "measure_step", "run_bench", "snapshot", "tensors_in", "training_step",
]  # fmt: skip
