"""From numbers to actions. No torch."""

from yolo_ckpt.planning.fixed import NOT_NEEDED, StageFacts, fixed_plan, is_tightest, joins_to_try, plan_of
from yolo_ckpt.planning.select import select_stages

__all__ = ["NOT_NEEDED", "StageFacts", "fixed_plan", "is_tightest", "joins_to_try", "plan_of", "select_stages"]
