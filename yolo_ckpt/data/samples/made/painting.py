"""How a circuit board looks to a camera: lacquer, copper under it, bare pads, holes, ink, light and noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from yolo_ckpt.data.samples.files import Image
from yolo_ckpt.data.samples.made.layout import HEIGHT, MARGIN, WIDTH
from yolo_ckpt.data.samples.made.texture import Field, Random, curve, grain, rounded, smooth

Colour = tuple[float, float, float]  # blue, green, red


@dataclass(frozen=True, kw_only=True)
class Masks:
    """Where a board has what, as coverage from 0 to 255 (HEIGHT, WIDTH)."""

    copper: Image
    openings: Image
    holes: Image
    ink: Image


@dataclass(frozen=True, kw_only=True)
class Finish:
    """The colours of a board: its lacquer on laminate and over copper, and its pads."""

    lacquer: Colour
    covered: Colour
    pad: Colour


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What all three colours share (HEIGHT, WIDTH): shares from 0 to 1, and grey values to add."""

    metal: Field
    bare: Field
    hole: Field
    white: Field
    relief: Field
    cloth: Field
    shine: Field
    wall: Field
    core: Field
    edge: Field
    table: Field
    light: Field
    noise: Field


GOLD, TIN = (112.0, 182.0, 214.0), (178.0, 186.0, 188.0)
FINISHES = (
    Finish(lacquer=(44, 74, 22), covered=(72, 128, 48), pad=GOLD),
    Finish(lacquer=(36, 66, 30), covered=(58, 112, 58), pad=TIN),
    Finish(lacquer=(52, 70, 16), covered=(86, 122, 36), pad=GOLD),
)
LAMINATE: Colour = (84, 122, 128)
TABLE: Colour = (62, 60, 58)
INK: Colour = (226, 230, 228)
DRILLED: Colour = (24, 24, 26)
DUST = 26  # specks on a board


def painted(rng: Random, masks: Masks) -> Image:
    """The picture (HEIGHT, WIDTH, 3), blue first."""
    finish = FINISHES[int(rng.randint(0, len(FINISHES)))]
    scene = _scene(rng, masks)
    return np.stack([_channel(rng, scene, finish, channel) for channel in range(3)], axis=2)


def _channel(rng: Random, scene: Scene, finish: Finish, channel: int) -> Image:
    """One colour of the picture (HEIGHT, WIDTH): the layers of the board from below, the table, and the camera."""
    import cv2

    seen = _over(np.full_like(scene.metal, finish.lacquer[channel]), finish.covered[channel], scene.metal)
    seen += scene.relief
    seen += scene.cloth
    pads = _over(LAMINATE[channel] + scene.cloth, finish.pad[channel] + scene.shine, scene.metal)
    _over(seen, pads, scene.bare)
    _over(seen, INK[channel], scene.white)
    _over(seen, DRILLED[channel] + scene.wall, scene.hole)
    around = _over(TABLE[channel] * scene.table, 0.8 * LAMINATE[channel], scene.edge)
    seen = _over(around, seen, scene.core)
    seen *= scene.light
    seen = np.asarray(cv2.GaussianBlur(seen, (0, 0), 0.8), dtype=np.float32)
    return rounded(seen + scene.noise + 0.9 * grain(rng, HEIGHT, WIDTH))


def _scene(rng: Random, masks: Masks) -> Scene:
    """The layers, and the light on them."""
    metal, raised = _soft(masks.copper), _relief(masks.copper, 2)
    outline = _outline(0)
    cloth = np.sign(curve(rng, WIDTH, 7))[None] * np.sign(curve(rng, HEIGHT, 7))[:, None]  # glass fibre under lacquer
    stains = smooth(rng, HEIGHT, WIDTH, 3, 3) + smooth(rng, HEIGHT, WIDTH, 500, 400)
    return Scene(
        metal=metal, bare=_soft(masks.openings), hole=_soft(masks.holes),
        white=np.float32(0.93) * _soft(masks.ink) * (1 + np.float32(0.04) * smooth(rng, HEIGHT, WIDTH, 4, 4)),
        relief=26 * raised + np.float32(1.6) * stains + _dust(rng),
        cloth=np.float32(1.6) * cloth * (1 - metal),
        shine=9 * smooth(rng, HEIGHT, WIDTH, 9, 9) + 30 * raised,
        wall=60 * np.clip(_relief(masks.holes, 4), 0, 1),
        core=_soft(_outline(8)), edge=_soft(outline), table=_table(rng, outline), light=_light(rng),
        noise=np.float32(1.5) * grain(rng, HEIGHT, WIDTH),
    )  # fmt: skip


def _outline(smaller: int) -> Image:
    """The board with its rounded corners."""
    import cv2

    image = np.zeros((HEIGHT, WIDTH), np.uint8)
    border = MARGIN + smaller // 2 + 12
    corners = (border, border), (WIDTH - border, HEIGHT - border)
    cv2.rectangle(image, *corners, 255, 24, cv2.LINE_AA)
    cv2.rectangle(image, *corners, 255, -1)
    return image


def _table(rng: Random, outline: Image) -> Field:
    """Brightness of the table: brushed metal with the board's shadow."""
    import cv2

    shadow = np.roll(np.asarray(cv2.GaussianBlur(outline, (0, 0), 14)), (14, 14), (0, 1)).astype(np.float32) / 255
    return np.asarray((1 - np.float32(0.55) * shadow) * (1 + np.float32(0.04) * smooth(rng, HEIGHT, WIDTH, 2, 90)))


def _light(rng: Random) -> Field:
    """Uneven light: less in the corners, more on one side."""
    x, y = np.linspace(-1, 1, WIDTH, dtype=np.float32), np.linspace(-1, 1, HEIGHT, dtype=np.float32)
    right, down = (np.float32(value) for value in rng.uniform(-0.03, 0.03, 2))
    even = np.float32(1.05) - np.float32(0.09) * (x[None] ** 2 + y[:, None] ** 2) + right * x[None] + down * y[:, None]
    return np.asarray(even + np.float32(0.03) * smooth(rng, HEIGHT, WIDTH, 1200, 900))


def _dust(rng: Random) -> Field:
    """Bright and dark specks, as grey values to add."""
    import cv2

    specks = np.zeros((HEIGHT, WIDTH), np.float32)
    for _ in range(DUST):
        x, y = int(rng.randint(MARGIN, WIDTH - MARGIN)), int(rng.randint(MARGIN, HEIGHT - MARGIN))
        cv2.circle(specks, (x, y), int(rng.randint(1, 3)), float(rng.choice((-22, 30, 45))), -1)
    return specks


def _soft(mask: Image) -> Field:
    """A mask as shares, as soft at its border as a lens makes it."""
    import cv2

    return np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.8)).astype(np.float32) / np.float32(255)


def _relief(mask: Image, step: int) -> Field:
    """How much a surface that is raised where `mask` is set faces the light, which comes from the upper left."""
    import cv2

    high = np.asarray(cv2.GaussianBlur(mask, (0, 0), 1.4)).astype(np.float32) / np.float32(255)
    return high - np.roll(high, (step, step), (0, 1))


def _over(below: Field, above: Field | float, share: Field) -> Field:
    """`above` over `below` by its share, in place."""
    change = above - below
    change *= share
    below += change
    return below
