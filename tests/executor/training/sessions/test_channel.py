"""Commands wait for the next control point, the newest of each kind; only an abort acts at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.protocol.messages import Abort, Heartbeat, Join, Leave, Save, SetBatch, Stop

from tests.support.channels import WAIT_S, Executor


def join(generation: int) -> Join:
    return Join(generation, 0, 1, 1, 0, 1, "", 0)


@pytest.fixture
def executor() -> Iterator[Executor]:
    orphaned = threading.Event()
    found = Executor(on_orphaned=orphaned.set)
    yield found
    found.connection.close()
    assert orphaned.wait(WAIT_S)


def test_the_newest_command_of_a_kind_counts_and_is_taken_once(executor: Executor) -> None:
    channel = executor.send(SetBatch(BatchPlan(8)), Save(), SetBatch(BatchPlan(16)))
    assert channel.waiting
    assert channel.take(SetBatch) == SetBatch(BatchPlan(16))
    assert channel.take(SetBatch) is None
    assert channel.take(Save) == Save()
    assert not channel.waiting


def test_commands_that_are_out_of_date_can_be_dropped(executor: Executor) -> None:
    channel = executor.send(SetBatch(BatchPlan(8)), Save())
    channel.discard(SetBatch, Save, Stop)
    assert not channel.waiting


def test_the_newest_group_counts_also_where_commands_overtake_each_other(executor: Executor) -> None:
    channel = executor.send(join(3), join(2))
    assert channel.membership(after=1) == join(3)
    assert channel.waiting, "it is looked at, not taken"
    assert channel.membership(after=3) is None
    assert not channel.waiting


def test_a_group_that_was_changed_into_one_to_leave_is_left(executor: Executor) -> None:
    assert executor.send(join(3), Leave(3)).membership(after=2) == Leave(3)


def test_an_abort_acts_at_once_and_covers_earlier_groups(executor: Executor) -> None:
    aborts: list[int] = []
    executor.channel.on_abort = aborts.append
    channel = executor.send(Abort(4), Abort(2))
    assert aborts[:2] == [4, 2]
    assert [channel.aborted(generation) for generation in (3, 4, 5)] == [True, True, False]
    assert not channel.waiting


def test_who_waits_for_a_group_is_told_of_it_or_else_to_stop(executor: Executor) -> None:
    assert executor.send(Stop(save=True), join(2)).wait_for_membership(after=1) == join(2)
    assert executor.channel.wait_for_membership(after=2) == Stop(save=True)
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(executor.channel.wait_for_membership(after=2)))
    waiting.start()
    executor.send(join(2), join(3))
    waiting.join(WAIT_S)
    assert found == [join(3)]


def test_events_arrive_in_order(executor: Executor) -> None:
    for steps in (1, 2):
        executor.channel.send(Heartbeat(1, steps))
    assert executor.heard(Heartbeat) == [Heartbeat(1, 1), Heartbeat(1, 2)]


def test_a_process_whose_worker_is_gone_ends_itself() -> None:
    orphaned = threading.Event()
    Executor(on_orphaned=orphaned.set).connection.close()
    assert orphaned.wait(WAIT_S)
