"""What the host drops, and how it takes turned images (ultralytics 8.4.190, `data/utils.py`)."""

from __future__ import annotations

# It checks every image with PIL, which refuses above twice its `MAX_IMAGE_PIXELS` of 1024^3 // 12.
MOST_PIXELS = 2 * (1024**3 // 4 // 3)
LEAST_SIDE_PX = 10  # `check_image`
SIDES_SWAPPED = frozenset({5, 6, 7, 8})  # EXIF orientations, of which width and height are those of the upright picture
