"""A profile run measures its input at few numbers of CPUs, and a process that replaces another goes on."""

from __future__ import annotations

import itertools
from collections import deque
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.core.reports import InputRow, MeasuredInput
from coadapt.executor.training.caching import node_cache
from coadapt.executor.training.caching.cached_read import CachedRead
from coadapt.executor.training.caching.node_cache import NodeCache
from coadapt.executor.training.data.batches import Place, Reader, Unit
from coadapt.executor.training.data.loader import IndexedSource
from coadapt.executor.training.data.units import Split
from coadapt.executor.training.sessions import input_profiling
from coadapt.executor.training.sessions.input_profiling import InputProfiling, TooFew, Windows, memory_gib
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset[Any]):
    def __init__(self, read: Any, count: int) -> None:
        self.read, self.count = read, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(len(self.read(index)))


class Clock:
    """Goes on by a second with each look."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 1.0
        return self.now_s


class Disk:
    """A data set whose first pass is as fast as a disk, and the second as fast as its workers.

    The disk reads a batch after the other for the workers in turn. The last worker is there only later, and the
    others have prepared by then what they may.
    """

    workers, ahead, batch = 4, 2, 4
    late_s = 3.0
    fusable = True

    def __init__(self, cache: NodeCache, batches: int, disk_per_s: float, prepared_per_s: float) -> None:
        self.size: int | None = batches * self.batch
        self._cache, self._batches, self.now_s = cache, batches, 0.0
        self._rates = iter([disk_per_s])
        self._prepared_per_s = prepared_per_s

    def clock(self) -> float:
        return self.now_s

    def have_workers(self, workers: int) -> bool:
        return False

    def done_with(self) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...

    def begin(self, place: Place, split: Split, rank: int, group: Any) -> Reader:
        takes_s = self.batch / next(self._rates, self._prepared_per_s)
        queues = [deque(range(worker, self._batches, self.workers)) for worker in range(self.workers)]
        turn = itertools.cycle(range(self.workers))
        here_s = [self.now_s] * (self.workers - 1) + [self.now_s + self.late_s]
        read: set[int] = set()

        def fetch(batch: int) -> None:
            while batch not in read:
                self.now_s += takes_s
                for worker in itertools.islice(turn, self.workers):
                    mine = queues[worker]
                    if here_s[worker] <= self.now_s and mine and mine[0] < batch + self.ahead * self.workers:
                        read.add(found := mine.popleft())
                        for sample in range(found * self.batch, (found + 1) * self.batch):
                            self._cache.put(sample.to_bytes(16, "big"), b"x" * 84)
                        break

        return Reader(
            Unit(self.batch, tuple(split.parts(self.batch, 0)), partial(fetch, batch))
            for batch in range(self._batches)
        )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NodeCache:
    found = NodeCache(tmp_path / "home" / "job", 500)
    monkeypatch.setattr(node_cache, "_here", found)
    return found


def profiling(
    told: list[MeasuredInput],
    most: int = 3,
    known: MeasuredInput | None = None,
    count: int = 200,
    read: Any = bytes,
) -> InputProfiling:
    source = IndexedSource(DataLoader(Samples(read, count), 4, num_workers=1), lambda epoch: epoch, 4)
    return InputProfiling(source, 4, most, known, told.append, clock=Clock())


def test_points_are_told_one_by_one_and_the_cache_has_its_budget_again(cache: NodeCache) -> None:
    told: list[MeasuredInput] = []
    found = profiling(told, read=CachedRead(bytes, cache)).run()
    assert [[row.cpus for row in one.rows] for one in told] == [[], [3], [3, 2], [3, 2, 1], [3, 2, 1]]
    assert [one.done for one in told] == [False] * 4 + [True]
    assert (found.most, found.processes, found.rates) == (3, 1, {3: 12.0, 2: 8.0, 1: 4.0})
    assert found.sample_bytes > 16
    assert found.process_gib > 0.01
    assert cache.shared.budget == 500
    assert cache.shared.charged <= 500


def test_a_process_that_replaces_another_measures_what_is_left(cache: NodeCache) -> None:
    told: list[MeasuredInput] = []
    known = MeasuredInput((InputRow(3, 12.0),), 3, processes=1)
    found = profiling(told, known=known).run()
    assert [row.cpus for row in found.rows] == [3, 2, 1]
    assert (found.processes, found.sample_bytes) == (2, 0.0)


@pytest.mark.parametrize("batches", [20, 22, 40, 400])
def test_neither_batches_that_lay_ready_nor_the_end_of_the_data_make_a_storage_faster(
    cache: NodeCache, batches: int
) -> None:
    disk = Disk(cache, batches, disk_per_s=10.0, prepared_per_s=40.0)
    found = InputProfiling(disk, 4, 4, None, lambda told: None, clock=disk.clock).run()
    assert found.stored_per_s == pytest.approx(10.0)
    assert found.sample_bytes == 100.0


def test_points_are_measured_where_workers_have_more_to_read(cache: NodeCache) -> None:
    disk = Disk(cache, 40, disk_per_s=10.0, prepared_per_s=40.0)
    found = InputProfiling(disk, 4, 4, None, lambda told: None, clock=disk.clock).run()
    assert found.rates[4] == pytest.approx(40.0)


def test_a_storage_as_fast_as_the_workers_is_none_that_a_job_waits_for(cache: NodeCache) -> None:
    disk = Disk(cache, 40, disk_per_s=40.0, prepared_per_s=40.0)
    found = InputProfiling(disk, 4, 4, None, lambda told: None, clock=disk.clock).run()
    assert (found.stored_per_s, found.sample_bytes) == (0.0, 100.0)


def test_a_machine_that_stands_still_for_a_moment_changes_no_rate() -> None:
    now_s = 0.0
    windows = Windows(lambda: now_s)
    assert windows.median_per_s() is None
    for count, seconds in enumerate([0.1, 0.1, 0.1, 0.1, 0.1, 7.0, 0.1, 0.1, 0.1]):
        now_s += seconds
        windows.add(count)
    assert windows.median_per_s() == pytest.approx(10.0)


def test_a_rate_of_less_than_a_window_is_that_of_all() -> None:
    now_s = 0.0
    windows = Windows(lambda: now_s)
    windows.add(5)
    assert windows.median_per_s() is None
    now_s = 0.1
    windows.add(8)
    assert windows.median_per_s() == pytest.approx(30.0)


def test_a_data_set_of_few_batches_says_nothing() -> None:
    with pytest.raises(TooFew):
        profiling([], most=4, count=12).run()


def test_memory_counts_what_processes_share_once() -> None:
    assert 0.01 < memory_gib() < 64
    assert input_profiling.POINT_S > 0
