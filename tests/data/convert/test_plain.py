"""PNG, JPEG, TIFF, ...: 8-bit ones exactly as the host reads them, deep ones in their depth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import tifffile
from PIL import Image

from tests.data.convert.conftest import Done, smooth
from yolo_ckpt.data.convert import limits, plain, tiff
from yolo_ckpt.data.convert.picture import Picture
from yolo_ckpt.data.convert.problems import BrokenFileError
from yolo_ckpt.data.convert.window import Choice

RGB = Image.fromarray(smooth(48, 64))


def with_alpha() -> Image.Image:
    image = RGB.convert("RGBA")
    image.putalpha(Image.fromarray(smooth(48, 64, 1)[..., 0]))
    return image


def turned(path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    if path.suffix == ".tif":
        RGB.save(path, tiffinfo={274: orientation})
    else:
        RGB.save(path, exif=exif)


SAVED: dict[str, Callable[[Path], Any]] = {
    "rgb.png": RGB.save,
    "grey.png": RGB.convert("L").save,
    "palette.png": RGB.convert("P", palette=Image.Palette.ADAPTIVE).save,
    "palette-clear.png": lambda path: RGB.convert("P").save(path, transparency=3),
    "one-bit.png": RGB.convert("1").save,
    "alpha.png": lambda path: with_alpha().save(path),
    "grey-alpha.png": lambda path: with_alpha().convert("LA").save(path),
    "cmyk.jpg": RGB.convert("CMYK").save,
    "rgb.jpg": RGB.save,
    "rgb.webp": RGB.save,
    "one-bit.bmp": RGB.convert("1").save,
    "rgb.jp2": RGB.save,
    "cmyk.tif": RGB.convert("CMYK").save,
    "palette.tif": RGB.convert("P").save,
    "lzw.tif": lambda path: RGB.save(path, compression="tiff_lzw"),
    "fax.tif": lambda path: RGB.convert("1").save(path, compression="group4"),
    "ycbcr.tif": RGB.convert("YCbCr").save,
    "white.tif": lambda path: tifffile.imwrite(path, np.asarray(RGB)[..., 0], photometric="miniswhite"),
    **{
        f"turned{o}.{kind}": lambda path, o=o: turned(path, o)
        for o in range(2, 9)
        for kind in ("png", "jpg", "tif", "webp")
    },
}


def read(path: Path, **options: Any) -> Picture:
    """The first picture of a file."""
    if path.suffix == ".tif":
        return next(iter(tiff.read(path, Choice(), options.get("bands"), path.with_suffix(".scratch"))))
    return plain.read(path, Choice())


@pytest.mark.parametrize("name", SAVED)
def test_as_the_host_reads_it(name: str, tmp_path: Path) -> None:
    from ultralytics.utils.patches import imread

    path = tmp_path / name
    SAVED[name](path)
    picture = read(path)
    host = imread(str(path))
    assert host is not None
    assert (picture.window.apply(picture.pixels) == host[..., ::-1]).all()
    header = tiff.header(path, None) if path.suffix == ".tif" else plain.header(path)
    assert (header.width, header.height) == picture.size == host.shape[1::-1]


def test_a_jpeg_named_png_is_a_jpeg(src: Path, convert: Any) -> None:
    RGB.save(src / "a.png", format="JPEG")
    assert convert(src).status == 0


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_sixteen_bits_keep_their_grey_levels(name: str, src: Path, convert: Any) -> None:
    values = np.random.default_rng(0).integers(0, 2048, (128, 128), dtype=np.uint16)
    cv2.imwrite(str(src / name), values)
    done: Done = convert(src)
    assert len(np.unique(done.image("deep"))) >= 200
    from ultralytics.utils.patches import imread

    assert len(np.unique(imread(str(src / name)))) <= 8  # what training sees without


def test_sixteen_bit_colours_share_a_window(src: Path, convert: Any) -> None:
    values = (smooth(64, 64).astype(np.uint16) << 4) + 5
    cv2.imwrite(str(src / "a.png"), values[..., ::-1])
    found = convert(src, "window=full").image("a").astype(int)
    low, high = values.min(), values.max()
    assert np.abs(found - (values - low) / (high - low) * 255).max() <= 0.51


def test_float_tiff_with_nan(src: Path, convert: Any) -> None:
    values = np.linspace(0, 1, 64 * 64, dtype=np.float32).reshape(64, 64)
    values[3, 3] = np.nan
    tifffile.imwrite(src / "a.tif", values)
    done: Done = convert(src)
    assert done.status == 0
    assert done.report["notes"]["NaN pixels written as 0"] == 1
    assert "NaN pixels written as 0: 1" in done.out
    assert done.image("a")[3, 3] == 0


def test_bands_are_chosen_and_counted_from_one(src: Path, convert: Any) -> None:
    bands = np.stack([np.full((32, 32), 1000 * (i + 1), np.uint16) for i in range(5)])
    bands[:, 0, 0], bands[:, 0, 1] = 0, 10000
    tifffile.imwrite(src / "a.tif", bands, photometric="minisblack", planarconfig="separate")
    done: Done = convert(src, "bands=4,3,2", "window=full")
    assert done.image("a")[5, 5].tolist() == [102, 76, 51]
    refused: Done = convert(src, dst="refused")
    assert refused.status == 1
    assert "it has 5 bands; choose three with bands=4,3,2, or keep all with bands=all" in " ".join(refused.out.split())
    assert not refused.dst.exists()
    assert convert(src, "bands=6", dst="six").status == 1


@pytest.mark.parametrize("planar", ["separate", "contig", "pages"])
def test_all_bands_reach_the_host_in_order(planar: str, src: Path, convert: Any) -> None:
    from ultralytics.data.utils import check_det_dataset
    from ultralytics.utils.patches import imread

    values = np.stack([smooth(40, 50, i)[..., 0] for i in range(5)])
    if planar == "pages":
        tifffile.imwrite(src / "a.tif", values, photometric="minisblack", metadata=None)
    else:
        pixels = values if planar == "separate" else values.transpose(1, 2, 0)
        tifffile.imwrite(src / "a.tif", pixels, photometric="minisblack", planarconfig=planar)
    done: Done = convert(src, "bands=all")
    (path,) = done.images()
    found = imread(str(path), cv2.IMREAD_UNCHANGED)
    assert found is not None
    assert (found.transpose(2, 0, 1) == values).all()
    assert check_det_dataset(done.dst / "data.yaml")["channels"] == 5


def test_images_with_other_numbers_of_bands_fail(src: Path, convert: Any) -> None:
    for number, bands in enumerate((4, 4, 5)):
        tifffile.imwrite(src / f"{number}.tif", np.zeros((bands, 32, 32), np.uint8), photometric="minisblack",
                         planarconfig="separate")  # fmt: skip
    done: Done = convert(src, "bands=all")
    assert done.failed == {"2.tif": "it has 5 bands, most others have 4"}
    assert len(done.images()) == 2


def test_pages_become_images_unless_they_are_bands(src: Path, convert: Any) -> None:
    tifffile.imwrite(src / "a.tif", np.stack([smooth(40, 50, i)[..., 0] for i in range(4)]), photometric="minisblack")
    assert len(convert(src, "val=0").images()) == 4


def test_nodata_of_gdal(src: Path, convert: Any) -> None:
    values = np.random.default_rng(0).uniform(50, 90, (64, 64)).astype(np.float32)
    values[:20] = -9999
    tifffile.imwrite(src / "a.tif", values, extratags=[(42113, "s", 0, "-9999", True)])
    done: Done = convert(src)
    assert len(np.unique(done.image("a")[20:])) > 200
    assert done.report["notes"]["no-data pixels written as 0"] == 20 * 64


def test_a_large_tiff_is_unpacked_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiff, "MAPPED_FROM_BYTES", 1000)
    values = smooth(90, 120)
    for compression in (None, "zlib", "lzw"):
        path = tmp_path / f"{compression}.tif"
        tifffile.imwrite(path, values, compression=compression, tile=(32, 32))
        (picture,) = tiff.read(path, Choice(), None, tmp_path / "scratch")
        base: Any = picture.pixels
        while not isinstance(base, np.memmap):
            base = base.base
        assert (picture.pixels == values).all()


def test_a_large_one_bit_tiff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiff, "MAPPED_FROM_BYTES", 1000)
    bits = np.random.default_rng(0).integers(0, 2, (60, 90), dtype=np.uint8) > 0
    for name, white in (("plain", "minisblack"), ("white", "miniswhite")):
        tifffile.imwrite(tmp_path / f"{name}.tif", bits, photometric=white)
        (picture,) = tiff.read(tmp_path / f"{name}.tif", Choice(), None, tmp_path / "scratch")
        levels = picture.window.apply(picture.pixels)[..., 0]
        assert (levels == np.where(bits != (white == "miniswhite"), 255, 0)).all()


def test_a_compression_without_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = smooth(60, 60)
    for name, options in (("lzw", {}), ("zstd", {})):
        tifffile.imwrite(tmp_path / f"{name}.tif", values, compression=name, **options)

    def missing(*_: object, **__: object) -> None:
        raise ValueError("<COMPRESSION.LZW: 5> requires the 'imagecodecs' package")

    monkeypatch.setattr(tifffile.TiffPageSeries, "asarray", missing)
    (picture,) = tiff.read(tmp_path / "lzw.tif", Choice(), None, tmp_path / "scratch")  # OpenCV knows it
    assert (picture.pixels == values).all()
    monkeypatch.setattr(cv2, "imdecode", lambda *_: None)
    with pytest.raises(BrokenFileError, match="pip install imagecodecs"):
        list(tiff.read(tmp_path / "zstd.tif", Choice(), None, tmp_path / "scratch"))


def test_above_the_limit_of_opencv_pil_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rgb.png", "grey.png", "palette.png", "one-bit.png", "turned6.jpg"):
        SAVED[name](tmp_path / name)
        small = read(tmp_path / name)
        with monkeypatch.context() as patched:
            patched.setattr(limits, "OPENCV_MOST_PIXELS", 100)
            patched.setattr(plain, "_STRIP_ROWS", 10)
            large = read(tmp_path / name)
        levels = [np.broadcast_to(p.window.apply(p.pixels), (*p.size[::-1], 3)).astype(int) for p in (small, large)]
        assert np.abs(levels[0] - levels[1]).max() <= 3  # JPEG decoders round differently
    deep = (smooth(48, 64).astype(np.uint16) << 8) + 3
    cv2.imwrite(str(tmp_path / "deep.png"), deep)
    monkeypatch.setattr(limits, "OPENCV_MOST_PIXELS", 100)
    with pytest.raises(BrokenFileError, match="save it as TIFF"):
        read(tmp_path / "deep.png")


def test_a_cut_jpeg_that_opencv_fills_up_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As OpenCV 4 does; version 5 gives nothing back."""
    RGB.save(tmp_path / "a.jpg", quality=95)
    whole = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(whole[: len(whole) * 2 // 3])
    monkeypatch.setattr(cv2, "imdecode", lambda *_: np.full((48, 64, 3), 128, np.uint8))
    with pytest.raises(BrokenFileError, match="truncated"):
        plain.read(tmp_path / "a.jpg", Choice())


def test_bands_have_windows_of_their_own_and_colours_share_one(tmp_path: Path) -> None:
    values = np.stack([np.linspace(0, top, 64 * 64).reshape(64, 64) for top in (200, 2000, 20000)], -1).astype(
        np.uint16
    )
    for photometric, windows in (("rgb", 1), ("minisblack", 3)):
        path = tmp_path / f"{photometric}.tif"
        tifffile.imwrite(path, values, photometric=photometric, planarconfig="contig")
        picture = read(path)
        assert len(picture.window.low) == windows
        assert (picture.window.apply(picture.pixels)[..., 0].max() == 255) == (photometric == "minisblack")


def test_pil_keeps_its_limit_afterwards(tmp_path: Path) -> None:
    RGB.save(tmp_path / "a.png")
    before = Image.MAX_IMAGE_PIXELS
    plain.read(tmp_path / "a.png", Choice())
    assert before == Image.MAX_IMAGE_PIXELS is not None


def test_no_text_of_the_source_is_in_the_output(src: Path, convert: Any) -> None:
    from PIL.PngImagePlugin import PngInfo

    info = PngInfo()
    info.add_text("Comment", "Dulcinea")
    RGB.save(src / "a.png", pnginfo=info)
    exif = Image.Exif()
    exif[0x010E] = "Dulcinea"
    RGB.save(src / "b.jpg", exif=exif)
    tifffile.imwrite(src / "c.tif", np.zeros((4, 32, 32), np.uint8), description="Dulcinea", photometric="minisblack")
    for arguments in (("bands=all",), (), ("jpeg=90",)):
        done: Done = convert(src, *arguments, dst="-".join(arguments) or "plain")
        for path in done.images():
            assert b"Dulcinea" not in path.read_bytes()
            with Image.open(path) as image:
                assert not image.getexif().get(0x010E)
        if not arguments:
            assert done.report["dropped"] == {"PNG text": 1, "EXIF": 1, "description": 4, "software": 4}


def test_a_large_tiff_that_is_cut_off(src: Path, convert: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiff, "MAPPED_FROM_BYTES", 1000)
    tifffile.imwrite(src / "a.tif", smooth(90, 120))
    (src / "a.tif").write_bytes((src / "a.tif").read_bytes()[:-5000])
    cv2.imwrite(str(src / "b.png"), smooth(40, 40))
    done: Done = convert(src, "workers=1")
    assert done.report["done"] == {"failed": 1, "converted": 1}
    assert "the TIFF cannot be read" in done.failed["a.tif"]


def test_windows_that_show_nothing_are_said(src: Path, convert: Any) -> None:
    cv2.imwrite(str(src / "a.png"), np.random.default_rng(0).integers(1000, 1400, (40, 50), dtype=np.uint16))
    done: Done = convert(src, "window=4000,1000", dst="refused")
    assert done.status == 1
    assert "LOW has to be below HIGH" in done.out
    notes = convert(src, "window=10,20", dst="white").report["notes"]
    assert [count for note, count in notes.items() if "a single grey level" in note] == [1]
    notes = convert(src, "window=0,65535", dst="few").report["notes"]
    assert [count for note, count in notes.items() if "fewer than 16 grey levels" in note] == [1]
    assert convert(src).report["notes"] == {}


def test_pages_of_a_file_share_a_window(src: Path, convert: Any) -> None:
    """They are of one recording: twice as bright stays twice as bright."""
    page = np.random.default_rng(0).integers(0, 1000, (40, 50), dtype=np.uint16)
    tifffile.imwrite(src / "a.tif", np.stack([page, 2 * page]), photometric="minisblack")
    done: Done = convert(src)
    assert len(set(done.report["files"][0]["windows"])) == 1
    first, second = (done.image(f"a_00{i}").astype(int) for i in range(2))
    assert abs(second - 2 * first)[second < 255].max() <= 2


def test_further_frames_of_an_animated_image_are_said(src: Path, convert: Any) -> None:
    frames = [Image.fromarray(smooth(40, 50, seed)) for seed in range(3)]
    frames[0].save(src / "a.gif", save_all=True, append_images=frames[1:])
    assert convert(src).report["notes"] == {"further frames of animated images left out": 2}
