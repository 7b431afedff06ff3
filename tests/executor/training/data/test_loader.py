"""A loop is given the script's own batches, each sample of an epoch once, however often the replicas change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from coadapt.executor.training.data.batches import Place, Source, length_of, sliced
from coadapt.executor.training.data.loader import source_of
from coadapt.executor.training.data.units import Part, Split
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    TensorDataset,
    get_worker_info,
)

from tests.support.ranks import on_ranks

START = Place(0, 0, 0, 0)
SPLITS = st.builds(Split, replicas=st.integers(1, 4), unit=st.just(8), passes=st.integers(1, 3))


def source(loader: DataLoader[Any]) -> Source:
    return source_of(loader, lambda epoch: 100 + epoch, loader.batch_size or 1)


def drain(
    loader: DataLoader[Any], split: Split, place: Place = START, batches: int | None = None
) -> list[list[int]]:
    """Return the samples of each batch, read by all ranks, in the order of the parts that count."""
    found: list[dict[int, list[int]]] = []
    for rank in range(split.replicas):
        reader = source(loader).begin(place, split, rank, None)
        number = 0
        while (batches is None or number < batches) and (unit := reader.take()) is not None:
            if number == len(found):
                found.append({})
            for part in unit.parts:
                data = unit.fetch()
                assert len(data) == part.samples
                if part.counts:
                    found[number][part.index] = data.tolist()
            number += 1
    return [merged(parts) for parts in found]


def merged(parts: dict[int, list[int]]) -> list[int]:
    """Return the batch that was divided into these parts."""
    batch = [0] * sum(map(len, parts.values()))
    for index, part in parts.items():
        batch[index :: len(parts)] = part
    return batch


def numbers(count: int) -> Dataset[int]:
    return range(count)  # type: ignore[return-value]


class Shuffled(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(37).tolist())


class ByWorker(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        assert worker is not None
        return iter(range(worker.id, 23, worker.num_workers))


class ReadyMade(Dataset[Tensor]):
    """Gives whole batches."""

    def __getitem__(self, index: int) -> Tensor:
        return torch.arange(8 * index, 8 * index + (5 if index == 3 else 8))

    def __len__(self) -> int:
        return 4


LOADERS = {
    "shuffled": lambda: DataLoader(numbers(50), 8, shuffle=True),
    "in order": lambda: DataLoader(numbers(50), 8),
    "drop_last": lambda: DataLoader(numbers(50), 8, shuffle=True, drop_last=True),
    "workers": lambda: DataLoader(numbers(50), 8, shuffle=True, num_workers=1),
    "ready-made": lambda: DataLoader(ReadyMade(), batch_size=None, shuffle=True),
    "batch sampler": lambda: DataLoader(
        numbers(50), batch_sampler=BatchSampler(SequentialSampler(numbers(50)), 8, drop_last=False)
    ),
    "stream": lambda: DataLoader(Shuffled(), 8),
    "stream of workers": lambda: DataLoader(ByWorker(), 8, num_workers=2),
    "stream, drop_last": lambda: DataLoader(Shuffled(), 8, drop_last=True),
}


@pytest.mark.parametrize("kind", LOADERS)
def test_replicas_together_are_given_what_one_process_is(kind: str) -> None:
    loader = LOADERS[kind]()
    alone = drain(loader, Split(1, 8))
    assert drain(loader, Split(2, 8)) == alone
    assert drain(loader, Split(3, 8, passes=2)) == alone


@pytest.mark.parametrize("kind", LOADERS)
def test_an_epoch_goes_on_where_it_was_left(kind: str) -> None:
    loader = LOADERS[kind]()
    alone = drain(loader, Split(1, 8))
    rest = replace(START, batch=2, offset=16)
    assert drain(loader, Split(2, 8), rest) == alone[2:]


@settings(max_examples=25)
@given(st.data(), st.integers(1, 60), st.sampled_from(["sequence", "stream"]))
def test_an_epoch_across_resizes_sees_every_sample_once(data: st.DataObject, total: int, kind: str) -> None:
    class Counting(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(total))

    loader = DataLoader(numbers(total), 8, shuffle=True) if kind == "sequence" else DataLoader(Counting(), 8)
    place, seen = START, []
    while more := drain(loader, data.draw(SPLITS), place, data.draw(st.integers(1, 4))):
        seen += more
        place = replace(place, batch=len(seen), offset=sum(map(len, seen)))
    assert sorted(chain.from_iterable(seen)) == list(range(total))
    assert [len(batch) for batch in seen] == [8] * (total // 8) + [total % 8] * (total % 8 > 0)


def test_batches_are_those_of_a_plain_script_with_a_distributed_sampler() -> None:
    data = TensorDataset(torch.arange(50))
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=100)
    plain = [batch.tolist() for (batch,) in DataLoader(data, 8, sampler=sampler)]
    assert drain(DataLoader(numbers(50), 8, shuffle=True), Split(2, 8)) == plain


def test_epochs_are_shuffled_anew_and_so_are_loops_within_one() -> None:
    loader = LOADERS["shuffled"]()
    orders = [drain(loader, Split(1, 8), Place(epoch, loop, 0, 0)) for epoch, loop in ((0, 0), (0, 1), (1, 0))]
    assert len({str(order) for order in orders}) == 3
    assert all(sorted(chain.from_iterable(order)) == list(range(50)) for order in orders)


@pytest.mark.parametrize("data", [numbers(37), Shuffled()])
@pytest.mark.parametrize("unit", [8, 16, 24])
def test_drop_last_drops_what_the_scripts_batch_size_would_however_large_batches_become(
    data: Dataset[int], unit: int
) -> None:
    batches = drain(DataLoader(data, 8, drop_last=True), Split(2, unit))
    assert sum(map(len, batches)) == 32
    assert all(len(batch) == unit for batch in batches[:-1])


def test_larger_batches_of_a_stream_hold_its_samples_in_order() -> None:
    loader = LOADERS["stream"]()
    alone = list(chain.from_iterable(drain(loader, Split(1, 8))))
    fused = drain(loader, Split(2, 20))
    assert [len(batch) for batch in fused] == [20, 17]
    assert list(chain.from_iterable(fused)) == alone


def test_reading_leaves_the_scripts_random_numbers_alone() -> None:
    for kind in ("shuffled", "stream"):
        torch.manual_seed(3)
        drain(LOADERS[kind](), Split(2, 8))
        after = torch.rand(1)
        torch.manual_seed(3)
        assert torch.equal(torch.rand(1), after), kind


class SplitsByRank(IterableDataset[int]):
    """What many data sets do under DDP, by the environment."""

    def __iter__(self) -> Iterator[int]:
        import torch.distributed as dist

        return iter(range(dist.get_rank(), 24, dist.get_world_size()))


def test_a_stream_that_splits_itself_by_rank_is_not_divided_twice() -> None:
    from coadapt.executor.training.data import alone

    def read(group: Any) -> list[int]:
        alone.install()
        reader = source(DataLoader(SplitsByRank(), 8)).begin(START, Split(2, 8), group.rank, group)
        found: list[int] = []
        while (unit := reader.take()) is not None:
            found += unit.fetch().tolist()
        assert torch.distributed.get_rank() == group.rank
        return found

    found = on_ranks(2, read)
    assert sorted(chain.from_iterable(found)) == list(range(24))


def test_a_sampler_that_is_never_the_same_twice_is_asked_by_one_replica_for_all() -> None:
    class Unrepeatable(RandomSampler):
        def __iter__(self) -> Iterator[int]:
            return iter(np.random.default_rng().permutation(50).tolist())

    def read(group: Any) -> list[list[int]]:
        loader = DataLoader(numbers(50), 8, sampler=Unrepeatable(numbers(50)))
        reader = source(loader).begin(START, Split(2, 8), group.rank, group)
        found = []
        while (unit := reader.take()) is not None:
            found.append(unit.fetch().tolist())
        return found

    first, second = on_ranks(2, read)
    assert sorted(chain(*first, *second)) == list(range(50))


def test_a_sampler_that_gives_no_indices_is_told_in_one_sentence() -> None:
    loader = DataLoader(numbers(8), 4, sampler=[0.5, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"^list: gave the index 0\.5; whole numbers or keys of the dataset are"):
        drain(loader, Split(1, 4))
    with pytest.raises(ValueError, match=r"^list: batch 1 is empty; a batch needs at least one index"):
        drain(DataLoader(numbers(8), batch_sampler=[[0, 1], []]), Split(1, 2))


def test_a_sampler_that_yields_nothing_makes_an_epoch_without_batches() -> None:
    assert drain(DataLoader(numbers(8), 4, sampler=[]), Split(1, 4)) == []


def test_an_index_out_of_range_is_the_datasets_own_error() -> None:
    with pytest.raises(IndexError):
        drain(DataLoader(numbers(8), 4, sampler=[3, 9]), Split(1, 4))


# --- ready-made batches -------------------------------------------------------------------------------------


class Pair(NamedTuple):
    x: Tensor
    names: list[str]


@pytest.mark.parametrize(
    ("batch", "half"),
    [
        (torch.arange(4), torch.tensor([1, 3])),
        (np.arange(4), np.array([1, 3])),
        ({"x": torch.arange(4), "a": torch.tensor(2.0)}, {"x": torch.tensor([1, 3]), "a": torch.tensor(2.0)}),
        ([torch.arange(4), 7], [torch.tensor([1, 3]), 7]),
        (Pair(torch.arange(4), list("abcd")), Pair(torch.tensor([1, 3]), list("bd"))),
        (list("abcd"), list("bd")),
    ],
)
def test_a_part_of_a_batch_has_its_share_of_whatever_is_as_long_as_the_batch(batch: Any, half: Any) -> None:
    found = sliced(batch, Part(1, 2, 2, 1), length_of(batch))
    assert type(found) is type(batch)
    assert str(found) == str(half)


def test_parts_are_in_memory_of_their_own() -> None:
    batch = torch.arange(8.0).reshape(4, 2)
    part = sliced(batch, Part(1, 2, 2, 1), 4)
    assert part.is_contiguous()
    part.zero_()
    assert batch.sum() == 28


@pytest.mark.parametrize("batch", [3, "text", torch.tensor(1.0), {}])
def test_what_has_no_number_of_samples_is_refused_in_one_sentence(batch: Any) -> None:
    with pytest.raises(ValueError, match=f"^batch: a {type(batch).__name__} without a tensor or array has no"):
        length_of(batch)
