"""A second loader's batches go with the script's: in each pass, when one is done again, and in newcomers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from coadapt.executor.training.data import counted_loops, loader_watch
from coadapt.executor.training.data.side_iterators import Side, Taken, passed_by
from coadapt.executor.training.data.side_loaders import LEADS, SideLoaders
from torch.utils.data import DataLoader, IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

counted_loops.install()  # as in every training process

EPOCHS, BATCHES = 3, 4


class Stopped(Exception):
    """The process ends here; what goes on knows its state."""


class Loop:
    """A session's loop over the prepared loader, as far as other loaders ask."""

    in_script_step = False

    def __init__(self, passes: int = 1, stop: tuple[int, int] = (-1, -1), begin: tuple[int, int] = (0, 0)) -> None:
        self.passes, self.stop = passes, stop
        self.epoch, self.batch = begin
        self.in_iteration = self.in_loop = self.partial = False
        self.counted = ""
        self.state: dict[str, Any] = {}
        self.sides = SideLoaders(self)
        loader_watch.watch(self.sides)

    @property
    def batch_key(self) -> tuple[int, int, int]:
        return self.epoch, 0, self.batch

    def note_counting(self, how: str) -> None:
        self.counted = how

    def epochs(self) -> Iterator[int]:
        while self.epoch < EPOCHS:
            self.in_loop = True
            yield self.epoch
            self.in_loop = False
            self.epoch, self.batch = self.epoch + 1, 0

    def batches(self, count: int = BATCHES) -> Iterator[int]:
        self.sides.begin_loop(by_next=False)
        while self.batch < count:
            if (self.epoch, self.batch) == self.stop:
                self.state = self.sides.capture()
                raise Stopped
            yield from self.give()
            self.batch += 1

    def give(self) -> Iterator[int]:
        """Return all passes of the next batch."""
        self.sides.open(begins_step=True)
        for number in range(self.passes):
            self.partial = number < self.passes - 1
            self.sides.begin_part()
            self.in_iteration = True
            yield self.batch
            self.in_iteration = False


@pytest.fixture(autouse=True)
def _unwatched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(itertools, "cycle", itertools.cycle)
    loader_watch.install()
    yield
    loader_watch.watch(None)


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(7))


def loader(**settings: Any) -> DataLoader[Any]:
    data: Any = range(7)
    return DataLoader(data, batch_size=None, **settings)


def shuffled() -> DataLoader[Any]:
    return loader(shuffle=True, generator=torch.Generator().manual_seed(3))


def forever(side: Any) -> Iterator[Any]:
    while True:
        yield from side


# --- scripts: what each batch found goes into `seen`, by its passes -------------------------------------------

Seen = dict[tuple[int, int], list[Any]]


def kept(loop: Loop, side: Any, seen: Seen) -> None:
    more = iter(side)
    for _ in loop.epochs():
        for _ in loop.batches():
            try:
                item = next(more)
            except StopIteration:
                more = iter(side)
                item = next(more)
            seen.setdefault((loop.epoch, loop.batch), []).append(int(item))


def anew_each_epoch(loop: Loop, side: Any, seen: Seen) -> None:
    for _ in loop.epochs():
        more = iter(side)
        for _ in loop.batches():
            seen.setdefault((loop.epoch, loop.batch), []).append(int(next(more)))


def zipped(loop: Loop, side: Any, seen: Seen) -> None:
    for _ in loop.epochs():
        for _, item in zip(loop.batches(), side, strict=False):
            seen.setdefault((loop.epoch, loop.batch), []).append(int(item))


def repeated(loop: Loop, side: Any, seen: Seen) -> None:
    items = forever(side)
    for _ in loop.epochs():
        for _ in loop.batches():
            seen.setdefault((loop.epoch, loop.batch), []).append([int(next(items)), int(next(items))])


def cycled(loop: Loop, side: Any, seen: Seen) -> None:
    items = itertools.cycle(side)
    for _ in loop.epochs():
        for _ in loop.batches():
            seen.setdefault((loop.epoch, loop.batch), []).append(int(next(items)))


def first_of_all(loop: Loop, side: Any, seen: Seen) -> None:
    for _ in loop.epochs():
        for _ in loop.batches():
            seen.setdefault((loop.epoch, loop.batch), []).append(int(next(iter(side))))


def validated(loop: Loop, side: Any, seen: Seen) -> None:
    for _ in loop.epochs():
        for _ in loop.batches():
            total = 0
            for item in side:
                total += int(item)
            seen.setdefault((loop.epoch, loop.batch), []).append(total)


SCRIPTS = [kept, anew_each_epoch, zipped, repeated, cycled, first_of_all, validated]
Script = Callable[[Loop, Any, Seen], None]


def alone(script: Script, side: Any) -> dict[tuple[int, int], Any]:
    """Return what batches find if nothing watches."""
    seen: Seen = {}
    loop = Loop()
    loader_watch.watch(None)
    script(loop, side, seen)
    assert len(seen) == EPOCHS * BATCHES
    return {key: items[0] for key, items in seen.items()}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(
    "make",
    [loader, shuffled, lambda: DataLoader(Stream(), batch_size=None), lambda: StatefulDataLoader(range(7))],
    ids=["plain", "shuffled", "stream", "stateful"],
)
def test_every_pass_of_a_batch_finds_what_it_would_find_alone(script: Script, make: Callable[[], Any]) -> None:
    seen: Seen = {}
    script(Loop(passes=3), make(), seen)
    if script in (first_of_all, validated):
        assert [items[-1] for items in seen.values()] == pytest.approx([items[0] for items in seen.values()])
    else:
        assert seen == {key: [item] * 3 for key, item in alone(script, make()).items()}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("stop", [(0, 0), (0, 1), (0, 3), (1, 0), (1, 2), (2, 0), (2, 2), (2, 3)])
@pytest.mark.parametrize("make", [loader, shuffled], ids=["plain", "shuffled"])
def test_a_newcomer_goes_on_where_the_others_are(
    make: Callable[[], Any], script: Script, passes: int, stop: tuple[int, int]
) -> None:
    if make is shuffled and script in (first_of_all, validated):
        passes = 1  # iterators that do not outlive a pass draw in each
    seen: Seen = {}
    first = Loop(passes, stop)
    with pytest.raises(Stopped):
        script(first, make(), seen)
    second = Loop(passes, begin=stop)
    second.sides.load(first.state)
    script(second, make(), seen)
    assert seen == {key: [item] * passes for key, item in alone(script, make()).items()}


def test_a_third_process_goes_on_for_a_newcomer_that_has_not_asked_yet() -> None:
    seen: Seen = {}
    first = Loop(stop=(1, 2))
    with pytest.raises(Stopped):
        kept(first, loader(), seen)
    second = Loop(begin=(1, 2), stop=(1, 2))
    second.sides.load(first.state)
    with pytest.raises(Stopped):
        kept(second, loader(), seen)
    third = Loop(begin=(1, 2))
    third.sides.load(second.state)
    kept(third, loader(), seen)
    assert seen == {key: [item] for key, item in alone(kept, loader()).items()}


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("script", [kept, anew_each_epoch, repeated])
def test_loaders_with_workers_are_no_others(script: Script, persistent: bool) -> None:
    def make() -> DataLoader[Any]:
        generator = torch.Generator().manual_seed(3)
        return loader(shuffle=True, generator=generator, num_workers=1, persistent_workers=persistent)

    seen: Seen = {}
    first = Loop(2, stop=(2, 1))
    with pytest.raises(Stopped):
        script(first, make(), seen)
    second = Loop(2, begin=(2, 1))
    second.sides.load(first.state)
    script(second, make(), seen)
    assert seen == {key: [item] * 2 for key, item in alone(script, make()).items()}


# --- batches that are done again ------------------------------------------------------------------------------


def test_a_batch_that_is_done_again_finds_the_same_and_so_does_a_newcomer_that_joins_before() -> None:
    loop, side = Loop(passes=2), loader()
    loop.in_loop = True
    more = iter(side)
    parts = loop.give()
    next(parts)
    assert int(next(more)) == 0
    loop.in_iteration = False  # the backward broke
    (state,) = loop.sides.capture()["now"] or [{"taken": 0}]
    assert state["taken"] == 0, "what was taken for a batch that is done again does not count"
    assert [int(next(more)) for _ in loop.give()] == [0, 0]
    loop.batch += 1
    assert [int(next(more)) for _ in loop.give()] == [1, 1]


def test_all_batches_of_a_step_are_done_again() -> None:
    loop, more = Loop(), iter(loader())

    def given(batch: int, begins: bool) -> int:
        loop.batch = batch
        loop.sides.open(begins)
        loop.sides.begin_part()
        loop.in_iteration = True
        item = int(next(more))
        loop.in_iteration = False
        return item

    assert [given(0, True), given(1, True), given(2, False)] == [0, 1, 2]
    assert [given(1, True), given(2, False), given(3, True)] == [1, 2, 3]


def test_whoever_was_behind_takes_over_without_losing_its_place() -> None:
    """It had taken for the batch that broke what the others were done with."""
    side = loader()
    loop, more = Loop(), iter(side)
    parts = loop.give()
    next(parts)
    taken = int(next(more))
    loop.in_iteration = False
    state = {"now": [], "loop": []}
    state["now"] = [loop.sides._used[0].state(0) | {"taken": 1}]
    loop.batch = 1
    loop.sides.load(state)
    assert taken == 0
    assert [int(next(more)) for _ in loop.give()] == [1]


# --- what is left alone, and what is refused --------------------------------------------------------------------


def test_a_validation_in_the_loop_keeps_nothing_and_is_noticed_where_one_pass_alone_makes_it() -> None:
    loop, side = Loop(passes=2), loader()
    for _ in loop.batches(2):
        assert not loop.sides.looked_aside
        if not loop.partial:
            for _ in side:
                pass
            assert loop.sides.looked_aside
    assert not any(side.made for side in loop.sides._used)


def test_nothing_is_kept_of_iterators_outside_of_the_loops_body() -> None:
    loop, side = Loop(), loader()
    assert [int(item) for item in side] == list(range(7))
    for _ in loop.epochs():
        list(loop.batches())
        assert [int(item) for item in side] == list(range(7))
    assert loop.sides.capture() == {"now": [], "loop": []}
    assert not loop.counted


def test_a_loop_with_a_second_loader_counts_its_batches() -> None:
    loop = Loop()
    kept(loop, loader(), {})
    assert loop.counted


def test_zip_with_the_prepared_loader_last_is_refused_in_one_sentence() -> None:
    loop = Loop()

    def train() -> None:
        for _ in loop.epochs():
            for _ in zip(loader(), loop.batches(), strict=False):
                pass

    with pytest.raises(RuntimeError, match=LEADS[:40]):
        train()


def test_a_function_that_validates_and_trains_is_not_taken_for_a_zip() -> None:
    loop = Loop()

    def run(items: Any) -> None:
        for _ in items:
            if not loop.in_iteration:
                break

    for _ in loop.epochs():
        run(loader())
        run(loop.batches())
    assert loop.epoch == EPOCHS


@pytest.mark.parametrize(
    ("made", "state", "expected"),
    [
        ({}, {"taken": 5}, 5),
        ({}, {"taken": None}, 0),
        ({"in_part": True}, {"taken": 5}, 0),
        ({"in_part": True}, {"taken": 5, "lasting": True}, 5),
        ({"epoch": 2, "number": 0}, {"taken": 5, "of_epoch": [3]}, 3),
        ({"epoch": 2, "number": 0}, {"taken": 5, "of_epoch": [None]}, 5),
        ({"epoch": 2, "number": 1}, {"taken": 5, "of_epoch": [3]}, 0),
        ({"epoch": 3, "number": 0}, {"taken": 5, "of_epoch": [3]}, 0),
        ({"epoch": 1, "number": 0}, {"taken": 5, "of_epoch": [3]}, 5),
    ],
)
def test_an_iterator_stands_for_the_one_that_the_others_made_in_its_place(
    made: dict[str, Any], state: dict[str, Any], expected: int
) -> None:
    taken = Taken(Side(), iter, **made)
    assert passed_by(taken, {"lasting": False, "epoch": 2, "of_epoch": [], **state}) == expected
