"""Batches without a DataLoader: all replicas train on parts of the same ones, whoever draws them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.data.batches import Place, Reader
from coadapt.executor.training.data.drawn import Batches, drawn_source
from coadapt.executor.training.data.units import Split
from torch import Tensor

from tests.support.ranks import on_ranks

START = Place(0, 0, 0, 0)


def read(reader: Reader, batches: int) -> list[list[float]]:
    """Return this rank's parts of so many batches, one after the other."""
    found: list[list[float]] = []
    for _ in range(batches):
        unit = reader.take()
        if unit is None:
            return found
        found.append([value for _ in unit.parts for value in unit.fetch().tolist()])
    return found


def together(parts: list[list[list[float]]]) -> list[list[float]]:
    """Make batches from the parts of all ranks."""
    batches = []
    for every in zip(*parts, strict=True):
        batch = [0.0] * sum(map(len, every))
        for rank, part in enumerate(every):
            batch[rank :: len(every)] = part
        batches.append(batch)
    return batches


def drawn(batches: Batches, count: int, place: Place = START) -> list[list[float]]:
    """Return what one replica is given."""
    return read(drawn_source(batches, lambda epoch: 5 + epoch).begin(place, Split(1, 6), 0, None), count)


def by_two(make: Callable[[int], Batches], count: int) -> list[list[float]]:
    """Return what two replicas are given, each of which sets itself up."""

    def act(group: Group) -> list[list[float]]:
        torch.manual_seed(group.rank)
        source = drawn_source(make(group.rank), lambda epoch: 5 + epoch)
        return read(source.begin(START, Split(2, 6), group.rank, group), count)

    return together(on_ranks(2, act))


def globally() -> Tensor:
    return torch.rand(6)


def of_its_own(seed: int = 0) -> Callable[[], Tensor]:
    rng = np.random.default_rng(seed)
    return lambda: torch.from_numpy(rng.random(6))


def test_by_itself_a_script_gets_its_batches_as_they_are() -> None:
    torch.manual_seed(1)
    mine = list(itertools.islice(Batches(globally), 2))
    torch.manual_seed(1)
    assert torch.equal(torch.stack(mine), torch.stack([globally(), globally()]))
    assert list(Batches([3, 1, 2, 0, 4], batch_size=2)) == [[3, 1], [2, 0], [4]]
    batches = Batches([torch.zeros(4), torch.ones(4)])
    assert next(batches).tolist() == [0.0] * 4
    assert len(batches) == 2
    assert len(Batches(range(5), batch_size=2)) == 3


def test_a_functions_draws_from_global_random_numbers_are_the_same_for_all_replicas() -> None:
    alone = drawn(Batches(globally), 4)
    assert by_two(lambda rank: Batches(globally), 4) == alone
    assert drawn(Batches(globally), 2, replace(START, batch=2, offset=12)) == alone[2:], "after a restart"


def test_a_function_with_a_generator_of_its_own_draws_on_where_it_was() -> None:
    mine, plain = Batches(of_its_own()), of_its_own()
    assert drawn(mine, 4) == [plain().tolist() for _ in range(4)]


def test_where_functions_of_replicas_would_differ_one_draws_for_all() -> None:
    plain = of_its_own(0)
    assert by_two(lambda rank: Batches(of_its_own(rank)), 4)[1:] == [plain().tolist() for _ in range(4)][1:]


def test_whoever_was_told_goes_on_alone_with_the_next_draw() -> None:
    def act(group: Group) -> list[list[float]]:
        source = drawn_source(Batches(of_its_own()), lambda epoch: 5 + epoch)
        reader = source.begin(START, Split(2, 6), group.rank, group)
        for _ in range(3):
            read(reader, 1)
            source.done_with()
        return read(source.begin(Place(0, 0, 3, 18), Split(1, 6), 0, None), 2)

    plain = of_its_own()
    following = [plain().tolist() for _ in range(5)][3:]
    assert on_ranks(2, act) == [following, following]


def test_what_was_drawn_ahead_of_a_resize_is_drawn_again() -> None:
    source = drawn_source(Batches(of_its_own()), lambda epoch: 5 + epoch)
    reader = source.begin(START, Split(1, 6), 0, None)
    first = read(reader, 3)
    source.done_with()
    assert read(source.begin(Place(0, 0, 1, 6), Split(1, 6), 0, None), 3)[:2] == first[1:]


def test_a_restart_from_a_checkpoint_draws_on() -> None:
    before = drawn_source(Batches(of_its_own()), lambda epoch: 5 + epoch)
    reader = before.begin(START, Split(1, 6), 0, None)
    for _ in range(2):
        read(reader, 1)
        before.done_with()
    after = drawn_source(Batches(of_its_own()), lambda epoch: 5 + epoch)
    after.load_state_dict(before.state_dict())
    assert read(after.begin(Place(0, 0, 2, 12), Split(1, 6), 0, None), 2) == read(reader, 2)


def test_the_first_batch_is_looked_at_without_being_lost() -> None:
    plain = of_its_own()
    batches = Batches(of_its_own())
    assert batches.batch_size == 6
    assert drawn(batches, 2) == [plain().tolist() for _ in range(2)]
    items = Batches(iter([torch.zeros(6), torch.ones(6)]))
    assert items.batch_size == 6
    assert drawn(items, 9) == [[0.0] * 6, [1.0] * 6]


# --- iterables ----------------------------------------------------------------------------------------------


def counting(batches: int = 5) -> Iterator[Tensor]:
    for number in range(batches):
        yield torch.arange(6.0) + 10 * number


@pytest.mark.parametrize("make", [lambda: Batches(list(counting())), lambda: Batches(counting())])
def test_an_iterables_batches_are_divided_and_end_for_all_together(make: Callable[[], Batches]) -> None:
    assert by_two(lambda rank: make(), 9) == [batch.tolist() for batch in counting()]


def test_an_iterator_gives_each_batch_once_whoever_takes_it() -> None:
    """It goes on in the next loop, and in a process that starts again it passes by what is done."""
    source = drawn_source(Batches(counting()), lambda epoch: 5)
    first = read(source.begin(START, Split(1, 6), 0, None), 2)
    for _ in first:
        source.done_with()
    newcomer = drawn_source(Batches(counting()), lambda epoch: 5)
    newcomer.load_state_dict(source.state_dict())
    for later in (source, newcomer):
        rest = read(later.begin(Place(0, 0, 2, 12), Split(1, 6), 0, None), 9)
        assert first + rest == [batch.tolist() for batch in counting()]


def test_what_an_iterator_gave_and_was_not_trained_on_is_given_again() -> None:
    source = drawn_source(Batches(counting()), lambda epoch: 5)
    read(source.begin(START, Split(1, 6), 0, None), 3)
    source.done_with()
    rest = read(source.begin(Place(0, 0, 1, 6), Split(1, 6), 0, None), 9)
    assert rest == [batch.tolist() for batch in counting()][1:]


class Shuffling:
    """Another order in each pass, by a generator that it keeps."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __iter__(self) -> Iterator[Tensor]:
        return (torch.arange(6.0) + 10 * number for number in self.rng.permutation(4))


def test_an_iterable_with_a_generator_is_read_by_one_and_told_to_all_in_every_epoch() -> None:
    def act(group: Group) -> list[list[float]]:
        source = drawn_source(Batches(Shuffling(seed=group.rank)), lambda epoch: 5)
        found = []
        for epoch in range(2):
            found += read(source.begin(Place(epoch, 0, 0, 0), Split(2, 6), group.rank, group), 9)
        return found

    plain = Shuffling(seed=0)
    assert together(on_ranks(2, act)) == [batch.tolist() for _ in range(2) for batch in plain]


def test_a_restart_in_the_midst_of_an_iterable_passes_by_what_is_done() -> None:
    before = drawn_source(Batches(Shuffling(3)), lambda epoch: 5)
    whole = read(before.begin(START, Split(1, 6), 0, None), 9)
    after = drawn_source(Batches(Shuffling(3)), lambda epoch: 5)
    after.load_state_dict(before.state_dict())
    assert read(after.begin(Place(0, 0, 2, 12), Split(1, 6), 0, None), 9) == whole[2:]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Batches(3), "batches: a int draws nothing; a function without arguments that returns a batch"),  # type: ignore[arg-type]
        (lambda: Batches(globally, batch_size=0), "batches: batch_size 0 is less than 1"),
        (lambda: list(Batches([1, 2, 3])), "batches: the sampler gives single indices; say batch_size"),
        (lambda: len(Batches(globally)), "batches that a function draws have no end, and so no length"),
        (lambda: Batches(lambda: 3).batch_size, "batch: a int without a tensor or array has no number of samples"),
    ],
)
def test_what_gives_no_batches_is_refused_in_one_sentence(make: Callable[[], Any], told: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{told}"):
        make()


def test_a_function_that_takes_arguments_is_refused_with_what_would_do() -> None:
    def get_batch(split: str, size: int = 4) -> torch.Tensor:
        return torch.zeros(size)

    with pytest.raises(TypeError, match=r"batches: get_batch needs split; .+ such as lambda: get_batch\(…\)"):
        Batches(get_batch)
    assert Batches(lambda: get_batch("train")).batch_size == 4
