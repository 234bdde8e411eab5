"""The engine: what autograd saves is replaced by how to compute it again. torch only."""

from yolo_ckpt.remat.conv import is_conv_block
from yolo_ckpt.remat.segments import Segment, run
from yolo_ckpt.remat.sequential import ConvBlock, PlainConv, sequential_forward

__all__ = ["ConvBlock", "PlainConv", "Segment", "is_conv_block", "run", "sequential_forward"]
