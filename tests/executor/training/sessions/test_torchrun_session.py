"""Under torchrun the script's own processes are one group for good, and train its own global batch together."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.sessions.torchrun_session import CHANGED_BY_ITSELF, TorchrunSession

from tests.support.ranks import on_ranks
from tests.support.sessions import Script, weight_alone


def session(script: Script, group: Group) -> TorchrunSession:
    """Return the session of a process of one machine."""
    os.environ.update(LOCAL_RANK=str(group.rank), LOCAL_WORLD_SIZE=str(group.world_size))
    return TorchrunSession(script.prepared)


def test_all_begin_with_the_weights_and_the_seed_of_rank_0_and_draw_numbers_of_their_own() -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        with torch.no_grad():
            script.model.weight.fill_(float(group.rank + 1))
        torch.manual_seed(group.rank)
        found = session(script, group)
        return [script.weight, found.script_seed, found.rank, found.world_size, torch.rand(1).item()]

    first, second = on_ranks(2, act)
    assert first[:2] == second[:2]
    assert (first[0], first[2:4], second[2:4]) == (1.0, [0, 2], [1, 2])
    assert first[4] != second[4]


def test_the_scripts_batch_is_divided_and_the_model_is_that_of_one_process() -> None:
    def act(group: Group) -> list[Any]:
        script = Script(samples=15, batch=5)
        found = session(script, group)
        script.train_all(found.epochs(1))
        return [found.plan, script.seen, script.weight]

    first, second = on_ranks(2, act)
    assert first[0] == BatchPlan(3, 0, 5)
    assert sorted([*first[1][0], *second[1][0]]) == [0, 1, 2, 3, 4]
    assert first[2] == second[2] == pytest.approx(weight_alone(Script(samples=15, batch=5), 1))


def test_a_script_that_changes_its_model_by_its_own_part_alone_is_told_after_its_first_loop() -> None:
    def act(group: Group) -> str:
        script = Script()
        found = session(script, group)
        try:
            for _ in found.epochs(1):
                for batch in script.loader:
                    with torch.no_grad():
                        script.model.weight += batch[0].mean()
        except RuntimeError as error:
            return str(error)
        return ""

    assert on_ranks(2, act) == [CHANGED_BY_ITSELF] * 2


def test_a_group_that_has_lost_a_process_is_told_at_the_next_batch() -> None:
    def act(group: Group) -> str:
        script = Script()
        found = session(script, group)
        assert found.group is not None
        found.group.broken = True
        try:
            script.train_all(found.epochs(1))
        except RuntimeError as error:
            return str(error)
        return ""

    assert on_ranks(2, act) == ["a process of this torchrun group is gone"] * 2
