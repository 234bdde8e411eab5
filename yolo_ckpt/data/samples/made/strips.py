"""Made line-scan images of rolled metal: a line of 4096 sensor pixels, and 256 lines of them."""

from __future__ import annotations

import numpy as np

from yolo_ckpt.data.samples.files import Image
from yolo_ckpt.data.samples.made.texture import Field, Random, bounds, curve, grain, rounded, smooth

WIDTH, HEIGHT = 4096, 256
NAMES = {0: "scratch", 1: "pit"}
VISIBLE = 4.0  # grey values by which a fault differs from the surface where its box ends
Labelled = tuple[int, tuple[int, int, int, int]]  # class, and x0, y0, x1, y1 with the ends excluded


def strip(rng: Random) -> tuple[Image, list[Labelled]]:
    """One image (HEIGHT, WIDTH) and the faults in it."""
    faults: list[Labelled] = []
    change = np.zeros((HEIGHT, WIDTH), np.float32)
    for _ in range(int(rng.randint(0, 4))):
        _add(faults, 0, _scratch(rng, change))
    for _ in range(int(rng.randint(0, 6))):
        _add(faults, 1, _pit(rng, change))
    surface = (_surface(rng) + change) * _illumination(rng)
    return _sensor(rng, surface), faults


def _add(faults: list[Labelled], kind: int, box: tuple[int, int, int, int] | None) -> None:
    if box is not None:
        faults.append((kind, box))


def _surface(rng: Random) -> Field:
    """Rolled metal: fine and coarse streaks along the rolling direction (down), mottling, faint marks across."""
    field = np.full((HEIGHT, WIDTH), 128, np.float32)
    for across, down, grey in ((1.2, 40, 4.0), (2.5, 110, 3.5), (9, 200, 2.5), (60, 400, 2.5)):
        field += grey * smooth(rng, HEIGHT, WIDTH, across, down)
    field += 1.8 * smooth(rng, HEIGHT, WIDTH, 14, 18) + 1.5 * smooth(rng, HEIGHT, WIDTH, 180, 70)
    chatter = curve(rng, HEIGHT, 9)[:, None] * (0.5 + 0.5 * np.abs(curve(rng, WIDTH, 700)))[None]
    return np.asarray(field + chatter, dtype=np.float32)


def _illumination(rng: Random) -> Field:
    """Gain of light and sensor: darker towards the ends of the line, uneven lamps, drift over time, dirty pixels."""
    x = np.linspace(-1, 1, WIDTH, dtype=np.float32)
    line = 1.08 - 0.34 * (x + np.float32(rng.uniform(-0.15, 0.15))) ** 2
    line = line * (1 + 0.045 * curve(rng, WIDTH, 900)) * (1 + 0.012 * curve(rng, WIDTH, 170))
    line = line * (1 + 0.006 * grain(rng, 1, WIDTH)[0])
    for _ in range(int(rng.randint(6, 13))):  # dust and fat on the sensor: one column, or a few, over all lines
        centre, width, gain = rng.randint(0, WIDTH), rng.uniform(0.8, 4.0), rng.uniform(0.78, 0.96)
        line = line * (1 - (1 - gain) * np.clip(1.5 - np.abs(np.arange(WIDTH) - centre) / width, 0, 1))
    time = 1 + 0.015 * curve(rng, HEIGHT, 120)
    return np.asarray(time[:, None] * line[None], dtype=np.float32)


def _sensor(rng: Random, surface: Field) -> Image:
    """What the camera makes of it: a soft lens, shot and read noise, 8 bit."""
    import cv2

    seen = np.clip(cv2.GaussianBlur(surface, (0, 0), 0.7), 0, None)
    noise = np.sqrt(1.2 + 0.022 * seen) * grain(rng, HEIGHT, WIDTH)
    return rounded(np.asarray(seen + noise, dtype=np.float32))


def _scratch(rng: Random, change: Field) -> tuple[int, int, int, int] | None:
    """A long thin scratch: across at a small angle, or one in four along the rolling direction. It is bright where the
    metal is torn and dark beside it, fades out at its ends and breaks off in places. Returns its box."""
    if rng.randint(0, 4):
        length, start = int(rng.randint(350, 1900)), int(rng.randint(0, WIDTH - 400))
        length = min(length, WIDTH - start)
        rise = rng.uniform(-0.11, 0.11) * length
        region = change[:, start : start + length]
        left, top = start, 0
    else:
        length, top = int(rng.randint(120, 230)), int(rng.randint(0, 26))
        rise = rng.uniform(-0.25, 0.25) * length
        left = int(rng.randint(80, WIDTH - 160))
        region = change[top : top + length, left - 70 : left + 70].T
        left -= 70
    mark = _stroke(rng, region.shape[0], region.shape[1], rise)
    region += mark
    turned = region.shape[0] != HEIGHT
    return bounds(np.abs(mark.T if turned else mark) > VISIBLE, left, top)


def _stroke(rng: Random, height: int, length: int, rise: float) -> Field:
    """A scratch from left to right in a field (height, length)."""
    t = np.linspace(0, 1, length, dtype=np.float32)
    bow = rng.uniform(-0.03, 0.03) * length
    middle = rng.uniform(0.3, 0.7) * height + rise * (t - 0.5) + bow * 4 * t * (1 - t) + 0.5 * curve(rng, length, 60)
    width = rng.uniform(0.7, 1.6) * (1 + 0.25 * curve(rng, length, 80))
    ends = np.clip(np.minimum(t, 1 - t) * rng.uniform(6, 14), 0, 1)
    force = np.clip(0.75 + 0.45 * curve(rng, length, 110) + 0.25 * curve(rng, length, 9), 0, 1.5) * ends
    away = (np.arange(height, dtype=np.float32)[:, None] - middle[None]) / np.clip(width, 0.5, 3)[None]
    side = float(rng.choice((-2.2, 2.2)))
    profile = np.exp(-0.5 * away**2) - 0.45 * np.exp(-0.5 * ((away - side) / 1.4) ** 2)
    depth = rng.uniform(30, 85) * (1 if rng.randint(0, 4) else -0.7)
    return np.asarray(depth * force[None] * profile, dtype=np.float32)


def _pit(rng: Random, change: Field) -> tuple[int, int, int, int] | None:
    """A pit of 6 to 26 pixels with a frayed border: dark, with a bright rim on the far side of the light."""
    import cv2

    size = 64
    across, down = rng.uniform(2.5, 9), rng.uniform(2.5, 13)
    left, top = int(rng.randint(0, WIDTH - size)), int(rng.randint(0, HEIGHT - size))
    ys, xs = (np.indices((size, size), dtype=np.float32) - size / 2) / np.float32(1)
    away = np.sqrt((xs / across) ** 2 + (ys / down) ** 2) + 0.22 * smooth(rng, size, size, 7, 7)
    hole = np.asarray(cv2.GaussianBlur(np.clip(2.2 - 2 * away, 0, 1).astype(np.float32), (0, 0), 0.9))
    far, near = (np.clip(np.roll(hole, (away, away), (0, 1)) - hole, 0, 1) for away in (2, -1))
    rim = far - 0.3 * near
    depth = rng.uniform(35, 75)
    mark = np.asarray(depth * (0.6 * rim - hole * (0.8 + 0.12 * smooth(rng, size, size, 3, 3))), dtype=np.float32)
    change[top : top + size, left : left + size] += mark
    return bounds(np.abs(mark) > VISIBLE, left, top)
