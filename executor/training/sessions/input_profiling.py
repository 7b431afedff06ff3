"""Measures the input of a job alone, with one number of loader workers after the other.

No step is trained meanwhile: the slower of step and input decides, so each is measured by itself. All points read
the same samples. The first pass takes them from the storage, and the cache keeps them for the points, which so
measure the preparation alone. Speed for each memory size follows from that (`estimators/sensitivity`).

Workers prepare batches in advance. What the first pass is given may so have been read long before, and at the end
of the data nothing is read any more. So the speed of the storage is that at which the cache grows.
"""

from __future__ import annotations

import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ....core.batch_plan import BatchPlan
from ....core.reports import MeasuredInput
from ....estimators.cpu_plan import next_cpus
from ..caching import node_cache
from ..data.batches import Place, Source
from ..data.units import Split

POINT_S = 1.0  # for which a point is measured, at least, where the samples suffice
WINDOW_S = 0.2  # of the windows of a point, at least
AHEAD = 2  # batches that each worker prepares in advance
ROUNDS = 3  # that are measured, at least; in a round each worker gives one batch
MOST_ROUNDS = 40
NO_LIMIT = 1 << 60  # bytes; a few hundred samples are read
SLOWER = 1.1  # so much faster the second pass is where the storage is the slower one
GIB = 2**30
LOOP = 1 << 20  # no loop that the script reads: its order is that of all points


class InputProfiling:
    """Walks through the points of the plan, and tells after each what is known.

    Args:
        most: CPUs that are free.
        known: what earlier processes of the run have measured.
        part: the GPUs' part of the node's CPUs.
    """

    def __init__(
        self,
        source: Source,
        script_batch: int,
        most: int,
        known: MeasuredInput | None,
        tell: Callable[[MeasuredInput], None],
        part: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._source, self._batch, self._most, self._part = source, script_batch, most, part
        self._known = known or MeasuredInput()
        self._tell, self._clock = tell, clock
        self._batches = 0  # that the first pass was given, and points may be given

    def run(self) -> MeasuredInput:
        """Measure what is not known yet, and return all."""
        self._known = replace(self._known, most=self._most, processes=self._known.processes + 1)
        self._tell(self._known)
        with _without_limit():
            stored_per_s, size = self._first_pass()
            while (cpus := next_cpus(self._known.rates, self._most, self._part)) is not None:
                self._known = self._known.with_row(cpus, self._point(cpus))
                self._tell(self._known)
            slower = max(self._known.rates.values()) > SLOWER * stored_per_s
            self._known = replace(
                self._known,
                done=True,
                process_gib=memory_gib(),
                sample_bytes=size,
                stored_per_s=stored_per_s if slower else 0.0,
            )
        self._tell(self._known)
        return self._known

    def _first_pass(self) -> tuple[float, float]:
        """Return the samples/s of the storage and the bytes of a sample; 0 where the script keeps no samples."""
        cache = node_cache.here()
        in_all = (self._source.size or 0) // self._batch // self._most or MOST_ROUNDS
        all_busy = max(in_all - AHEAD, 2)  # rounds, until workers have nothing more to read
        kept, samples = Windows(self._clock), 0
        for rounds, given in enumerate(self._rounds(self._most), 1):
            samples, self._batches = samples + given, self._batches + self._most
            if rounds <= all_busy:
                kept.add(cache.shared.count if cache is not None else 0)
            if rounds > AHEAD + ROUNDS and kept.seconds >= POINT_S:
                break
        per_s = kept.median_per_s()
        if per_s is None:
            raise TooFew(self._most)
        if cache is None or not cache.shared.count:
            return 0.0, 0.0
        reads = max(cache.shared.count // samples, 1)  # of each sample; what lies ready is less than was given
        return per_s / reads, cache.shared.charged / cache.shared.count * reads

    def _point(self, workers: int) -> float:
        """Return the samples/s of so many workers, once all of them work at their pace.

        Those that begin first are ahead by what they may prepare in advance.
        """
        in_all = self._batches // workers
        ahead = max(min(1 + AHEAD, in_all - 1), 1)
        prepared, samples = Windows(self._clock), 0
        for rounds, given in enumerate(itertools.islice(self._rounds(workers), in_all), 1):
            samples += given
            if rounds >= ahead:
                prepared.add(samples)
            if rounds >= ahead + ROUNDS and prepared.seconds >= POINT_S:
                break
        per_s = prepared.median_per_s()
        if per_s is None:
            raise TooFew(workers)
        return per_s

    def _rounds(self, workers: int) -> Iterator[int]:
        """Yield the samples of each round. Workers give batches in turn, so it is over when the last one has."""
        self._source.have_workers(workers)
        split = Split.of(BatchPlan(self._batch), 1, self._batch)
        reader = self._source.begin(Place(0, LOOP, 0, 0), split, 0, None)
        for _ in range(MOST_ROUNDS):
            samples = 0
            for _ in range(workers):
                unit = reader.take()
                if unit is None:
                    return
                for _ in unit.parts:
                    unit.fetch()
                samples += unit.samples
            yield samples


class Windows:
    """The rate of what is counted, as the median over windows: it leaves out where the machine stood still."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._marks: list[tuple[float, int]] = []  # (seconds, count) between two windows
        self._last = 0.0, 0

    def add(self, count: int) -> None:
        """Note how many there are by now."""
        self._last = now_s, _ = self._clock(), count
        if not self._marks or now_s >= self._marks[-1][0] + WINDOW_S:
            self._marks.append(self._last)

    @property
    def seconds(self) -> float:
        return self._last[0] - self._marks[0][0] if self._marks else 0.0

    def median_per_s(self) -> float | None:
        """Return the rate; None: it was looked at once at most. What is too short for a window is one."""
        marks = self._marks if len(self._marks) > 1 else [*self._marks, self._last]
        rates = [
            (count - before) / (at_s - from_s)
            for (from_s, before), (at_s, count) in itertools.pairwise(marks)
            if at_s > from_s
        ]
        return statistics.median(rates) if rates else None


class TooFew(Exception):
    """Raised where the data set has too few batches for so many workers; `args[0]` is their number."""


@contextmanager
def _without_limit() -> Iterator[None]:
    """Let the cache be empty at first, and keep all that is read within the block."""
    cache = node_cache.here()
    if cache is None:
        yield
        return
    budget = cache.shared.budget
    cache.resize(0)
    cache.resize(NO_LIMIT)
    try:
        yield
    finally:
        cache.resize(budget)


def memory_gib() -> float:
    """Return the memory of this process and its children, GiB; what they share counts once."""
    return sum(_pss_kib(pid) for pid in _family(os.getpid())) * 1024 / GIB


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in task.read_text().split():
                yield from _family(int(child))


def _pss_kib(pid: int) -> float:
    with suppress(OSError, ValueError, IndexError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1])
    return 0.0  # it has ended, or the system does not say
