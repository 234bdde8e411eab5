"""Host memory that a run's loaders take: workers with their buffers and mosaic canvases, batches that wait, the cache.

From the host's code (8.4.190): every training worker keeps the last `min(images, 8 batch, 1000)` images at their
training size for mosaic (`BaseDataset.max_buffer_length`), makes canvases of 2 x 2 images, and has 4 batches waiting in
shared memory (`build_dataloader`); validation has twice the workers, twice the batch and 2 batches waiting. What a
worker holds besides its buffer was measured: its own memory after 20 to 40 seconds, with 1 to 8 images of 1280 and
2048 px in a batch, was within 25 % of 40 MiB + (buffer + 11 + 2 batch) images.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from yolo_ckpt.data.check.findings import Finding, finding
from yolo_ckpt.data.check.scan import Looked
from yolo_ckpt.units import format_bytes

_WORKER_BYTES = 40 << 20  # of an idle worker's own; the rest of the process is shared
_WORK_IMAGES = 11  # canvas (4), what is warped from it, and copies on the way
_BUFFERED, _BUFFERED_BATCHES = 1000, 8
_WAITING, _WAITING_VAL = 4, 2
_CACHE_MARGIN, _DISK_MARGIN = 2.0, 1.1  # what the host wants to be free before it caches
_SHARED = Path("/dev/shm")


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How the images are loaded.

    Attributes:
        imgsz: The longer side.
        batch: Images in a training step.
        workers: As the argument of the host.
        cache: `ram`, `disk` or nothing.
        channels: Of the images.
        rect: Batches of their own shape, without mosaic.
        val_batch: Images in a validation step; 0: twice the batch.
        validates: There is a validation loader.
    """

    imgsz: int
    batch: int
    workers: int = 8
    cache: str = ""
    channels: int = 3
    rect: bool = False
    val_batch: int = 0
    validates: bool = True

    @property
    def square_bytes(self) -> int:
        """Of an image that fills its square."""
        return self.imgsz * self.imgsz * self.channels


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """The images of a split.

    Attributes:
        count: How many there are.
        sizes: Width and height of all, or of a fair sample.
    """

    count: int
    sizes: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, looked: Sequence[Looked], count: int | None = None) -> Shapes:
        """Of what was looked at, out of `count`."""
        sizes = [(one.header.width, one.header.height) for one in looked if one.header.width]
        return cls(count=len(sizes) if count is None else count, sizes=sizes)

    def trained_bytes(self, how: Loading) -> float:
        """Of an image at its training size, on average."""
        shares = [min(size) / max(size) for size in self.sizes]
        return how.imgsz * how.imgsz * how.channels * sum(shares) / max(len(shares), 1)

    def cache_bytes(self, how: Loading) -> float:
        """Of all images in the cache: in memory at their training size, on disk at their own."""
        if how.cache != "disk":
            return self.count * self.trained_bytes(how)
        pixels = sum(width * height for width, height in self.sizes)
        return self.count * pixels * how.channels / max(len(self.sizes), 1)


@dataclass(frozen=True, kw_only=True)
class HostMemory:
    """Bytes that loading takes, and what there is.

    Attributes:
        workers: Processes that load for training.
        worker_bytes: Of each, at its most.
        val_workers: Processes that load for validation.
        val_worker_bytes: Of each.
        shared_bytes: Of batches that wait, in shared memory.
        cache_bytes: Of the image cache that was asked for, or would be with `cache=ram`.
        cached: The cache counts in `total_bytes`.
        total_bytes: Of all together.
        free_bytes: Available now.
        installed_bytes: Of the machine.
        shared_free_bytes: Of /dev/shm; None where there is none.
    """

    workers: int
    worker_bytes: int
    val_workers: int
    val_worker_bytes: int
    shared_bytes: int
    cache_bytes: int
    cached: bool
    total_bytes: int
    free_bytes: int
    installed_bytes: int
    shared_free_bytes: int | None


def host_memory(train: Shapes, val: Shapes, how: Loading) -> HostMemory:
    """What loading these images takes."""
    free = psutil.virtual_memory()
    workers, worker = _workers(how.workers, train.count, how.batch), _WORKER_BYTES + _training_bytes(train, how)
    val_batch = how.val_batch or 2 * how.batch
    val_mean = val.trained_bytes(how)
    val_workers = _workers(2 * how.workers, val.count, val_batch) if how.validates else 0
    val_worker = _WORKER_BYTES + int((2 * val_batch + 3) * val_mean)
    shared = workers * _WAITING * how.batch * how.square_bytes + val_workers * _WAITING_VAL * int(val_batch * val_mean)
    cache = int(train.cache_bytes(how) + (val.cache_bytes(how) if how.validates else 0))
    cached = how.cache == "ram" and cache * _CACHE_MARGIN <= free.available
    loading = workers * worker if workers else worker - _WORKER_BYTES  # without workers, in the process itself
    return HostMemory(
        workers=workers, worker_bytes=worker, val_workers=val_workers, val_worker_bytes=val_worker,
        shared_bytes=shared, cache_bytes=cache, cached=cached,
        total_bytes=loading + val_workers * val_worker + shared + (cache if cached else 0),
        free_bytes=int(free.available), installed_bytes=int(free.total), shared_free_bytes=_shared_free(),
    )  # fmt: skip


def _training_bytes(train: Shapes, how: Loading) -> int:
    """What loading for training holds at its most: the buffer for mosaic, and what is being made."""
    mean = train.trained_bytes(how)
    buffered = 0 if how.cache == "ram" else min(train.count, _BUFFERED_BATCHES * how.batch, _BUFFERED)
    canvases = 3 * mean if how.rect else _WORK_IMAGES * how.square_bytes
    return int(buffered * mean + canvases + 2 * how.batch * how.square_bytes)


def _workers(asked: int, images: int, batch: int) -> int:
    """As many as the host starts (`build_dataloader`)."""
    batches = -(-images // batch)
    return min(os.cpu_count() or 1, asked, 0 if batches <= 1 else batches)


def _shared_free() -> int | None:
    return shutil.disk_usage(_SHARED).free if _SHARED.is_dir() else None


def memory_findings(memory: HostMemory, how: Loading, yaml: str, folder: str) -> Iterator[Finding]:
    """Where there is not enough; the images are in `folder`."""
    need, free = format_bytes(memory.total_bytes), format_bytes(memory.free_bytes)
    if memory.total_bytes > memory.free_bytes:
        stops = memory.total_bytes > memory.installed_bytes
        there = f"the machine has {format_bytes(memory.installed_bytes)}" if stops else f"{free} are free"
        yield finding("memory-workers", yaml, f"loading takes {need}, {there}", kind="fails" if stops else "note")
    shared = memory.shared_free_bytes
    if shared is not None and memory.shared_bytes > shared:
        first = memory.workers * how.batch * how.square_bytes
        reason = (
            f"waiting batches take {format_bytes(memory.shared_bytes)} of /dev/shm, {format_bytes(shared)} are free"
        )
        yield finding("memory-shared", yaml, reason, kind="fails" if first > shared else "note")
    if how.cache == "ram" and not memory.cached:
        reason = (
            f"cache=ram takes {format_bytes(memory.cache_bytes)} and the host wants twice that free; it will not cache"
        )
        yield finding("memory-cache", yaml, reason)
    if how.cache == "disk" and Path(folder).is_dir():
        room = shutil.disk_usage(folder).free
        if memory.cache_bytes * _DISK_MARGIN > room:
            reason = (
                f"cache=disk takes {format_bytes(memory.cache_bytes)}, {format_bytes(room)} are free; it will not cache"
            )
            yield finding("memory-cache", folder, reason)
