"""What `kill_tests` reads of a log: parts of GPUs beyond the whole, and GPUs that two jobs held."""

from __future__ import annotations

from coadapt.core.events import EventKind
from coadapt.scheduler.store.events import Event

from benchmarks.shares_held import read


def event(number: int, job: str, **parts: float) -> Event:
    on = {"n1": {gpu.removeprefix("gpu"): part for gpu, part in parts.items()}} if parts else {}
    return Event(EventKind.PLACED, float(number), job, {"on": on}, number=number)


def test_parts_that_are_given_up_first_exceed_nothing() -> None:
    found = read([event(1, "a", gpu0=1.0), event(2, "a", gpu0=0.5), event(3, "b", gpu0=0.5), event(4, "a")])
    assert (found.exceeded, found.shared) == ([], {("n1", "0")})


def test_a_gpu_that_is_given_to_a_second_job_before_the_first_gave_up_a_part_is_told() -> None:
    found = read([event(2, "b", gpu0=0.5), event(1, "a", gpu0=1.0, gpu1=1.0), event(3, "c", gpu1=0.5)])
    assert found.exceeded == ["2.0: GPU 0 of node n1: a 1, b 0.5", "3.0: GPU 1 of node n1: a 1, c 0.5"]


def test_three_jobs_on_one_gpu_are_told_however_small_their_parts() -> None:
    found = read([event(at, job, gpu0=0.25) for at, job in enumerate("abc", 1)])
    assert found.exceeded == ["3.0: GPU 0 of node n1: a 0.25, b 0.25, c 0.25"]
