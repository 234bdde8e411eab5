"""DICOM: grey levels against pydicom's own transforms, frames, codecs, and nothing of the header in the output."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.pixels.decoders.base import get_decoder
from pydicom.pixels.processing import apply_color_lut, apply_modality_lut, apply_voi_lut
from pydicom.sequence import Sequence
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, JPEG2000Lossless, generate_uid

from tests.data.convert.conftest import Done
from yolo_ckpt.data.convert import dicom
from yolo_ckpt.data.convert.problems import BrokenFileError, LeftOutError
from yolo_ckpt.data.convert.window import Choice


def file(name: str) -> Path:
    found = get_testdata_file(name, download=False)
    assert isinstance(found, str)
    return Path(found)


def made(path: Path, pixels: np.ndarray, **tags: Any) -> Path:
    """A DICOM file with `pixels` (H, W), (F, H, W) or (H, W, 3), written by pydicom."""
    data = Dataset()
    data.file_meta = FileMetaDataset()
    data.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = CTImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = generate_uid()
    colour = pixels.ndim == 3 and pixels.shape[2] == 3
    if pixels.ndim == 3 and not colour:
        data.NumberOfFrames = len(pixels)
    data.Rows, data.Columns = pixels.shape[-3:-1] if colour else pixels.shape[-2:]
    data.SamplesPerPixel, data.PhotometricInterpretation = (3, "RGB") if colour else (1, "MONOCHROME2")
    if colour:
        data.PlanarConfiguration = 0
    data.BitsAllocated = data.BitsStored = pixels.dtype.itemsize * 8
    data.HighBit, data.PixelRepresentation = data.BitsStored - 1, int(pixels.dtype.kind == "i")
    data.PixelData = pixels.tobytes()
    for name, value in tags.items():
        setattr(data, name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.save_as(path, enforce_file_format=True)
    return path


def levels(path: Path, choice: Choice | None = None) -> list[np.ndarray]:
    return [p.window.apply(p.pixels)[..., 0] for p in dicom.read(path, choice or Choice())]


def by_pydicom(path: Path) -> np.ndarray:
    """0 to 255 over the range that pydicom says its window puts out."""
    data = pydicom.dcmread(path)
    shown = apply_voi_lut(apply_modality_lut(data.pixel_array, data), data)
    low, high = -(2.0 ** (data.BitsStored - 1)), 2.0 ** (data.BitsStored - 1) - 1
    if data.PixelRepresentation == 0:
        low, high = 0, 2.0**data.BitsStored - 1
    slope, intercept = float(data.get("RescaleSlope", 1)), float(data.get("RescaleIntercept", 0))
    low, high = low * slope + intercept, high * slope + intercept
    return np.rint((shown - low) / (high - low) * 255)


WINDOWED = [
    "MR_small.dcm", "MR_small_RLE.dcm", "MR_small_bigendian.dcm", "MR_small_implicit.dcm", "MR_small_jp2klossless.dcm",
    "693_J2KI.dcm", "J2K_pixelrep_mismatch.dcm", "examples_overlay.dcm",
]  # fmt: skip


@pytest.mark.parametrize("name", WINDOWED)
def test_windows_are_those_of_pydicom(name: str) -> None:
    (found,) = levels(file(name))
    assert (found == by_pydicom(file(name))).all()
    assert len(np.unique(found)) > 20


def test_a_window_that_is_given_is_that_of_pydicom() -> None:
    (found,) = levels(file("CT_small.dcm"), Choice(kind="given", numbers=(40, 400)))
    data = pydicom.dcmread(file("CT_small.dcm"))
    data.WindowCenter, data.WindowWidth = 40, 400
    shown = apply_voi_lut(apply_modality_lut(data.pixel_array, data), data)
    assert (found == np.rint((shown - shown.min()) / (shown.max() - shown.min()) * 255)).all()


@pytest.mark.parametrize("function", ["LINEAR", "LINEAR_EXACT", "SIGMOID"])
def test_window_functions(tmp_path: Path, function: str) -> None:
    pixels = np.linspace(0, 4095, 64 * 64).reshape(64, 64).astype(np.uint16)
    path = made(tmp_path / "a.dcm", pixels, WindowCenter=1500, WindowWidth=800, VOILUTFunction=function, BitsStored=12,
                HighBit=11)  # fmt: skip
    assert (levels(path)[0] == by_pydicom(path)).all()


def test_signed_values_with_a_rescale(tmp_path: Path) -> None:
    pixels = np.linspace(-1000, 3000, 64 * 64).reshape(64, 64).astype(np.int16)
    path = made(tmp_path / "a.dcm", pixels, RescaleSlope=1, RescaleIntercept=-1024, WindowCenter=40, WindowWidth=400)
    (found,) = levels(path)
    assert (found == by_pydicom(path)).all()
    assert (found[0, 0], found[-1, -1]) == (0, 255)
    (plain,) = levels(path, Choice(kind="percentile"))
    assert len(np.unique(plain)) > 250


def test_monochrome1_is_inverted(tmp_path: Path) -> None:
    pixels = np.linspace(0, 4000, 64 * 64).reshape(64, 64).astype(np.uint16)
    for tags in ({"WindowCenter": 2000, "WindowWidth": 3000}, {}):
        (two,) = levels(made(tmp_path / "2.dcm", pixels, **tags))
        (one,) = levels(made(tmp_path / "1.dcm", pixels, PhotometricInterpretation="MONOCHROME1", **tags))
        assert (one == 255 - two).all()
        assert one[0, 0] == 255


def test_voi_tables(tmp_path: Path) -> None:
    pixels = np.arange(4096, dtype=np.uint16).reshape(64, 64)
    item = Dataset()
    item.LUTDescriptor = [4096, 0, 12]
    item.add_new("LUTData", "US", [int(4095 * (i / 4095) ** 2) for i in range(4096)])
    path = made(tmp_path / "a.dcm", pixels, VOILUTSequence=Sequence([item]))
    (found,) = levels(path)
    assert (found.ravel() == np.rint(np.array(item.LUTData) / 4095 * 255)).all()
    assert next(dicom.read(path, Choice())).window.text == "header: VOI table"


def test_every_frame_of_an_enhanced_file_has_its_own_header(tmp_path: Path) -> None:
    pixels = np.stack([np.linspace(0, 1000, 4096).reshape(64, 64).astype(np.uint16)] * 2)
    groups = []
    for center in (250, 750):
        window, values, group = Dataset(), Dataset(), Dataset()
        window.WindowCenter, window.WindowWidth = center, 100
        values.RescaleSlope, values.RescaleIntercept = 1, 0
        group.FrameVOILUTSequence, group.PixelValueTransformationSequence = Sequence([window]), Sequence([values])
        groups.append(group)
    path = made(tmp_path / "a.dcm", pixels, PerFrameFunctionalGroupsSequence=Sequence(groups))
    first, second = levels(path)
    rows = [((f > 0) & (f < 255)).nonzero()[0].mean() for f in (first, second)]
    assert rows == pytest.approx([15.5, 47.5], abs=0.5)


def test_without_a_window_all_frames_share_one(tmp_path: Path) -> None:
    ramp = np.linspace(0, 1000, 4096).reshape(64, 64)
    path = made(tmp_path / "a.dcm", np.stack([ramp, ramp * 2, ramp * 4]).astype(np.uint16))
    dark, _, bright = levels(path)
    assert int(bright.max()) == 255
    assert int(dark.max()) == pytest.approx(64, abs=2)


def test_padding_is_not_measured(tmp_path: Path) -> None:
    pixels = np.full((64, 64), -2000, np.int16)
    pixels[16:48, 16:48] = np.linspace(0, 100, 1024).reshape(32, 32)
    (found,) = levels(made(tmp_path / "a.dcm", pixels, PixelPaddingValue=-2000))
    assert len(np.unique(found[16:48, 16:48])) > 90


def test_frames_and_colours(src: Path, convert: Any) -> None:
    for name in ("SC_rgb_rle_16bit_2frame.dcm", "examples_palette.dcm", "examples_ybr_color.dcm"):
        (src / name).write_bytes(file(name).read_bytes())
    done: Done = convert(src, "val=0")
    assert done.status == 0
    assert len(done.images()) == 2 + 1 + 30
    data = pydicom.dcmread(file("examples_palette.dcm"))
    assert (done.image("000002") == apply_color_lut(data.pixel_array, data) >> 8).all()
    stored = pydicom.dcmread(file("SC_rgb_rle_16bit_2frame.dcm")).pixel_array
    assert (done.image("000001_001") == stored[1] >> 8).all()
    assert (done.image("000003_029") == pydicom.dcmread(file("examples_ybr_color.dcm")).pixel_array[29]).all()


def test_a_file_without_its_first_part_is_read(tmp_path: Path) -> None:
    data = pydicom.dcmread(file("CT_small.dcm"))
    path = tmp_path / "bare.dcm"
    whole = file("CT_small.dcm").read_bytes()
    path.write_bytes(whole[132 + 12 + int(data.file_meta.FileMetaInformationGroupLength) :])
    assert (levels(path)[0] == levels(file("CT_small.dcm"))[0]).all()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("MR_small_jpeg_ls_lossless.dcm", "pip install pyjpegls"),
        ("SC_rgb_jpeg_gdcm.dcm", "pip install pylibjpeg pylibjpeg-libjpeg"),
    ],
)
def test_a_missing_codec_is_named(name: str, says: str) -> None:
    with pytest.raises(BrokenFileError, match=says):
        dicom.header(file(name), "patient")


def test_jpeg_2000_without_its_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    assert levels(file("MR_small_jp2klossless.dcm"))
    monkeypatch.setattr(get_decoder(JPEG2000Lossless), "_available", {})
    with pytest.raises(BrokenFileError) as raised:
        dicom.header(file("MR_small_jp2klossless.dcm"), "patient")
    assert "JPEG 2000" in str(raised.value)
    assert "pip install pylibjpeg pylibjpeg-openjpeg" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "error", "says"),
    [
        ("MR_truncated.dcm", BrokenFileError, "8130 vs 8192 bytes"),
        ("badVR.dcm", BrokenFileError, "NumberOfFrames"),
        ("rtplan.dcm", LeftOutError, "without pixels"),
        ("reportsi.dcm", LeftOutError, "without pixels"),
        ("liver_1frame.dcm", LeftOutError, "segmentation"),
        ("dicomdirtests/DICOMDIR", LeftOutError, "directory"),
        ("JPEG2000-embedded-sequence-delimiter.dcm", BrokenFileError, "cannot be read"),
    ],
)
def test_files_that_give_no_picture(name: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        list(dicom.read(file(name), Choice()))


def test_nothing_of_the_header_is_in_the_output(src: Path, convert: Any) -> None:
    secret = {"PatientName": "Quixote^Alonso", "PatientID": "LM-1605", "InstitutionName": "El Toboso"}
    folder = src / "Quixote^Alonso"
    folder.mkdir()
    for number in range(3):
        made(folder / f"Quixote_{number}.dcm", np.arange(4096, dtype=np.uint16).reshape(64, 64), **secret)
    (folder / "Quixote_broken.dcm").write_bytes(b"")
    (folder / "Quixote_cut.dcm").write_bytes((folder / "Quixote_0.dcm").read_bytes()[:6000])
    done: Done = convert(src)
    assert done.status == 1
    assert len(done.images()) == 3
    everything = b"".join(p.name.encode() + p.read_bytes() for p in done.dst.rglob("*") if p.is_file())
    for value in (*secret.values(), "Quixote"):
        assert value.encode() not in everything
    assert {"PatientName", "PatientID", "InstitutionName"} <= set(done.report["dropped"])
    assert done.report["dropped"]["PatientName"] == 3
    assert "Quixote_cut.dcm" in done.out  # the shell is the owner's


def test_names_can_be_kept(src: Path, convert: Any) -> None:
    made(src / "slice 7.dcm", np.arange(4096, dtype=np.uint16).reshape(64, 64))
    done: Done = convert(src, "names=keep")
    assert [p.name for p in done.images()] == ["slice 7.png"]
    assert done.report["files"][0]["source"] == "slice 7.dcm"


def test_burned_in_annotations_are_said(src: Path, convert: Any) -> None:
    pixels = np.arange(4096, dtype=np.uint16).reshape(64, 64)
    for number, said in enumerate(("YES", "NO", "")):
        made(src / f"{number}.dcm", pixels, **({"BurnedInAnnotation": said} if said else {}))
    notes = convert(src).report["notes"]
    assert notes["DICOM says that annotations are burned into the pixels: look at these"] == 1
    assert notes["DICOM does not say whether annotations are burned in"] == 1


def test_no_patient_is_in_both_splits(src: Path, convert: Any) -> None:
    for number in range(24):
        pixels = np.full((16, 16), number * 10, np.uint8)
        made(src / f"{number:02d}.dcm", pixels, PatientID=f"P{number % 6}", SeriesInstanceUID=f"1.2.{number}")
    done: Done = convert(src, "val=0.3", "seed=3", "format=json", "workers=1")
    files = json.loads(done.out)["files"]
    patients: dict[str, set[int]] = {"train": set(), "val": set()}
    for record in files:
        patients[record["images"][0].split("/")[1]].add(int(Path(record["source"]).stem) % 6)
    assert not patients["train"] & patients["val"]
    assert len(patients["val"]) == 2
    by_series: Done = convert(src, "val=0.3", "group=series", "workers=1", dst="series")
    assert len(by_series.images("val")) == 7


@pytest.mark.parametrize(
    ("tags", "fails"),
    [
        ({"PatientWeight": "heavy"}, False),  # of no concern for the picture
        ({"RescaleSlope": "steep", "RescaleIntercept": "0"}, True),
        ({"WindowCenter": "40", "WindowWidth": "0"}, True),
    ],
)
def test_tags_with_values_that_are_none(tags: dict[str, str], fails: bool, src: Path, convert: Any) -> None:
    path = made(src / "a.dcm", np.arange(4096, dtype=np.uint16).reshape(64, 64), **dict.fromkeys(tags, 12345678))
    data = path.read_bytes()
    assert data.count(b"12345678") == len(tags)
    for value in tags.values():
        data = data.replace(b"12345678", value.encode().ljust(8), 1)
    path.write_bytes(data)
    made(src / "b.dcm", np.arange(4096, dtype=np.uint16).reshape(64, 64))
    done: Done = convert(src)
    assert done.status == int(fails), done.out
    assert len(done.images()) == 2 - int(fails)
    assert done.err == ""
