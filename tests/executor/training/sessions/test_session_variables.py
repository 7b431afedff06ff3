"""The script's variables end up as if each batch had been given once, and travel with what they belong to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.variables import script_state

from tests.support.ranks import on_ranks
from tests.support.sessions import Managed, Script


@pytest.mark.parametrize("plan", [None, BatchPlan(2, 1, 4)], ids=["one pass", "two passes"])
def test_counts_sums_and_statistics_are_those_of_whole_batches(plan: BatchPlan | None) -> None:
    def act(group: Group) -> list[Any]:
        script = Script(samples=16)
        managed = Managed(script).started(plan)
        batches, total, samples, history = 0, 0.0, 0, []
        for _ in managed.session.epochs(2):
            for batch in script.loader:
                script.train(batch)
                batches += 1
                total += float(batch[0].sum())
                samples += len(batch[0])
            history.append(batches)
        return [batches, total, samples, history]

    assert on_ranks(1, act)[0] == [8, 240.0, 32, [4, 8]]


def test_sums_of_a_second_loop_over_the_data_are_found_out_as_those_of_the_first() -> None:
    def act(group: Group) -> list[Any]:
        script = Script(samples=64)
        managed = Managed(script).started(BatchPlan(2, 1, 4))
        for _ in managed.session.epochs(1):
            for batch in script.loader:
                script.train(batch)
            total, samples = 0.0, 0
            for batch in script.loader:
                script.train(batch)
                total += float(batch[0].sum())
                samples += len(batch[0])
        return [total, samples]

    assert on_ranks(1, act)[0] == [2016.0, 64]


def test_a_batch_that_is_done_again_counts_once_for_the_script_too() -> None:
    def act(group: Group) -> list[Any]:
        script = Script(samples=16)
        managed = Managed(script).started(BatchPlan(2, 1, 4))
        batches, means = 0, []
        for _ in managed.session.epochs(1):
            for batch in script.loader:
                script.optimizer.zero_grad()
                script.take(batch).backward()
                if not managed.session.loop.redos:
                    managed.session.gradients.undo()
                script.optimizer.step()
                batches += 1
                means.append(float(batch[0].mean()))
        return [managed.session.loop.redos, batches, means]

    assert on_ranks(1, act)[0] == [1, 4, [1.5, 5.5, 9.5, 13.5]]


def test_gradients_that_the_script_has_not_stepped_by_travel_and_others_do_not() -> None:
    def act(group: Group) -> list[Any]:
        first, second = Managed(Script()).started(), Managed(Script())
        variables, step = first.session.variables, first.session.step
        first.script.model.weight.grad = torch.full((1, 1), 3.0)
        found = [variables.accumulated()]
        step.unstepped = True
        second.session.variables.load_accumulated(variables.accumulated())
        return [*found, second.session.variables.accumulated()[0].item(), second.session.step.unstepped]

    assert on_ranks(1, act)[0] == [{}, 3.0, True]


def test_what_is_too_large_to_travel_is_named_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script_state, "MOST_BYTES", 1000)

    def act(group: Group) -> bool:
        script = Script()
        managed = Managed(script).started()
        table = None
        for _ in managed.session.epochs(1):
            for batch in script.loader:
                script.train(batch)
                table = np.zeros(1000)
                for _ in range(2):
                    managed.session.state.capture()
        return table is not None

    assert on_ranks(1, act)[0]
    assert capfd.readouterr().err.count("table of the script is too large to be kept in checkpoints") == 1


def test_a_number_that_all_replicas_have_combined_is_no_count_of_one_alone() -> None:
    def act(group: Group) -> list[bool]:
        script = Script(samples=16)
        managed = Managed(script).started(BatchPlan(2, 1, 4))
        hits = 0
        for _ in managed.session.epochs(1):
            for batch in script.loader:
                script.train(batch)
                hits += len(batch[0])
            variables = managed.session.variables
            before = variables.counts_samples(hits)
            variables.note_combined(hits)
            after = variables.counts_samples(hits)
        return [before, after]

    assert on_ranks(1, act)[0] == [True, False]
