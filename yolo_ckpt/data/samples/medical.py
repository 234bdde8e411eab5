"""The medical sample: cell nuclei under a fluorescence microscope as a segmentation data set, and DICOM files.

The original is a 16-bit image with values up to 235. The host reads such an image by its upper byte, which is zero in
every pixel of this one. So the data set holds 8-bit images, windowed by percentile; what they were made from lies
beside them, as material for `yolo-ckpt convert`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from yolo_ckpt.data.convert.geometry import area
from yolo_ckpt.data.convert.outlines import outline
from yolo_ckpt.data.samples.files import Image, Sample, copy_member, decoded, write_image, write_labels, write_yaml
from yolo_ckpt.data.wheels import Wheel, opened

STARDIST = Wheel(
    name="stardist",
    version="0.9.2",
    sha256="2316c0feb7bd5621e7a277cb3868df475c338943c591925c420ee3622c42f023",
    tags=("3.11", "cp311", "manylinux_2_28_x86_64"),
)
PYDICOM = Wheel(
    name="pydicom",
    version="3.0.2",
    sha256="abf971a5440f84dbaf42c4b6758e30e62480902584f8b270b9a5d146e278a07b",
)
ORIGINALS = {"images/nuclei.tif": "img2d.tif", "masks/nuclei.tif": "mask2d.tif"}  # a mask is called as its image is
DICOM = {
    "CT_small.dcm": "CT, 128 x 128, 16 bit signed, rescale intercept -1024, no window",
    "MR_small.dcm": "MR, 64 x 64, 16 bit signed, with a window",
    "MR_small_RLE.dcm": "the same, run-length encoded",
    "MR_small_jp2klossless.dcm": "the same, JPEG 2000 (needs a codec)",
    "JPGExtended.dcm": "nuclear medicine, 256 x 1024, 12-bit JPEG (needs a codec)",
    "SC_rgb_rle_2frame.dcm": "colour, 100 x 100, two frames",
}
WINDOW = (0.1, 99.9)  # percentiles
THINNEST = 3  # pixels; the host drops objects of two and less
NOTE = """\
Cell nuclei under a fluorescence microscope, 512 x 512 pixels, with the outline of every nucleus.

The image and its instance mask (originals/images/nuclei.tif and originals/masks/nuclei.tif, both uint16) are img2d.tif
and mask2d.tif of the stardist 0.9.2 wheel, unchanged. Its authors (Uwe Schmidt and Martin Weigert) publish it under the
BSD 3-clause licence that stands beside this file (LICENSE.txt). The package says where they come from: the 2018 Data
Science Bowl, Caicedo et al., "Nucleus segmentation across imaging experiments", Nature Methods 16, 2019. It states no
licence of its own for them.

images/: one image, cut at the column that fewest nuclei cross. Train is what lies left of it (columns 0 to {last}),
val begins at column {first}: the {gap} columns between hold the rest of the nuclei that the cut crosses, so that no
nucleus has a pixel in both. Nuclei at a cut are cut, as those at the border of the image are. Of {dropped}, less
than {thinnest} pixels of width or height are left: they have no label, since the host would drop them.
Grey values from {low:.0f} to {high:.0f} (percentiles {percentiles[0]} and {percentiles[1]}) became 0 to 255, so that
the 8-bit files have {levels} grey levels. labels/: polygons along the borders of the mask's pixels.

originals/dicom/: test files of pydicom 3.0.2, taken unchanged out of its wheel; its MIT licence and its README, which
says where each file comes from, stand beside them. They have no labels: they are material for `yolo-ckpt convert`.
{files}
"""


def columns(mask: Image) -> tuple[int, int]:
    """Where an instance mask (H, W) is cut: the end of the left part, and the begin of the right one.

    The cut is the column in the second third that fewest objects cross (the last of them, for the larger left part);
    the right part begins behind those that do.
    """
    spans = [np.flatnonzero((mask == i).any(axis=0))[[0, -1]] for i in np.unique(mask[mask > 0])]
    width = mask.shape[1]

    def crossing(column: int) -> list[int]:
        return [int(last) for first, last in spans if first < column <= last]

    cut = min(range(width // 3, 2 * width // 3 + 1), key=lambda column: (len(crossing(column)), -column))
    return cut, max([cut, *(last + 1 for last in crossing(cut))])


def windowed(image: Image, percentiles: tuple[float, float] = WINDOW) -> tuple[Image, float, float]:
    """Grey values between two percentiles as 0 to 255, and the values at these percentiles."""
    low, high = (float(value) for value in np.percentile(image, percentiles))
    scaled = np.clip((image.astype(np.float64) - low) / (high - low), 0, 1)
    return np.round(scaled * 255).astype(np.uint8), low, high


def _write(folder: Path, final: Path) -> None:
    originals = folder / "originals"
    with opened(STARDIST) as archive:
        for name, member in ORIGINALS.items():
            copy_member(archive, f"stardist/data/images/{member}", originals / name)
        copy_member(archive, f"stardist-{STARDIST.version}.dist-info/licenses/LICENSE.txt", folder / "LICENSE.txt")
    with opened(PYDICOM) as archive:
        for name in (*DICOM, "README.txt"):
            copy_member(archive, f"pydicom/data/test_files/{name}", originals / "dicom" / name)
        copy_member(archive, f"pydicom-{PYDICOM.version}.dist-info/licenses/LICENSE", originals / "dicom" / "LICENSE")
    image, mask = (decoded((originals / name).read_bytes()) for name in ORIGINALS)
    note = _data_set(folder, image, mask)
    (folder / "NOTE.txt").write_text(note, encoding="utf-8")
    write_yaml(folder / "data.yaml", final, {0: "nucleus"})


def _data_set(folder: Path, image: Image, mask: Image) -> str:
    """Images and labels of an image and its instance mask (H, W); the note about them."""
    grey, low, high = windowed(image)
    end, begin = columns(mask)
    dropped = 0
    for split, part in (("train", slice(0, end)), ("val", slice(begin, None))):
        write_image(folder / "images" / split / f"nuclei-{split}.png", np.ascontiguousarray(grey[:, part]))
        lines, small = _label_lines(np.ascontiguousarray(mask[:, part]))
        write_labels(folder / "labels" / split / f"nuclei-{split}.txt", lines)
        dropped += small
    return NOTE.format(
        last=end - 1, first=begin, gap=begin - end, low=low, high=high, percentiles=WINDOW,
        levels=np.unique(grey).size,
        dropped=dropped, thinnest=THINNEST,
        files="".join(f"\n  {name}: {what}" for name, what in DICOM.items()),
    )  # fmt: skip


def _label_lines(mask: Image) -> tuple[list[str], int]:
    """Label lines of an instance mask (H, W), and how many objects are too thin for one."""
    height, width = mask.shape
    found = [outline(mask == i) for i in np.unique(mask[mask > 0])]
    every = [max(one.rings, key=area) for one in found if one is not None]
    wide = [points for points in every if np.ptp(points, axis=0).min() > THINNEST - 1]
    shares = [points / (width, height) for points in wide]
    return [" ".join(["0", *(f"{v:.6f}" for v in points.ravel())]) for points in shares], len(every) - len(wide)


SAMPLE = Sample(write=_write)
