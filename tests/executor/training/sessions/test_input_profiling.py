"""A profile run measures its input at few numbers of CPUs, and a process that replaces another goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.core.reports import InputRow, MeasuredInput
from coadapt.executor.training.caching import node_cache
from coadapt.executor.training.caching.cached_read import CachedRead
from coadapt.executor.training.caching.node_cache import NodeCache
from coadapt.executor.training.data.loader import IndexedSource
from coadapt.executor.training.sessions import input_profiling
from coadapt.executor.training.sessions.input_profiling import InputProfiling, TooFew, memory_gib
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
    assert found.stored_per_s == 0.0, "it was as fast from the storage"
    assert found.process_gib > 0.01
    assert cache.shared.budget == 500
    assert cache.shared.charged <= 500


def test_a_process_that_replaces_another_measures_what_is_left(cache: NodeCache) -> None:
    told: list[MeasuredInput] = []
    known = MeasuredInput((InputRow(3, 12.0),), 3, processes=1)
    found = profiling(told, known=known).run()
    assert [row.cpus for row in found.rows] == [3, 2, 1]
    assert (found.processes, found.sample_bytes) == (2, 0.0)


def test_a_storage_that_is_slower_than_the_workers_is_found_out(
    cache: NodeCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = iter([100.0, 400.0, 390.0, 200.0])
    monkeypatch.setattr(InputProfiling, "_point", lambda self, cpus: next(rates))
    cache.put(b"0" * 16, b"x" * 84)
    monkeypatch.setattr(NodeCache, "resize", lambda self, budget: None)
    found = profiling([]).run()
    assert (found.stored_per_s, found.sample_bytes) == (100.0, 100.0)


def test_a_data_set_of_few_batches_says_nothing() -> None:
    with pytest.raises(TooFew):
        profiling([], most=4, count=12).run()


def test_memory_counts_what_processes_share_once() -> None:
    assert 0.01 < memory_gib() < 64
    assert input_profiling.POINT_S > 0
