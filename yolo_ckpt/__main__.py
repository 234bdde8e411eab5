"""`python -m yolo_ckpt`: the same as `yolo-ckpt`."""

from yolo_ckpt.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
