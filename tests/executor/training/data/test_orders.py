"""Orders come from the script's own sampler, which is asked once for all, newcomers included."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.data.orders import CHUNK, Orders, SamplerError, plain_order, sample_count
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from tests.support.ranks import on_ranks

DATA: Dataset[int] = range(30)  # type: ignore[assignment]


def loader(sampler: Any = None, **options: Any) -> DataLoader[int]:
    return DataLoader(DATA, 4, sampler=sampler, **options)


class OwnGenerator(Sampler[int]):
    """Shuffles by a generator that it keeps, so that no two passes are alike."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.asked = 0

    def __iter__(self) -> Iterator[int]:
        self.asked += 1
        return iter(self.rng.permutation(30).tolist())

    def __len__(self) -> int:
        return 30


class BySetEpoch(Sampler[int]):
    """Shuffles by an epoch that the script sets."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(np.random.default_rng(self.epoch).permutation(30).tolist())

    def __len__(self) -> int:
        return 30


class Endless(Sampler[int]):
    def __iter__(self) -> Iterator[int]:
        return (i % 30 for i in itertools.count())


def items(orders: Orders, epoch: int, group: Group | None = None, loop: int = 0, start: int = 0) -> list[int]:
    """Return the rest of an order from `start` on."""
    order = orders.of(epoch, loop, 7 + epoch, start, group)
    orders.ensure(order, 31, group)
    return list(order.slice(start, 31))


@pytest.mark.parametrize(
    ("sampler", "plain"),
    [
        (SequentialSampler(DATA), True),  # type: ignore[arg-type]
        (RandomSampler(DATA), True),  # type: ignore[arg-type]
        (RandomSampler(DATA, generator=torch.Generator()), False),  # type: ignore[arg-type]
        (RandomSampler(DATA, replacement=True), False),  # type: ignore[arg-type]
        (RandomSampler(DATA, num_samples=20), False),  # type: ignore[arg-type]
        (WeightedRandomSampler([1.0] * 30, 30), False),
        (SubsetRandomSampler(range(10)), False),
        (OwnGenerator(), False),
    ],
)
def test_only_what_seed_and_epoch_decide_is_reckoned_without_asking_the_sampler(sampler: Any, plain: bool) -> None:
    assert (plain_order(loader(sampler), 3) is not None) is plain


def test_shuffling_is_what_a_distributed_sampler_does_for_the_same_seed() -> None:
    sampler: DistributedSampler[int] = DistributedSampler(DATA, num_replicas=1, rank=0, seed=3)
    order = plain_order(DataLoader(DATA, 4, shuffle=True), 3)
    assert order is not None
    assert order.tolist() == list(sampler)


def test_a_distributed_sampler_is_read_whole_by_the_epoch_that_the_script_sets() -> None:
    mine: DistributedSampler[int] = DistributedSampler(DATA, num_replicas=3, rank=1, seed=5)
    whole: DistributedSampler[int] = DistributedSampler(DATA, num_replicas=1, rank=0, seed=5)
    for epoch in (0, 1):
        mine.set_epoch(epoch)
        whole.set_epoch(epoch)
        order = plain_order(loader(mine), 99)
        assert order is not None
        assert order.tolist() == list(whole)
    assert sample_count(loader(mine)) == 30


def test_a_sampler_of_its_own_is_asked_once_a_loop_and_gives_what_it_gives_alone() -> None:
    sampler = OwnGenerator()
    orders, alone = Orders(loader(sampler)), OwnGenerator()
    assert items(orders, 0) == list(alone)
    assert items(orders, 0, start=12) == items(orders, 0)[12:]
    assert items(orders, 1) == list(alone)
    assert sampler.asked == 2


def test_draws_from_global_random_numbers_are_the_same_in_every_process_and_leave_them_alone() -> None:
    def draw(seed: int) -> tuple[list[int], float]:
        torch.manual_seed(seed)
        return items(Orders(loader(WeightedRandomSampler([1.0] * 30, 30))), 0), torch.rand(1).item()

    (first, after), (second, _) = draw(1), draw(2)
    torch.manual_seed(1)
    assert first == second
    assert after == torch.rand(1).item()


def test_a_generator_given_to_the_loader_draws_as_in_a_plain_dataloader() -> None:
    def plain() -> list[list[int]]:
        shuffled = DataLoader(DATA, 4, shuffle=True, generator=torch.Generator().manual_seed(11))
        return [torch.cat(list(shuffled)).tolist() for _ in range(3)]

    orders = Orders(DataLoader(DATA, 4, shuffle=True, generator=torch.Generator().manual_seed(11)))
    assert [items(orders, epoch) for epoch in range(3)] == plain()


def test_replicas_whose_samplers_differ_are_told_one_order() -> None:
    def act(group: Group) -> list[list[int]]:
        orders = Orders(loader(OwnGenerator(seed=group.rank)))
        return [items(orders, epoch, group) for epoch in range(3)]

    first, second = on_ranks(2, act)
    assert first == second
    alone = OwnGenerator(seed=0)
    assert first == [list(alone) for _ in range(3)]


def test_a_newcomer_as_rank_0_is_told_the_running_order_by_whoever_has_it() -> None:
    def act(group: Group) -> list[int]:
        orders = Orders(loader(OwnGenerator(seed=group.rank)))
        if group.rank == 1:  # the one that has been training alone
            orders.of(0, 0, 7, 0, None)
        return items(orders, 0, group, start=10)

    first, second = on_ranks(2, act)
    assert first == second == list(OwnGenerator(seed=1))[10:]


def test_who_was_told_so_far_goes_on_alone_with_the_draws_that_follow() -> None:
    def act(group: Group) -> list[list[int]]:
        orders = Orders(loader(OwnGenerator(seed=0)))
        items(orders, 0, group)
        return [items(orders, epoch, None) for epoch in (1, 2)]

    alone = OwnGenerator(seed=0)
    plain = [list(alone) for _ in range(3)][1:]
    assert on_ranks(2, act) == [plain, plain]


@pytest.mark.parametrize("epoch", [0, 2])
def test_a_restart_in_the_midst_of_a_loop_goes_on_with_its_order(epoch: int) -> None:
    before = Orders(loader(OwnGenerator()))
    running = [items(before, e) for e in range(epoch + 1)][-1]
    after = Orders(loader(OwnGenerator()))
    after.load_state_dict(before.state_dict())
    assert items(after, epoch, start=8) == running[8:]
    assert items(after, epoch + 1) == items(before, epoch + 1)


def test_a_sampler_that_cannot_give_the_same_again_is_noticed_after_a_restart() -> None:
    class Unrepeatable(OwnGenerator):
        def __iter__(self) -> Iterator[int]:
            return iter(np.random.default_rng().permutation(30).tolist())

    before = Orders(loader(Unrepeatable()))
    assert not before.of(0, 0, 7, 0, None).differs
    after = Orders(loader(Unrepeatable()))
    after.load_state_dict(before.state_dict())
    assert after.of(0, 0, 7, 8, None).differs


def test_an_epoch_that_the_script_has_set_counts_after_a_restart() -> None:
    before_sampler, after_sampler = BySetEpoch(), BySetEpoch()
    before, after = Orders(loader(before_sampler)), Orders(loader(after_sampler))
    items(before, 0)
    after.load_state_dict(before.state_dict())
    for epoch, sampler, orders in ((1, before_sampler, before), (1, after_sampler, after)):
        sampler.set_epoch(epoch)
        assert items(orders, epoch) == np.random.default_rng(1).permutation(30).tolist()


def test_of_an_endless_sampler_only_what_is_ahead_is_kept() -> None:
    orders = Orders(loader(Endless()))
    order = orders.of(0, 0, 7, 0, None)
    for start in range(0, 6 * CHUNK, CHUNK // 2):
        orders.ensure(order, start + 4, None)
        order.pass_by(start)
        assert list(order.slice(start, start + 4)) == [(start + i) % 30 for i in range(4)]
        assert order.drawn - order.passed <= 3 * CHUNK


def test_batches_of_a_batch_sampler_are_items() -> None:
    batches = Orders(DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(range(7)), 3, False)))
    order = batches.of(0, 0, 7, 0, None)
    batches.ensure(order, 9, None)
    assert order.slice(0, 9) == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize(
    ("drawn", "found"),
    [
        ([np.int64(3), 4], [3, 4]),
        ([torch.tensor(3), torch.tensor(4)], [3, 4]),
        (["a", "b"], ["a", "b"]),
        ([(0, 1), (2, 3)], [(0, 1), (2, 3)]),
        ([], []),
    ],
)
def test_indices_may_be_of_any_kind_that_the_dataset_takes(drawn: list[Any], found: list[Any]) -> None:
    assert items(Orders(loader(drawn)), 0) == found


@pytest.mark.parametrize(
    ("drawn", "told"),
    [
        ([1, 2.5], r"^list: gave the index 2\.5; whole numbers or keys of the dataset are needed$"),
        ([[0], []], r"^list: batch 1 is empty; a batch needs at least one index$"),
    ],
)
def test_what_no_loader_could_use_is_told_in_one_sentence(drawn: list[Any], told: str) -> None:
    with pytest.raises(SamplerError, match=told):
        items(Orders(loader(drawn)), 0)
