"""Made pictures of bare circuit boards, as an inspection camera takes them: 3000 x 2200 pixels, faults of about 20."""

from __future__ import annotations

import numpy as np

from yolo_ckpt.data.samples.files import Image
from yolo_ckpt.data.samples.made import lettering
from yolo_ckpt.data.samples.made.faults import Labelled, put_faults
from yolo_ckpt.data.samples.made.layout import HEIGHT, MARGIN, WIDTH, Layout, Pad, made_layout, pixel
from yolo_ckpt.data.samples.made.painting import Masks, painted
from yolo_ckpt.data.samples.made.texture import Random

CLEARANCE = 16  # pixels between a pour and other copper


def board(rng: Random) -> tuple[Image, list[Labelled]]:
    """One picture (HEIGHT, WIDTH, 3), blue first, and the faults in it."""
    layout = made_layout(rng)
    pours = _pours(rng, layout)
    copper = np.maximum(np.maximum(_drawn_pads(layout.pads, 0), _drawn_traces(layout)), pours)
    ink = _drawn_ink(layout)
    closed = np.maximum(np.maximum(ink, pours), _drawn_pads(layout.pads, 14))
    faults, blind = put_faults(rng, layout, copper, closed)
    holes = _drawn_holes([pad for pad in layout.pads if pad not in blind])
    return painted(rng, Masks(copper=copper, openings=_drawn_pads(layout.pads, 3), holes=holes, ink=ink)), faults


def _blank() -> Image:
    return np.zeros((HEIGHT, WIDTH), np.uint8)


def _drawn_pads(pads: list[Pad], wider: int) -> Image:
    """Pads with rounded corners; `wider` on all sides."""
    import cv2

    image = _blank()
    for pad in pads:
        (x, y), half = pad.centre, (pad.width // 2 + wider, pad.height // 2 + wider)
        radius = max(round(pad.corner * min(half)), 1)
        if pad.corner == 1:
            cv2.circle(image, (x, y), half[0], 255, -1, cv2.LINE_AA)
            continue
        first, last = (x - half[0] + radius, y - half[1] + radius), (x + half[0] - radius, y + half[1] - radius)
        cv2.rectangle(image, first, last, 255, -1)
        cv2.rectangle(image, first, last, 255, 2 * radius, cv2.LINE_AA)
    return image


def _drawn_traces(layout: Layout) -> Image:
    import cv2

    image = _blank()
    for way, width in layout.traces:
        points = np.array([pixel(cell) for cell in way], np.int32)
        cv2.polylines(image, [points], False, 255, width, cv2.LINE_AA)
    return image


def _pours(rng: Random, layout: Layout) -> Image:
    """Two areas filled with copper, away from everything else."""
    import cv2

    image = _blank()
    for _ in range(2):
        x, y = int(rng.randint(MARGIN, WIDTH - 1000)), int(rng.randint(MARGIN, HEIGHT - 800))
        width, height = (int(side) for side in rng.randint((500, 380), (1000, 760)))
        cv2.rectangle(image, (x, y), (x + width, y + height), 255, -1)
    taken = np.maximum(_drawn_pads(layout.pads, 0), _drawn_traces(layout))
    for first, last in layout.frames:
        cv2.rectangle(taken, first, last, 255, -1)
    border = np.s_[MARGIN + 28 : HEIGHT - MARGIN - 28, MARGIN + 28 : WIDTH - MARGIN - 28]
    free = np.zeros_like(image)
    free[border] = image[border]
    free[_near(taken, CLEARANCE)] = 0
    core = 255 - 255 * _near(255 - free, CLEARANCE).astype(np.uint8)  # opened: slivers go, corners become round
    return np.where(_near(core, CLEARANCE), np.uint8(255), np.uint8(0))


def _near(mask: Image, pixels: int) -> Image:
    """Where a mask is set or its next set pixel is no farther than that (HEIGHT, WIDTH), bool."""
    import cv2

    away = cv2.distanceTransform((mask == 0).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_5)
    return np.asarray(away) <= pixels


def _drawn_holes(pads: list[Pad]) -> Image:
    import cv2

    image = _blank()
    for pad in pads:
        if pad.hole:
            cv2.circle(image, pad.centre, pad.hole // 2, 255, -1, cv2.LINE_AA)
    return image


def _drawn_ink(layout: Layout) -> Image:
    """Silkscreen, which keeps off the pads."""
    import cv2

    image = _blank()
    for first, last in layout.frames:
        cv2.rectangle(image, first, last, 255, 3, cv2.LINE_AA)
    for text in layout.texts:
        lettering.write(image, text.words, text.at, 26 * text.size, 3)
    image[_drawn_pads(layout.pads, 7) > 0] = 0
    return image
