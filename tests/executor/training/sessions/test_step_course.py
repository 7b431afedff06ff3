"""A step counts each batch once, however many passes it takes, and leaves no trace where it is undone."""

from __future__ import annotations

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.sessions.step_course import CANNOT_DO_AGAIN

from tests.support.ranks import on_ranks
from tests.support.sessions import Script, session_of, weight_alone


@pytest.mark.parametrize(
    ("plan", "parts"),
    [(BatchPlan(4), 3), (BatchPlan(2, 1, 4), 6), (BatchPlan(1, 3, 4), 12)],
    ids=["one pass", "two passes", "four passes"],
)
def test_the_position_moves_by_whole_batches_whatever_their_passes(plan: BatchPlan, parts: int) -> None:
    def act(group: Group) -> tuple[int, list[float], float]:
        script = Script()
        session = session_of(script, plan)
        script.train_all(session.epochs(2))
        at = session.position
        counted = [at.iterations, at.steps, at.samples, at.progress_samples, at.epochs_done]
        return len(script.seen), counted, script.weight

    given, counted, weight = on_ranks(1, act)[0]
    assert (given, counted) == (2 * parts, [6, 6, 24, 24.0, 2.0])
    assert weight == pytest.approx(weight_alone(Script(), 2))


def test_several_batches_that_make_one_step_count_as_one_optimizer_step() -> None:
    def act(group: Group) -> list[float]:
        script = Script(samples=16)
        session = session_of(script, BatchPlan(8, 0, 8))
        script.train_all(session.epochs(1))
        at = session.position
        return [len(script.seen), at.iterations, at.steps, at.samples]

    # Without an estimate of the noise a step of 8 samples makes the progress of one of 4: an epoch is two passes.
    assert on_ranks(1, act)[0] == [8, 4, 4, 32]


def test_a_batch_that_is_undone_is_given_again_and_counts_once() -> None:
    def act(group: Group) -> tuple[list[list[int]], list[int]]:
        script = Script()
        session = session_of(script)
        undone = False
        for _ in session.epochs(1):
            for batch in script.loader:
                script.optimizer.zero_grad()
                script.take(batch).backward()
                if not undone:
                    undone = True
                    session.gradients.undo()
                script.optimizer.step()
        at, counts = session.position, session.samples
        return script.seen, [at.iterations, at.steps, at.samples, counts.local, session.loop.redos]

    seen, counted = on_ranks(1, act)[0]
    assert seen == [[0, 1, 2, 3], [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert counted == [3, 3, 12, 12, 1]


def test_a_loop_that_takes_its_batches_by_next_is_told_that_none_can_be_done_again() -> None:
    def act(group: Group) -> str:
        script = Script()
        session = session_of(script)
        for _ in session.epochs(1):
            batches = iter(script.loader)
            script.take(next(batches)).backward()
            session.gradients.undo()
            try:
                next(batches)
            except RuntimeError as error:
                return str(error)
        return ""

    assert on_ranks(1, act)[0] == CANNOT_DO_AGAIN


def test_a_loop_that_is_left_in_the_midst_of_a_merged_step_makes_the_step_of_what_there_is() -> None:
    def act(group: Group) -> tuple[list[float], float]:
        script = Script(samples=16)
        session = session_of(script, BatchPlan(8, 0, 8))
        for _ in session.epochs(1):
            for number, batch in enumerate(script.loader):
                script.train(batch)
                if number == 2:
                    break
            break
        at = session.position
        return [at.iterations, at.steps, at.samples, at.loop, at.batch], script.weight

    def plain(group: Group) -> float:
        script = Script()
        for samples in (slice(0, 8), slice(8, 12)):
            script.train([script.loader.dataset.tensors[0][samples]])
        return script.weight

    counted, weight = on_ranks(1, act)[0]
    assert counted == [2, 2, 12, 1, 0]
    assert weight == pytest.approx(on_ranks(1, plain)[0])
