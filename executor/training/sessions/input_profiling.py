"""Measures the input of a job alone, with one number of loader workers after the other.

No step is trained meanwhile: the slower of step and input decides, so each is measured by itself. All points read
the same samples. The first pass takes them from the storage, and the cache keeps them for the points, which so
measure the preparation alone. Speed for each memory size follows from that (`estimators/sensitivity`).
"""

from __future__ import annotations

import os
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

POINT_S = 1.0  # for which a point is measured, at least
ROUNDS_AHEAD = 3  # the first batch of each worker, and two that it prepares in advance
MOST_ROUNDS = 40  # of one batch of each worker
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

    def run(self) -> MeasuredInput:
        """Measure what is not known yet, and return all."""
        self._known = replace(self._known, most=self._most, processes=self._known.processes + 1)
        self._tell(self._known)
        with _without_limit():
            first = self._point(self._most)  # from the storage, while the cache takes it in
            while (cpus := next_cpus(self._known.rates, self._most, self._part)) is not None:
                self._known = self._known.with_row(cpus, self._point(cpus))
                self._tell(self._known)
            size, speed = self._stored(first)
            self._known = replace(
                self._known, done=True, process_gib=memory_gib(), sample_bytes=size, stored_per_s=speed
            )
        self._tell(self._known)
        return self._known

    def _point(self, workers: int) -> float:
        """Return the samples/s of so many workers, once all of them work at their pace.

        Those that begin first are ahead by what they may prepare in advance.
        """
        self._source.have_workers(workers)
        split = Split.of(BatchPlan(self._batch), 1, self._batch)
        reader = self._source.begin(Place(0, LOOP, 0, 0), split, 0, None)

        def batches() -> Iterator[int]:
            while (unit := reader.take()) is not None:
                for _ in unit.parts:
                    unit.fetch()
                yield unit.samples

        found = batches()
        batches_in_all = (self._source.size or 0) // self._batch or ROUNDS_AHEAD * workers + workers
        ahead = max(min(ROUNDS_AHEAD, batches_in_all // workers - 1), 1)
        for _ in range(ahead * workers):
            next(found, None)
        began_s, samples, rounds, at_s = self._clock(), 0, 0, 0.0
        while rounds < MOST_ROUNDS and at_s < POINT_S:
            # Workers give batches in turn, so a round is over when the last one has given another.
            given = [next(found, 0) for _ in range(workers)]
            if not all(given):
                break  # the data ends here
            samples, rounds, at_s = samples + sum(given), rounds + 1, self._clock() - began_s
        if not rounds:
            raise TooFew(workers)
        return samples / max(at_s, 1e-9)

    def _stored(self, first_per_s: float) -> tuple[float, float]:
        """Return the size of a sample and the speed of the storage; 0 where the script keeps no samples."""
        cache = node_cache.here()
        if cache is None or not cache.shared.count:
            return 0.0, 0.0
        shared, fastest = cache.shared, max(self._known.rates.values())
        slower = fastest > SLOWER * first_per_s
        return shared.charged / shared.count, first_per_s if slower else 0.0


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
