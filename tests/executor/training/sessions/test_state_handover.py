"""A new group goes on from its most advanced member, else from the newest checkpoint, else from replica 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from coadapt.executor.protocol.messages import Join
from coadapt.executor.training.collective.group import Group, GroupBroken
from coadapt.executor.training.sessions.catching_up import Unfit

from tests.support.ranks import on_ranks
from tests.support.sessions import Managed, Script


def here(group: Group, managed: Managed) -> Join:
    """Put a session into the group; return the command that it would have had."""
    managed.session.peers.group = group
    managed.session.gradients.attach(group)
    return Join(1, group.rank, group.world_size, 1, group.rank, group.world_size, "", 0)


def advance(managed: Managed, batches: int) -> None:
    """Let a session be one that has trained so many batches."""
    session = managed.session
    session.handover.live, session.handover.replicas_before = True, 1
    session.position.batch = session.position.iterations = session.position.steps = batches
    session.position.offset = session.position.samples = 4 * batches
    with torch.no_grad():
        managed.script.model.weight.fill_(float(batches))


@pytest.mark.parametrize("batches", [(0, 2), (2, 1), (3, 3)], ids=["a newcomer as 0", "one behind", "alike"])
def test_all_go_on_from_the_one_that_is_furthest(batches: tuple[int, int]) -> None:
    def act(group: Group) -> list[Any]:
        managed = Managed(Script())
        if batches[group.rank]:
            advance(managed, batches[group.rank])
        source = managed.session.handover.take_over(group, here(group, managed))
        return [source, managed.session.position.batch, managed.session.position.samples, managed.script.weight]

    most = max(batches)
    assert on_ranks(2, act) == [["peer", most, 4 * most, float(most)]] * 2


def test_where_nobody_has_trained_all_begin_as_replica_0() -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        with torch.no_grad():
            script.model.weight.fill_(float(group.rank + 1))
        managed = Managed(script)
        return [managed.session.handover.take_over(group, here(group, managed)), script.weight]

    assert on_ranks(2, act) == [["fresh", 1.0]] * 2


def test_where_nobody_has_trained_all_go_on_from_the_newest_checkpoint(tmp_path: Path) -> None:
    def save(group: Group) -> str | None:
        managed = Managed(Script(), tmp_path)
        advance(managed, 2)
        return managed.session.checkpoints.save()

    def act(group: Group) -> list[Any]:
        managed = Managed(Script(), tmp_path if group.rank == 0 else None)  # only replica 0 reads it
        source = managed.session.handover.take_over(group, here(group, managed))
        return [source, managed.session.position.batch, managed.script.weight]

    on_ranks(1, save)
    assert on_ranks(2, act) == [["checkpoint", 2, 2.0]] * 2


def test_a_newcomer_whose_script_has_become_another_one_is_unfit_and_the_others_are_told() -> None:
    def act(group: Group) -> str:
        script = Script()
        if group.rank == 1:
            script.prepared.companions.append(torch.nn.Linear(1, 1))
        managed = Managed(script)
        if group.rank == 0:
            advance(managed, 2)
        try:
            managed.session.handover.take_over(group, here(group, managed))
        except Unfit as error:
            return str(error)
        except GroupBroken:
            return "broken"
        return ""

    told = on_ranks(2, act)
    assert told[0] == "broken"
    assert told[1].startswith("the job cannot grow: holds 0 companions, the script prepares 1")


def test_what_one_has_found_out_about_the_script_all_know() -> None:
    def act(group: Group) -> bool:
        managed = Managed(Script())
        managed.session.one_pass = group.rank == 1
        managed.session.handover.take_over(group, here(group, managed))
        return managed.session.one_pass

    assert on_ranks(2, act) == [True, True]
