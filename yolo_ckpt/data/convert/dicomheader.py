"""What the header of a DICOM file says, as far as the pixels need it. No value that names somebody leaves here."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from pathlib import Path

import pydicom
from pydicom.datadict import keyword_for_tag
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.errors import InvalidDicomError
from pydicom.pixels.decoders.base import get_decoder
from pydicom.uid import UID, ExplicitVRBigEndian, ExplicitVRLittleEndian, ImplicitVRLittleEndian

from yolo_ckpt.data.convert.problems import BrokenFileError, LeftOutError, said

_GREY = (
    "BitsStored", "PixelRepresentation", "PhotometricInterpretation", "RescaleSlope", "RescaleIntercept",
    "ModalityLUTSequence", "VOILUTSequence", "WindowCenter", "WindowWidth", "VOILUTFunction",
)  # fmt: skip
_PIXEL_GROUP = 0x7FE0
_PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
_NEEDED = ("Rows", "Columns", "BitsAllocated", "BitsStored", "PixelRepresentation", "PhotometricInterpretation")
_GROUPS = {
    "patient": ("PatientID", "StudyInstanceUID", "SeriesInstanceUID"),
    "study": ("StudyInstanceUID", "SeriesInstanceUID"),
    "series": ("SeriesInstanceUID",),
    "image": (),
}
# What pydicom asks for, by what is in the name of the transfer syntax; the first that fits.
_PACKAGES = (
    ("JPEG 2000", "pylibjpeg pylibjpeg-openjpeg"),
    ("High-Throughput", "pylibjpeg pylibjpeg-openjpeg"),
    ("HTJ2K", "pylibjpeg pylibjpeg-openjpeg"),
    ("JPEG-LS", "pyjpegls"),
    ("RLE", "numpy"),
    ("JPEG", "pylibjpeg pylibjpeg-libjpeg"),
)


def opened(path: Path, *, only_header: bool = False) -> Dataset:
    """The data set in a file, also where the file begins without a DICOM header, if it holds a picture.

    With `only_header` long values, as the pixels are, stay in the file.

    Raises:
        BrokenFileError: It cannot be read, or lacks what a picture needs.
        LeftOutError: It holds no picture.
    """
    defer_size = "1 KB" if only_header else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                data: Dataset = pydicom.dcmread(path, defer_size=defer_size)
            except InvalidDicomError:
                data = pydicom.dcmread(path, defer_size=defer_size, force=True)
                if not any(keyword in data for keyword in ("SOPClassUID", "Rows", "Modality")):
                    raise BrokenFileError("it is no DICOM file, or a damaged one") from None
            _check_picture(data)
    except (BrokenFileError, LeftOutError):
        raise
    except Exception as error:  # a damaged file makes pydicom raise nearly everything
        raise BrokenFileError(f"the DICOM header cannot be read: {said(error)}") from error
    return data


def _check_picture(data: Dataset) -> None:
    if "DirectoryRecordSequence" in data:
        raise LeftOutError("a DICOM directory, no picture")
    if "Rows" not in data or "Columns" not in data or not any(keyword in data for keyword in _PIXELS):
        raise LeftOutError(f"DICOM without pixels ({data.get('Modality') or 'no modality'})")
    if data.get("Modality") == "SEG":
        raise LeftOutError("a DICOM segmentation (SEG), no picture")
    real = int(data.get("BitsAllocated") or 0) >= 32  # float pixels have no stored bits and no sign
    needed = [keyword for keyword in _NEEDED if not (real and keyword in ("BitsStored", "PixelRepresentation"))]
    lacking = [keyword for keyword in needed if data.get(keyword) in (None, "")]
    if lacking:
        raise BrokenFileError(f"the DICOM header lacks {', '.join(lacking)}")
    _set_syntax(data)
    frame_count(data)


def _set_syntax(data: Dataset) -> None:
    """Without a file header the transfer syntax is what pydicom found while it read."""
    if getattr(data, "file_meta", None) is None:
        data.file_meta = FileMetaDataset()
    if "TransferSyntaxUID" not in data.file_meta:
        implicit, little = data.original_encoding
        syntax = ImplicitVRLittleEndian if implicit else ExplicitVRLittleEndian if little else ExplicitVRBigEndian
        data.file_meta.TransferSyntaxUID = syntax


def frame_count(data: Dataset) -> int:
    """Number of frames.

    Raises:
        BrokenFileError: It is no number.
    """
    try:
        return max(1, int(data.get("NumberOfFrames") or 1))
    except (TypeError, ValueError) as error:
        raise BrokenFileError("the DICOM header's NumberOfFrames is no number") from error


def check_decoder(data: Dataset) -> None:
    """Refuses a file whose compression nothing here can undo.

    Raises:
        BrokenFileError: It names the package to install.
    """
    syntax = UID(data.file_meta.TransferSyntaxUID)
    if not syntax.is_encapsulated:
        return
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError as error:
        raise BrokenFileError(f"its pixels are compressed as {syntax.name}, which pydicom does not know") from error
    if not decoder.is_available:
        raise BrokenFileError(f"its pixels are compressed as {syntax.name}; pip install {_packages(syntax)}")


def decoder_hint(data: Dataset) -> str:
    """What else might decode the pixels, for the message of a decoder that could not."""
    syntax = UID(data.file_meta.TransferSyntaxUID)
    if not syntax.is_encapsulated or not any("lib" in line for line in get_decoder(syntax).missing_dependencies):
        return ""
    return f" ({syntax.name}; another decoder may read it: pip install {_packages(syntax)})"


def _packages(syntax: UID) -> str:
    return next(packages for part, packages in (*_PACKAGES, ("", "pylibjpeg")) if part in syntax.name)


def grey_header(data: Dataset, frame: int) -> Dataset:
    """What pydicom's transforms need, for one frame: enhanced files have it in functional groups (PS3.3 C.7.6.16)."""
    head = Dataset()
    head.file_meta = data.file_meta
    for source in (data, *_groups(data, frame)):
        for keyword in _GREY:
            if keyword in source:
                head[keyword] = source[keyword]
    return head


def _groups(data: Dataset, frame: int) -> list[Dataset]:
    found: list[Dataset] = []
    shared, each = data.get("SharedFunctionalGroupsSequence"), data.get("PerFrameFunctionalGroupsSequence")
    for group in (shared[0] if shared else None, each[frame] if each and frame < len(each) else None):
        for keyword in ("PixelValueTransformationSequence", "FrameVOILUTSequence"):
            if group is not None and group.get(keyword):
                found.append(group[keyword].value[0])
    return found


def has_window(head: Dataset) -> bool:
    """Whether `apply_voi_lut` would do anything: the conditions are its own."""
    table = head.get("VOILUTSequence")
    if table and None not in (table[0].get("LUTDescriptor"), table[0].get("LUTData")):
        return True
    return None not in (head.get("WindowCenter"), head.get("WindowWidth"))


def group_of(data: Dataset, group: str) -> str:
    """A digest of what files of one patient (study, series) have in common; empty where the header does not say."""
    for keyword in _GROUPS[group]:
        value = str(data.get(keyword) or "").strip()
        if value:
            return hashlib.sha256(f"{keyword}={value}".encode()).hexdigest()
    return ""


def kinds_of_tags(data: Dataset) -> Counter[str]:
    """The names of all tags beside the pixels, without looking at a value."""
    tags = data.keys()  # a data set itself would give elements, and convert each
    return Counter({keyword_for_tag(tag) or "private tags": 1 for tag in tags if tag.group != _PIXEL_GROUP})


def burned_in(data: Dataset) -> Counter[str]:
    """Whether text about the patient may stand in the pixels themselves."""
    said_so = str(data.get("BurnedInAnnotation") or "").strip().upper()
    if said_so == "YES":
        return Counter({"DICOM says that annotations are burned into the pixels: look at these": 1})
    return Counter() if said_so == "NO" else Counter({"DICOM does not say whether annotations are burned in": 1})
