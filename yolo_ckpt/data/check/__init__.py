"""`yolo-ckpt check`: what training would do with a data set, before it does it. Files are read, never written.

From below: `findings` (what can be said), `listing`, `dataset` and `task` (which files the host takes, and for what),
`headers` with `endings` and `labels` (a frozen record of each), `scan` (all of them), `judge` (what the host's own
readers make of those in doubt), `imagefindings`, `labelfindings`, `setfindings` and `duplicates` (from records to
findings), `statistics` and `memory` (numbers), `run` (all together).
"""

from yolo_ckpt.data.check.run import Options, Report, check

__all__ = ["Options", "Report", "check"]
