"""The parts of a batch are all of it, over passes and replicas; what went wrong in one is not swallowed."""

from __future__ import annotations

from itertools import chain

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.training.collective.group import Group

from tests.support.ranks import on_ranks
from tests.support.sessions import Script, session_of


@pytest.mark.parametrize(
    ("replicas", "plan"), [(1, BatchPlan(2, 1, 4)), (2, BatchPlan(2)), (2, BatchPlan(1, 1, 4))]
)
def test_each_batch_is_given_in_parts_that_make_it_up(replicas: int, plan: BatchPlan) -> None:
    def act(group: Group) -> list[list[int]]:
        script = Script()
        script.train_all(session_of(script, plan, group).epochs(1))
        return script.seen

    seen = on_ranks(replicas, act)
    passes = len(seen[0]) // 3
    for batch in range(3):
        parts = [part for mine in seen for part in mine[batch * passes : (batch + 1) * passes]]
        assert sorted(chain(*parts)) == list(range(4 * batch, 4 * batch + 4))


def test_replicas_that_compute_whole_batches_take_turns_in_counting_them() -> None:
    def act(group: Group) -> list[int]:
        script = Script(samples=16)
        session = session_of(script, BatchPlan(2), group)
        session.gradients.weights.whole = True
        script.train_all(session.epochs(1))
        return [len(script.seen), session.samples.local]

    assert on_ranks(2, act) == [[4, 8], [4, 8]], "each has seen all four batches, and two of them count as its own"


def test_an_error_in_the_end_of_a_loop_that_python_closes_is_raised_at_the_scripts_next_call() -> None:
    def act(group: Group) -> list[str]:
        script = Script()
        session = session_of(script, BatchPlan(2, 1, 4))
        told = []
        try:
            for _ in session.epochs(2):
                for batch in script.loader:
                    script.take(batch).backward()
                    break  # in the midst of a batch of two passes
        except RuntimeError as error:
            told.append(str(error))
        session.raise_failure()  # it was raised, once
        return told

    (told,) = on_ranks(1, act)[0]
    assert told.startswith("the loop was left in the midst of a batch that takes several passes")


def test_a_script_that_takes_its_batch_apart_does_so_in_a_container_of_its_own() -> None:
    def act(group: Group) -> list[int]:
        script = Script()
        session = session_of(script)
        undone = False
        lengths = []
        for _ in session.epochs(1):
            for batch in script.loader:
                lengths.append(len(batch))
                script.optimizer.zero_grad()
                script.model(batch.pop()).mean().backward()
                if not undone:
                    undone = True
                    session.gradients.undo()
                script.optimizer.step()
        return lengths

    assert on_ranks(1, act)[0] == [1, 1, 1, 1]
