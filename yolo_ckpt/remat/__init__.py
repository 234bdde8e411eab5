"""The engine: what autograd saves is replaced by how to compute it again. torch only."""

from yolo_ckpt.remat.blocks import joined_forward
from yolo_ckpt.remat.conv import is_conv_block
from yolo_ckpt.remat.loop import is_known_loop, stage_loop
from yolo_ckpt.remat.loss import run_loss
from yolo_ckpt.remat.segments import Segment, run
from yolo_ckpt.remat.sequential import ConvBlock, PlainConv, sequential_forward
from yolo_ckpt.remat.simulated import is_on_cpu, simulated_for

__all__ = [
    "ConvBlock",
    "PlainConv",
    "Segment",
    "is_conv_block",
    "is_known_loop",
    "is_on_cpu",
    "joined_forward",
    "run",
    "run_loss",
    "sequential_forward",
    "simulated_for",
    "stage_loop",
]
