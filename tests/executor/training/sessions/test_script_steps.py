"""A loop in steps counts the script's own steps, and does one again as a whole where it was undone."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.training.collective.group import Group

from tests.support.ranks import on_ranks
from tests.support.sessions import Script, session_of


@pytest.mark.parametrize("plan", [None, BatchPlan(2, 1, 4)], ids=["one pass", "two passes"])
def test_steps_are_the_scripts_own_whatever_the_passes_of_a_batch(plan: BatchPlan | None) -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        session = session_of(script, plan)
        numbers = []
        for step, batch in zip(session.steps(3), script.loader, strict=False):
            numbers.append(int(step))
            script.train(batch)
        at = session.position
        return [sorted(set(numbers)), at.script_steps, at.steps, at.samples]

    assert on_ranks(1, act)[0] == [[0, 1, 2], 3.0, 3, 12]


def test_a_step_that_was_undone_is_done_again_from_its_first_batch() -> None:
    def act(group: Group) -> list[Any]:
        script = Script(samples=24)
        session = session_of(script)
        batches = endless(script)
        numbers: list[int] = []
        undone = False
        for step in session.steps(2):
            numbers.append(int(step))
            script.optimizer.zero_grad()
            for _ in range(2):
                script.take(next(batches)).backward()
                if not undone:
                    undone = True
                    session.gradients.give_up()
            script.optimizer.step()
        at = session.position
        return [script.seen, numbers, at.script_steps, at.steps, at.samples, session.samples.local]

    seen, numbers, script_steps, steps, samples, local = on_ranks(1, act)[0]
    assert (numbers, script_steps, steps, samples, local) == ([0, 0, 1], 2.0, 2, 16, 16)
    assert seen[-4:] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]


def endless(script: Script) -> Any:
    while True:
        yield from script.loader
