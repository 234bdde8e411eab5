"""Inside Ultralytics: callbacks, the trainer seam and the shell. Importing this package does not import ultralytics."""

from yolo_ckpt.integration.callback import PlanCallback, attach, register_default

__all__ = ["PlanCallback", "attach", "register_default"]
