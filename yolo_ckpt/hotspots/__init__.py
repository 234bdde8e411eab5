"""Memory-bounded stand-ins for parts of the host that are not stages, with the same results. torch only: what they
stand for is told by how it behaves."""

from yolo_ckpt.hotspots.attention import took_fused
from yolo_ckpt.hotspots.known import assigner_roles, attention_role, mask_role

__all__ = ["assigner_roles", "attention_role", "mask_role", "took_fused"]
