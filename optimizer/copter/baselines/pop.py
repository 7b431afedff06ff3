"""POP: splits a granular allocation problem at random, solves the parts at once, and joins their answers.

The source is Narayanan et al., "Solving Large-Scale Granular Resource Allocation Problems Efficiently with POP",
SOSP 2021. The problem defines what a part is, and how clients with large demands are split. This module decides
when and where the parts run.
"""

from __future__ import annotations

import heapq
import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

Part = TypeVar("Part")
Answer = TypeVar("Answer")
Whole = TypeVar("Whole", covariant=True)


class Partition(Protocol[Part, Answer, Whole]):
    """Splits one problem, solves a part (as a pure function of the part), and merges the answers."""

    def split(self, k: int, rng: np.random.Generator) -> Sequence[Part]: ...

    def solve(self, part: Part) -> Answer: ...

    def merge(self, parts: Sequence[Part], answers: Sequence[Answer]) -> Whole: ...


@dataclass(frozen=True)
class PopAnswer(Generic[Whole]):
    """The merged answer and the time it took.

    whole: the merged answer.
    seconds: time for split, parts and merge. With Ray it is wall time. In this process it is CPU time, and the
        parts count as their makespan over `cores`, as in the paper.
    part_s: (k,) CPU seconds of each part on a core of its own.
    """

    whole: Whole
    seconds: float
    part_s: tuple[float, ...]


def makespan_s(part_s: Sequence[float], cores: int) -> float:
    """Return when the last part ends, if each starts in order on the core that is free first."""
    free = [0.0] * cores
    for seconds in part_s:
        heapq.heappush(free, heapq.heappop(free) + seconds)
    return max(free)


def solve_parts(
    partition: Partition[Any, Any, Whole], k: int, *, seed: int = 0, cores: int = 64, use_ray: bool = False
) -> PopAnswer[Whole]:
    """Solve a problem in k parts (POP-k).

    With `use_ray` the parts run on Ray. If no Ray runs, one of at most `cores` is started, and ends with this
    process. Else the parts run one after another, and their time is estimated for `cores`.

    Raises:
        ValueError: for k or cores below 1.
    """
    for name, value in (("k", k), ("cores", cores)):
        if value < 1:
            raise ValueError(f"{name}: is {value}, not at least 1")
    if use_ray:
        _start_ray(cores)
    began, split_at = time.perf_counter(), time.process_time()
    parts = list(partition.split(k, np.random.default_rng(seed)))
    split_s = time.process_time() - split_at
    timed = _by_ray(partition, parts) if use_ray else [_timed(partition, part) for part in parts]
    part_s = tuple(seconds for _, seconds in timed)
    merging = time.process_time()
    whole = partition.merge(parts, [answer for answer, _ in timed])
    merge_s = time.process_time() - merging
    seconds = time.perf_counter() - began if use_ray else split_s + makespan_s(part_s, cores) + merge_s
    return PopAnswer(whole, seconds, part_s)


def _timed(partition: Partition[Any, Any, Any], part: object) -> tuple[Any, float]:
    began = time.process_time()
    answer = partition.solve(part)
    return answer, time.process_time() - began


def _start_ray(cores: int) -> None:
    import ray  # takes a third of a second, and most callers do not need it

    if not ray.is_initialized():
        ray.init(
            address="local",
            num_cpus=min(cores, os.cpu_count() or 1),
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )


@cache
def _task() -> Any:
    import ray

    return ray.remote(num_cpus=1)(_timed)


def _by_ray(partition: Partition[Any, Any, Any], parts: Sequence[object]) -> list[tuple[Any, float]]:
    import ray

    remote = _task()
    shared = ray.put(partition)
    return list(ray.get([remote.remote(shared, part) for part in parts]))
