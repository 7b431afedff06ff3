"""A process that comes in brings its script to where the others are, and trains nothing on the way."""

from __future__ import annotations

from typing import Any

import torch
from coadapt.executor.training.collective.group import Group

from tests.support.ranks import on_ranks
from tests.support.sessions import Managed, Script


def state_after(batches: int) -> dict[str, Any]:
    """Return the state of a process that is so many batches into its first epoch."""

    def act(group: Group) -> dict[str, Any]:
        script = Script()
        managed = Managed(script).started()
        for _ in managed.session.epochs(2):
            for batch in script.loader:
                script.train(batch)
                if len(script.seen) == batches + 1:  # the last one is still in hand
                    return managed.session.state.capture()
        return {}

    return on_ranks(1, act)[0]


def test_what_a_script_does_to_its_model_before_its_loop_is_put_right() -> None:
    state = state_after(1)

    def act(group: Group) -> list[Any]:
        script = Script()
        managed = Managed(script).started()
        managed.session.catching_up.take_over(state, 0)
        taken = script.weight
        with torch.no_grad():
            script.model.weight.fill_(9.0)  # as weights that a script loads itself
        for _ in managed.session.epochs(2):
            for batch in script.loader:
                there = script.weight
                script.train(batch)
                break
            break
        return [taken == there, there != 1.0, script.seen]

    assert on_ranks(1, act)[0] == [True, True, [[4, 5, 6, 7]]]


def test_a_loop_that_counts_its_calls_of_next_runs_through_what_the_others_had_for_nothing() -> None:
    state = state_after(2)

    def act(group: Group) -> list[Any]:
        script = Script()
        managed = Managed(script).started()
        managed.session.catching_up.take_over(state, 0)
        weights, counted = [], 0
        for _ in managed.session.epochs(1):
            batches = iter(script.loader)
            for _ in range(len(script.loader)):
                batch = next(batches)
                weights.append(script.weight)
                script.train(batch)
                counted += 1
        return [script.seen, len(set(weights)), counted, managed.session.position.samples]

    seen, weights, counted, samples = on_ranks(1, act)[0]
    assert seen == [[8, 9, 10, 11]] * 3, "the same batch, twice for nothing"
    assert (weights, counted, samples) == (1, 3, 12)
