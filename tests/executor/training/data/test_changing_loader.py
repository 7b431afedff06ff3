"""The number of loader workers changes neither the order of samples nor what they are."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from coadapt.executor.training.data.batches import Place
from coadapt.executor.training.data.loader import IndexedSource
from coadapt.executor.training.data.units import Split
from torch.utils.data import DataLoader, Dataset, Subset, WeightedRandomSampler

SAMPLES = 97


class Augmented(Dataset[Any]):
    """Samples with random draws of Python, numpy and torch."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[int, float, float, float]:
        of_numpy = float(np.random.rand())  # noqa: NPY002 -- as scripts do
        return index, random.random(), of_numpy, float(torch.rand(()))


class InLists(Augmented):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def loader(workers: int, data: Dataset[Any] | None = None, **about: Any) -> DataLoader[Any]:
    about.setdefault("shuffle", True)
    return DataLoader(data or Augmented(), 8, num_workers=workers, **about)


def read(
    source: IndexedSource, changes: dict[int, int] | None = None, replicas: int = 1, rank: int = 0, start: int = 0
) -> list[Any]:
    """Read a loop, with other numbers of workers from some batches on."""
    found = []
    reader = source.begin(Place(0, 0, start // 8, start), Split(replicas, 8), rank, None)
    for number in range(SAMPLES):
        if (unit := reader.take()) is None:
            break
        for _ in unit.parts:
            found += [tuple(map(float, sample)) for sample in zip(*unit.fetch(), strict=True)]
        if workers := (changes or {}).get(number):
            source.have_workers(workers)
    return found


def source(workers: int, *args: Any, **about: Any) -> IndexedSource:
    return IndexedSource(loader(workers, *args, **about), lambda epoch: 7 + epoch, 8)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_that_come_and_go_in_a_loop_change_no_sample_and_no_draw(persistent: bool) -> None:
    plain = read(source(1))
    assert sorted(sample[0] for sample in plain) == list(range(SAMPLES))
    changing = source(2, persistent_workers=persistent)
    assert read(changing, {0: 3, 1: 1, 4: 2, 5: 3, 9: 1}) == plain
    assert read(changing) == plain, "and the next loop goes on with as many"
    assert changing.workers == 1


def test_draws_are_those_of_a_sample_on_any_replica_and_after_a_restart_in_the_midst() -> None:
    whole = {sample[0]: sample for sample in read(source(2))}
    halves = [sample for rank in range(2) for sample in read(source(1), replicas=2, rank=rank)]
    assert {sample[0]: sample for sample in halves} == whole
    rest = read(source(3), start=40)
    assert len(rest) == SAMPLES - 40
    assert all(whole[sample[0]] == sample for sample in rest)


def test_a_sample_that_is_drawn_twice_in_an_epoch_draws_other_random_numbers() -> None:
    torch.manual_seed(0)
    sampler = WeightedRandomSampler([1.0] * 3, 24)
    found = read(source(1, Subset(Augmented(), range(3)), sampler=sampler, shuffle=False))
    assert len(found) == len({sample[1:] for sample in found}) == 24


@pytest.mark.parametrize("data", [Subset(Augmented(), range(50)), InLists()], ids=["a subset", "lists"])
def test_other_data_sets_draw_alike_with_any_number_of_workers(data: Dataset[Any]) -> None:
    assert read(source(1, data)) == read(source(2, data), {1: 1, 2: 3})


def test_samples_that_are_read_in_the_training_process_stay_there() -> None:
    reads_here = source(0)
    assert not reads_here.have_workers(2)
    assert reads_here.workers == 0


def test_a_loop_that_was_left_starts_no_workers_when_their_number_changes() -> None:
    changing = source(2)
    reader = changing.begin(Place(0, 0, 0, 0), Split(1, 8), 0, None)
    unit = reader.take()
    assert unit is not None
    unit.fetch()
    del reader, unit
    assert changing.have_workers(1)
    assert sorted(sample[0] for sample in read(changing)) == list(range(SAMPLES))
