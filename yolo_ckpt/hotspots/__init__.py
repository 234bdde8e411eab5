"""Memory-bounded stand-ins for parts of the host that are not stages, with the same results. torch only: what they
stand for is told by how it behaves."""

from yolo_ckpt.hotspots.criteria import parts_of
from yolo_ckpt.hotspots.known import assigner_roles, attention_role
from yolo_ckpt.hotspots.knownlosses import criterion_roles
from yolo_ckpt.hotspots.rounding import rounded_parts

__all__ = ["assigner_roles", "attention_role", "criterion_roles", "parts_of", "rounded_parts"]
