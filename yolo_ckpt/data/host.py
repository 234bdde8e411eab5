"""What the host drops, how it takes turned images, and what it does not list (ultralytics 8.4.190, `data/utils.py`)."""

from __future__ import annotations

# It checks every image with PIL, which refuses above twice its `MAX_IMAGE_PIXELS` of 1024^3 // 12.
MOST_PIXELS = 2 * (1024**3 // 4 // 3)
LEAST_SIDE_PX = 10  # `check_image`
SIDES_SWAPPED = frozenset({5, 6, 7, 8})  # EXIF orientations, of which width and height are those of the upright picture

HEIF_BRANDS = (b"heic", b"heix", b"mif1", b"msf1", b"heim", b"heis")  # bytes 8 to 12 of files that need pi-heif

# Endings of pictures that the host does not list. DICOM files often have none, or end with a number.
_MEDICAL = {"dcm", "dicom", "ima", "nii", "mha", "mhd", "nrrd", "svs", "ndpi", "mrxs", "scn", "vsi", "czi", "lif"}
_RAW = {"cr2", "cr3", "nef", "arw", "orf", "rw2", "exr", "hdr", "psd", "ecw", "sid"}
_OTHERS = {"gif", "jfif", "jpe", "pjpeg", "pbm", "pgm", "ppm", "pnm", "tga", "jxl", "j2k", "jpx"}
PICTURES = frozenset(_MEDICAL | _RAW | _OTHERS)
