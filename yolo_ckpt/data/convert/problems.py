"""Why a source file is not converted, and what ends the whole run."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from yolo_ckpt.errors import ConvertError, YoloCkptError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class BrokenFileError(YoloCkptError):
    """A source file cannot be converted; it is listed and the rest goes on. The message names no path."""


class LeftOutError(YoloCkptError):
    """A source file holds nothing to convert (a DICOM report, for example); it is listed and is no failure."""


@contextmanager
def decoding(what: str) -> Iterator[None]:
    """Whatever a decoder raises on a file that it cannot read becomes a `BrokenFileError`.

    Decoders raise nearly everything on damaged input (`SyntaxError` for a PNG, `struct.error`, `KeyError`,
    `cv2.error`), so all of it is caught here, around calls into them alone, and ends up in the list of failed files.

    Raises:
        BrokenFileError: The decoder failed.
        ConvertError: The disk that the decoder unpacks to is full.
    """
    try:
        yield
    except YoloCkptError:
        raise
    except OSError as error:
        raise_if_full(error)
        raise BrokenFileError(f"{what} cannot be read: {said(error)}") from error
    except Exception as error:
        raise BrokenFileError(f"{what} cannot be read: {said(error)}") from error


def raise_if_full(error: OSError) -> None:
    """Ends the run where `error` says that there is no room left.

    Raises:
        ConvertError: No room is left on the target's disk.
    """
    if error.errno in _NO_ROOM:
        raise ConvertError(
            "the disk of dst= is full; nothing was left behind there. Make room, or give dst= on another disk"
        ) from error


def said(error: Exception) -> str:
    """The first line of what `error` says, or its kind where it says nothing; without the path that the system adds."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
