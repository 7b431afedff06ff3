"""Every sample of an epoch is trained on exactly once, however often the replicas change."""

from collections.abc import Iterable, Iterator
from itertools import chain

import torch
from coadapt.executor.loader import (
    Split,
    deal,
    epoch_order,
    source_of,
    steps_of,
)
from coadapt.executor.protocol import BatchPlan
from coadapt.executor.rng import RandomState
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

PLANS = st.builds(
    BatchPlan,
    local_bsz=st.integers(1, 9),
    accumulation=st.integers(0, 3),
    batch_size=st.one_of(st.none(), st.integers(1, 40)),
)


def flat(lists: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(lists))


def parts_of_step(samples: list[int], split: Split) -> list[list[int]]:
    return [
        part
        for rank in range(split.replicas)
        for part, size in zip(deal(samples, split, rank), split.sizes(len(samples), rank), strict=True)
        if size
    ]


@given(PLANS, st.integers(1, 6), st.integers(1, 60))
def test_a_step_deals_out_each_of_its_samples_once(plan: BatchPlan, replicas: int, count: int) -> None:
    split = Split.of(plan, replicas)
    samples = list(range(min(count, split.batch_size)))
    dealt = parts_of_step(samples, split)
    assert sorted(flat(dealt)) == samples
    assert len(dealt) == split.filled_parts(len(samples))
    sizes = [len(part) for part in dealt]
    assert max(sizes) - min(sizes) <= 1


@given(PLANS, st.integers(1, 6), st.integers(1, 60))
def test_every_rank_makes_as_many_passes_and_no_batch_is_empty(plan: BatchPlan, replicas: int, count: int) -> None:
    split = Split.of(plan, replicas)
    samples = list(range(min(count, split.batch_size)))
    passes = {len(deal(samples, split, rank)) for rank in range(replicas)}
    assert passes == {split.passes_for(len(samples))}
    assert all(part for rank in range(replicas) for part in deal(samples, split, rank))


@given(st.data(), st.integers(1, 120))
def test_an_epoch_across_resizes_sees_every_sample_once(data: st.DataObject, total: int) -> None:
    order, offset, seen = list(range(total)), 0, []
    while offset < total:
        split = Split.of(data.draw(PLANS), data.draw(st.integers(1, 4)))
        steps = list(steps_of(total, offset, split, 0))
        for step in steps[: data.draw(st.integers(1, len(steps)))]:
            samples = order[step.offset : step.offset + step.samples]
            seen += flat(parts_of_step(samples, split))
            offset += step.samples
    assert sorted(seen) == order


def test_the_rest_of_an_epoch_takes_no_more_passes_than_it_needs() -> None:
    split = Split(replicas=2, local_bsz=4, passes=3, batch_size=24)
    assert [split.passes_for(samples) for samples in (24, 20, 16, 9, 8, 1)] == [3, 3, 2, 2, 1, 1]
    assert [split.sizes(1, rank) for rank in (0, 1)] == [[1], [0]]


def test_shuffling_is_what_a_distributed_sampler_does_for_the_same_epoch() -> None:
    data = TensorDataset(torch.arange(50))
    loader = DataLoader(data, 8, shuffle=True)
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=7)
    sampler.set_epoch(3)
    assert epoch_order(loader, 10).tolist() == list(sampler)


def test_with_one_pass_each_replica_gets_what_a_distributed_sampler_gives_it() -> None:
    data = TensorDataset(torch.arange(48))
    order = epoch_order(DataLoader(data, 8, shuffle=True), 0)
    split = Split.of(BatchPlan(4), 2)
    for rank in (0, 1):
        ours = [
            index
            for step in steps_of(48, 0, split, rank)
            for index in deal(order[step.offset : step.offset + step.samples].tolist(), split, rank)[0]
        ]
        assert ours == list(DistributedSampler(data, num_replicas=2, rank=rank))


def test_a_samplers_own_draw_is_the_same_on_every_rank_and_leaves_random_numbers_alone() -> None:
    data = TensorDataset(torch.arange(20))
    loader = DataLoader(data, 4, sampler=WeightedRandomSampler(torch.ones(20), 30))
    torch.manual_seed(3)
    first = epoch_order(loader, 5).tolist()
    after = torch.rand(1)
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1), after)
    torch.manual_seed(4)
    assert epoch_order(loader, 5).tolist() == first
    assert len(first) == 30
    assert epoch_order(loader, 6).tolist() != first


class Shuffled(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(37).tolist())


class ReadByWorkers(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        assert worker is not None
        return iter(range(worker.id, 23, worker.num_workers))


def test_drop_last_drops_by_the_initial_batch_however_large_batches_become() -> None:
    for data in (range(37), Shuffled()):
        for local_bsz in (4, 10, 40):
            steps = drain(DataLoader(data, 8, drop_last=True), BatchPlan(local_bsz), 2)
            assert sum(len(step) for step in steps) == 32


def drain(loader: DataLoader, plan: BatchPlan, replicas: int, offset: int = 0) -> list[list[int]]:
    """Sorted samples of each step, read by all ranks."""
    steps: list[list[int]] = []
    for rank in range(replicas):
        torch.manual_seed(rank)
        source = source_of(loader, lambda epoch: epoch, loader.batch_size or 1)
        micro = source.begin(0, 0, offset, Split.of(plan, replicas), rank)
        number = 0
        while (step := micro.next_step()) is not None:
            if number == len(steps):
                steps.append([])
            for size in step.sizes:
                batch = micro.next_batch()
                steps[number] += batch.tolist() if size else []
            number += 1
    return [sorted(step) for step in steps]


def test_a_shuffled_stream_gives_every_replica_its_part_of_the_same_steps() -> None:
    loader = DataLoader(Shuffled(), 5)
    alone = drain(loader, BatchPlan(8), 1)
    shared = drain(loader, BatchPlan(4), 2)
    assert sorted(flat(alone)) == list(range(37))
    assert alone == shared
    assert drain(loader, BatchPlan(4), 2, offset=16) == alone[2:]


def test_a_stream_read_by_workers_is_the_same_for_any_number_of_replicas() -> None:
    loader = DataLoader(ReadByWorkers(), 4, num_workers=2)
    alone = drain(loader, BatchPlan(4), 1)
    assert sorted(flat(alone)) == list(range(23))
    assert alone == drain(loader, BatchPlan(2), 2)


def test_borrowed_random_numbers_go_on_where_they_ended() -> None:
    state = RandomState(1)
    with state.borrowed():
        first = torch.rand(1)
    with state.borrowed():
        second = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(2), torch.cat([first, second]))
