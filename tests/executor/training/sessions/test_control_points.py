"""Between two batches all ranks do what rank 0 decides: what is most urgent first, and each command once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.protocol.messages import Joined, Leave, Save, Saved, SetBatch, Stop
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.sessions.control_points import CONTROL_INTERVAL_S, MOST_STEPS, Act, ControlWord
from coadapt.executor.training.sessions.membership import Leaving

from tests.support.ranks import on_ranks
from tests.support.sessions import Managed, Script


def decided(managed: Managed) -> list[Act]:
    """Return what rank 0 decides, until nothing waits."""
    control, group = managed.session.control, managed.session.group
    assert group is not None
    return [Act(control._decide(group).act) for _ in range(5)]


def test_a_new_group_goes_before_the_end_and_that_before_batches_and_checkpoints() -> None:
    def act(group: Group) -> list[Act]:
        managed = Managed(Script()).started()
        managed.send(Save(), SetBatch(BatchPlan(8)), Stop(), managed.join(2))
        first = decided(managed)[0]
        managed.channel._membership = None
        return [first, *decided(managed)]

    assert on_ranks(1, act)[0] == [
        Act.REGROUP,
        Act.STOP,
        Act.SET_BATCH,
        Act.SAVE,
        Act.GO_ON,
        Act.GO_ON,
    ]


def test_commands_that_wait_are_asked_for_again_at_once_and_else_after_some_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def act(group: Group) -> list[Any]:
        managed = Managed(Script()).started()
        control, mine = managed.session.control, managed.session.group
        assert mine is not None
        managed.send(Save(), SetBatch(BatchPlan(8)))
        at_once = control._decide(mine).following
        control._decide(mine)
        distances = []
        for step_s in (1e-9, CONTROL_INTERVAL_S / 10, 10.0):
            monkeypatch.setattr(managed.session.gradients.timer, "last_step_s", lambda step_s=step_s: step_s)
            distances.append(control._decide(mine).following)
        return [at_once, *distances]

    assert on_ranks(1, act)[0] == [0, MOST_STEPS, 10, 1]


def test_another_batch_plan_is_in_force_at_the_next_batch_and_the_same_one_changes_nothing() -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        managed = Managed(script).started()
        session, plan = managed.session, BatchPlan(2, 1, 4)
        found = []
        for _ in session.epochs(1):
            for number, batch in enumerate(script.loader):
                script.train(batch)
                if number == 0 and not found:
                    found.append(len(script.seen))
                    managed.send(SetBatch(plan))
                    session.control.come_soon()
        managed.send(SetBatch(plan))
        return [script.seen, session.plan == plan, session.control._act(session.control._agree(session.group))]

    seen, in_force, changed = on_ranks(1, act)[0]
    assert seen == [[0, 1, 2, 3], [4, 6], [5, 7], [8, 10], [9, 11]]
    assert (in_force, changed) == (True, False)


def test_a_job_is_saved_on_command_and_stops_with_its_newest_state_kept(tmp_path: Path) -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        managed = Managed(script, tmp_path / "checkpoints", checkpoint={"at_epoch_end": False}).started()
        session = managed.session
        left = None
        try:
            for _ in session.epochs(5):
                for batch in script.loader:
                    script.train(batch)
                    managed.send(Save() if session.position.steps < 2 else Stop())
                    session.control.come_soon()
        except Leaving as leaving:
            left = leaving.saved
        saved = managed.heard(Saved)
        return [[event.steps for event in saved], left == saved[-1].path, session.leaving is not None]

    assert on_ranks(1, act)[0] == [[1, 2, 3], True, True]


def test_what_was_meant_for_rank_0_is_not_done_by_the_one_that_becomes_it_later() -> None:
    def act(group: Group) -> tuple[bool, bool]:
        managed = Managed(Script())
        managed.session.peers.group = group
        managed.send(Save(), SetBatch(BatchPlan(8)))
        managed.session.control._agree(group)
        waits = managed.channel.take(Save) is not None, managed.channel.take(SetBatch) is not None
        return waits

    assert on_ranks(2, act) == [(True, False), (False, False)], "rank 0 has taken the batch plan first"


def test_a_word_carries_a_whole_plan() -> None:
    assert ControlWord(local_bsz=4, accumulation=2, batch_size=24).plan == BatchPlan(4, 2, 24)
    assert ControlWord(local_bsz=4, accumulation=2).plan == BatchPlan(4, 2, None)


def test_a_group_of_one_that_is_told_to_leave_leaves_at_its_next_batch() -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        managed = Managed(script).started()
        try:
            for _ in managed.session.epochs(5):
                for batch in script.loader:
                    script.train(batch)
                    managed.send(Leave(2))
                    managed.session.control.come_soon()
        except Leaving:
            return [managed.session.position.steps, managed.session.group, len(managed.heard(Joined))]
        return []

    assert on_ranks(1, act)[0] == [1, None, 1]
