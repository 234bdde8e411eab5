"""Jobs over processes."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from yolo_ckpt.data.convert.pool import run_all, workers_for


@dataclass(frozen=True)
class Task:
    number: int
    bytes_needed: int = 1


def square(task: Task) -> int:
    if task.number == 13:
        os._exit(9)  # as a crash, or the system's end of a process that took too much memory
    if task.number == 7:
        raise ValueError("seven")
    return task.number**2


def died(task: Task) -> int:
    return -task.number


@pytest.mark.parametrize("workers", [1, 2])
def test_every_job_is_done_once(workers: int) -> None:
    tasks = [Task(n) for n in range(7)]
    found = dict(run_all(square, tasks, workers=workers, budget=100, died=died))
    assert found == {task: task.number**2 for task in tasks}


def test_a_process_that_dies_takes_its_own_job_only() -> None:
    tasks = [Task(n) for n in (1, 2, 13, 3, 4, 13, 5)]
    found = sorted(result for _, result in run_all(square, tasks, workers=2, budget=100, died=died))
    assert found == [-13, -13, 1, 4, 9, 16, 25]


def test_an_error_of_the_work_is_raised() -> None:
    with pytest.raises(ValueError, match="seven"):
        list(run_all(square, [Task(n) for n in range(9)], workers=2, budget=100, died=died))


def test_jobs_that_need_more_than_there_is_run_alone() -> None:
    tasks = [Task(n, bytes_needed=60) for n in range(4)]
    assert len(list(run_all(square, tasks, workers=2, budget=50, died=died))) == 4


def test_few_small_jobs_start_no_process() -> None:
    assert workers_for([Task(1)] * 8, 0) == 1
    assert workers_for([Task(1, 1 << 30)] * 8, 0) > 1 or os.cpu_count() == 1
    assert workers_for([Task(1)], 3) == 3
