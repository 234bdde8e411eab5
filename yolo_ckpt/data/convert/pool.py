"""Jobs over processes: as many at a time as memory allows, and none lost when one of them dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol, TypeVar

import psutil


class _Job(Protocol):
    @property
    def bytes_needed(self) -> int: ...


J = TypeVar("J", bound=_Job)
R = TypeVar("R")
_HERE_UP_TO = 8  # jobs; starting processes takes as long as a few small files
_HERE_UP_TO_BYTES = 256 << 20


def workers_for(jobs: Sequence[_Job], asked: int) -> int:
    """How many processes; 1 is this one."""
    if asked:
        return asked
    if len(jobs) <= _HERE_UP_TO and sum(job.bytes_needed for job in jobs) < _HERE_UP_TO_BYTES:
        return 1
    return max(1, min(os.cpu_count() or 1, 8, len(jobs)))


def budget_bytes() -> int:
    """Memory that all jobs together may take: half of what is free."""
    return int(psutil.virtual_memory().available) // 2


def run_all(
    work: Callable[[J], R], jobs: Sequence[J], *, workers: int, budget: int, died: Callable[[J], R]
) -> Generator[tuple[J, R], None, None]:
    """Does `work` on every job, as they come ready.

    Args:
        work: A function at the top of a module.
        jobs: What it is given.
        workers: Processes; 1 works in this one.
        budget: Bytes that the running jobs may need together; a job that needs more runs alone.
        died: The outcome of a job whose process died (a decoder crashed, or the system ended it for its memory).
    """
    if workers == 1:
        yield from ((job, work(job)) for job in jobs)
        return
    waiting = deque(jobs)
    while waiting:
        suspects: list[J] = []
        yield from _until_broken(work, waiting, workers, budget, suspects)
        for job in suspects:  # one of them broke the pool: each alone shows which
            try:
                with _executor(1) as executor:
                    yield job, executor.submit(work, job).result()
            except BrokenProcessPool:
                yield job, died(job)


def _until_broken(
    work: Callable[[J], R], waiting: deque[J], workers: int, budget: int, suspects: list[J]
) -> Iterator[tuple[J, R]]:
    running: dict[Future[R], J] = {}
    before = set(multiprocessing.active_children())
    executor = _executor(workers)
    try:
        while waiting or running:
            while waiting and len(running) < workers and _fits(waiting[0], running.values(), budget):
                future = executor.submit(work, waiting[0])  # which may find the pool broken: the job waits on
                running[future] = waiting.popleft()
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                result = future.result()
                yield running.pop(future), result
    except BrokenProcessPool:
        suspects += running.values()
    except BaseException:  # Ctrl-C, or a full disk: nobody waits for what is half done
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _fits(job: _Job, running: Iterable[_Job], budget: int) -> bool:
    needed = [other.bytes_needed for other in running]
    return not needed or sum(needed) + job.bytes_needed <= budget


def _executor(workers: int) -> ProcessPoolExecutor:
    """Processes that begin fresh: a copy of this one might hold locks of libraries that it has used."""
    method = "spawn" if sys.platform == "win32" else "forkserver"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["yolo_ckpt.data.convert.job"])
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)


def _begin() -> None:
    """Ctrl-C is for the process that started this one; OpenCV's own threads would be too many."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # before the import, which takes a while
    import cv2

    cv2.setNumThreads(1)
