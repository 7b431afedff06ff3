"""A process that comes in brings its script to where the others are, and trains nothing on the way."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.executor.protocol.messages import Save, Stop
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.sessions.membership import Leaving

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


class Ended(Exception):
    """Ends a script in the midst of a batch, as the end of its process does."""


def run(checkpoints: Path, command: str = "", until: int = 99) -> list[Any]:
    """Run a script from its newest checkpoint on, to its end or until its n-th batch; return its variables.

    `command`: what it is told before its loop. It is told to save before its last batch.
    """

    def act(group: Group) -> list[Any]:
        random.seed(1)
        script = Script(samples=16)
        managed = Managed(script, checkpoints, checkpoint={"at_epoch_end": False}).started()
        commands = {"save": Save(), "stop": Stop(), "regroup": managed.join(2)}
        managed.send(*([commands[command]] if command else []))
        seen, sums, drawn = 0, [], []
        with suppress(Ended, Leaving):
            for _ in managed.session.epochs(2):
                random.random()
                total = 0.0
                for batch in script.loader:
                    script.train(batch)
                    total += float(batch[0].sum())
                    drawn.append(random.random())
                    seen += 1
                    if seen == until:
                        raise Ended
                    if seen == until - 1:
                        managed.send(Save())
                        managed.session.control.come_soon()
                sums.append(total)
        return [seen, sums, drawn, script.weight]

    return on_ranks(1, act)[0]


@pytest.mark.parametrize("command", ["save", "stop", "regroup"])
def test_a_job_that_is_told_to_do_something_before_it_has_caught_up_goes_on_as_it_was(
    command: str, tmp_path: Path
) -> None:
    run(tmp_path / "job", until=3)
    run(tmp_path / "job", command, until=4 if command == "regroup" else 3)
    assert run(tmp_path / "job") == run(tmp_path / "plain")


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
