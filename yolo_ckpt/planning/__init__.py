"""From numbers to actions. No torch."""

from yolo_ckpt.planning.fixed import StageFacts, fixed_plan, plan_of
from yolo_ckpt.planning.select import select_stages

__all__ = ["StageFacts", "fixed_plan", "plan_of", "select_stages"]
