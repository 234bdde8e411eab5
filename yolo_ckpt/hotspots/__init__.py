"""Memory-bounded stand-ins for parts of the host that are not stages, with the same results. torch only: what they
stand for is told by how it behaves."""

from yolo_ckpt.hotspots.assigner import BoundedAssigner
from yolo_ckpt.hotspots.attention import took_fused
from yolo_ckpt.hotspots.known import attention_role, is_known_assigner

__all__ = ["BoundedAssigner", "attention_role", "is_known_assigner", "took_fused"]
