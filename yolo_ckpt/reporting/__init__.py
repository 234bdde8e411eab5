"""Reports from records; never sees a model. No torch."""

from yolo_ckpt.reporting.files import write_whole
from yolo_ckpt.reporting.lines import auto_line, forecast_line, loss_line, plan_lines, rect_line
from yolo_ckpt.reporting.report import RunReport

__all__ = ["RunReport", "auto_line", "forecast_line", "loss_line", "plan_lines", "rect_line", "write_whole"]
