"""A loop over the data goes on from where the training is, in whatever process, and ends where the data does."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.data.loop_habits import AheadWatch
from coadapt.executor.training.sessions.batch_loop import LEFT_BETWEEN, LEFT_UNDONE

from tests.support.ranks import on_ranks
from tests.support.sessions import Script, session_of


def test_a_look_at_the_data_before_training_gives_batches_as_they_are() -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        session = session_of(script, BatchPlan(2, 1, 4))
        looked = [batch[0].flatten().tolist() for batch in script.loader]
        return [looked, len(script.loader), session.position.samples]

    assert on_ranks(1, act)[0] == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]], 3, 0]


def test_an_iterator_that_was_begun_before_training_is_refused_in_it() -> None:
    def act(group: Group) -> str:
        script = Script()
        session = session_of(script)
        batches = iter(script.loader)
        next(batches)
        for _ in session.epochs(1):
            with pytest.raises(RuntimeError) as raised:
                next(batches)
            return str(raised.value)
        return ""

    assert on_ranks(1, act)[0] == AheadWatch.SENTENCE


@pytest.mark.parametrize(("drop_last", "count"), [(False, 4), (True, 3)])
def test_a_loop_is_as_long_as_alone_whatever_its_batches_are_cut_into(drop_last: bool, count: int) -> None:
    def act(group: Group) -> list[int]:
        script = Script(samples=14, drop_last=drop_last)
        session = session_of(script, BatchPlan(1, 1, 4), group)
        numbers = []
        for _ in session.epochs(1):
            for number, batch in enumerate(script.loader):
                script.train(batch)
                numbers.append(int(number))
        return [len(script.loader), max(numbers) + 1]

    assert on_ranks(2, act) == [[count, count]] * 2


def test_a_process_that_comes_into_a_pass_takes_no_loop_that_the_others_had_and_the_rest_of_theirs() -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        session = session_of(script)
        at = session.position
        at.loop, at.batch, at.offset, at.begun = 1, 1, 4, True
        loops = []
        for _ in session.epochs(1):
            for _ in range(2):
                loops.append([batch[0].flatten().int().tolist() for batch in script.loader])
        return loops

    first, second = on_ranks(1, act)[0]
    assert first == []
    assert second == [[4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize(
    ("undone", "plan", "sentence"),
    [(False, BatchPlan(2, 1, 4), LEFT_BETWEEN), (True, None, LEFT_UNDONE)],
    ids=["between two passes", "after a batch to be done again"],
)
def test_a_loop_that_is_left_where_a_batch_is_half_done_is_told_so(
    undone: bool, plan: BatchPlan | None, sentence: str
) -> None:
    def act(group: Group) -> tuple[str, bool]:
        script = Script()
        session = session_of(script, plan)
        try:
            for _ in session.epochs(1):
                for batch in script.loader:
                    script.take(batch).backward()
                    if undone:
                        session.gradients.undo()
                    script.optimizer.step()
                    break
        except RuntimeError as error:
            return str(error), session.one_pass
        return "", False

    told, one_pass = on_ranks(1, act)[0]
    assert told == sentence
    assert one_pass is not undone, "a process that starts again gives such batches in one pass"


class Shuffled:
    """A sampler whose first order is another one than all later ones."""

    def __init__(self) -> None:
        self._orders = itertools.chain([[3, 2, 1, 0, 4, 5, 6, 7]], itertools.repeat(list(range(8))))

    def __iter__(self) -> Iterator[int]:
        return iter(next(self._orders))

    def __len__(self) -> int:
        return 8


def test_an_epoch_whose_order_is_another_one_after_a_restart_begins_anew(
    capfd: pytest.CaptureFixture[str],
) -> None:
    sampler = Shuffled()

    def act(group: Group) -> list[list[int]]:
        first = Script(samples=8, sampler=sampler)
        session = session_of(first)
        for _ in session.epochs(1):
            for batch in first.loader:
                first.train(batch)
                state = session.state.capture()
                break
            break
        second = Script(samples=8, sampler=sampler)
        session = session_of(second)
        session.state.apply(state | {"position": state["position"] | {"batch": 1, "offset": 4}}, 0)
        second.train_all(session.epochs(1))
        return second.seen

    assert on_ranks(1, act)[0] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert "coadapt: Shuffled gives another order of samples after a restart than before" in capfd.readouterr().err
