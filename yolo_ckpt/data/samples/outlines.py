"""Polygons around the objects of a mask, true to a fraction of a pixel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yolo_ckpt.data.samples.files import Image

FACTOR = 4  # contour points are 1 / (2 * FACTOR) pixels inside the pixels' borders


def outlines(mask: Image, factor: int = FACTOR) -> list[NDArray[np.float64]]:
    """The outer outlines (N, 2) of a mask's pieces in pixels, x and y, the largest first.

    A contour of OpenCV runs through the centres of border pixels, so its box is a pixel too narrow and too low. Here
    the mask is enlarged first, and the contour runs an eighth of a pixel inside the border. The host cuts the fraction
    off every point and fills the polygon with its edge: that gives the mask again, to the pixel.
    """
    import cv2

    ys, xs = np.nonzero(mask)
    top, left = int(ys.min()), int(xs.min())
    small = mask[top : ys.max() + 1, left : xs.max() + 1].astype(np.uint8)
    large = np.repeat(np.repeat(small, factor, axis=0), factor, axis=1)
    found, _ = cv2.findContours(large, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    found = sorted(found, key=cv2.contourArea, reverse=True)
    return [(contour[:, 0] + 0.5) / factor + (left, top) for contour in found]
