"""A process joins the newest group that its executor names, gives up those that will not form, and leaves once."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.protocol.messages import Abort, Broken, Joined, Leave, Ready, Stop
from coadapt.executor.training.collective.group import Group
from coadapt.executor.training.sessions.membership import Leaving
from torch.distributed import PrefixStore

from tests.support.ranks import on_ranks
from tests.support.sessions import Managed, Script


def test_a_group_that_was_given_up_is_answered_and_the_next_one_is_joined() -> None:
    def act(group: Group) -> list[Any]:
        managed = Managed(Script())
        managed.send(managed.join(1, alone=False), Abort(1), managed.join(2))
        managed.session.start()
        return [managed.heard(Ready)[0].initial_batch_size, *managed.heard(Broken), *managed.heard(Joined)]

    size, joined = on_ranks(1, act)[0]
    assert (size, joined) == (4, Joined(2, 0, "fresh")), "the older one was never begun"


def test_a_group_that_is_given_up_while_it_forms_is_told_and_the_next_one_is_joined() -> None:
    def act(group: Group) -> list[Any]:
        managed = Managed(Script())
        managed.send(managed.join(1, alone=False))

        def give_up() -> None:
            PrefixStore("g1/", managed.store).wait(["here/0"])  # it has come, and waits for the other one
            managed.send(Abort(1), managed.join(2))

        giving_up = threading.Thread(target=give_up)
        giving_up.start()
        managed.session.start()
        giving_up.join()
        return [*managed.heard(Broken), *managed.heard(Joined)]

    assert on_ranks(1, act)[0] == [Broken(1, 0), Joined(2, 0, "fresh")]


def test_a_broken_group_is_told_once_and_training_goes_on_in_the_next_with_the_same_batch() -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        managed = Managed(script).started()
        session = managed.session
        for _ in session.epochs(1):
            for number, batch in enumerate(script.loader):
                script.train(batch)
                if number == 0 and session.membership.generation == 1:
                    managed.send(Abort(1), managed.join(2))
        return [script.seen, managed.heard(Broken), [event.generation for event in managed.heard(Joined)]]

    seen, broken, generations = on_ranks(1, act)[0]
    assert seen == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert (broken, generations) == ([Broken(1, 1)], [1, 2])


@pytest.mark.parametrize("command", [Stop(), Leave(1)])
def test_a_process_that_never_trained_leaves_without_a_checkpoint(command: Any, tmp_path: Path) -> None:
    def act(group: Group) -> list[Any]:
        managed = Managed(Script(), tmp_path / "checkpoints")
        managed.send(command)
        try:
            managed.session.start()
        except Leaving as leaving:
            return [leaving.saved, managed.session.leaving is leaving, managed.heard(Joined)]
        return []

    assert on_ranks(1, act)[0] == [None, True, []]
    assert not (tmp_path / "checkpoints").exists()


def test_a_script_that_caught_its_leaving_leaves_at_its_next_call() -> None:
    def act(group: Group) -> list[Any]:
        script = Script()
        managed = Managed(script).started()
        caught = []
        for _ in managed.session.epochs(2):
            try:
                for batch in script.loader:
                    script.train(batch)
                    managed.send(Stop(save=False))
                    managed.session.control.come_soon()
            except BaseException as error:
                caught.append(error)
                break
        try:
            managed.session.combine(1.0, "mean")
            list(script.loader)
            managed.session.membership.recover()
        except Leaving as leaving:
            caught.append(leaving)
        return [len(caught), caught[0] is caught[-1], managed.heard(Broken)]

    assert on_ranks(1, act)[0] == [2, True, []]


@pytest.mark.parametrize(
    ("replicas", "limit", "plan"),
    [
        (1, None, BatchPlan(32, 0, 32)),
        (4, None, BatchPlan(8, 0, 32)),
        (3, None, BatchPlan(11, 0, 32)),
        (1, 8, BatchPlan(8, 3, 32)),
        (2, 5, BatchPlan(4, 3, 32)),
    ],
)
def test_without_a_plan_replicas_divide_the_scripts_batch_in_as_few_passes_as_their_limit_allows(
    replicas: int, limit: int | None, plan: BatchPlan
) -> None:
    def act(group: Group) -> BatchPlan:
        managed = Managed(Script(samples=64, batch=32), max_local_batch_size=limit)
        return managed.session.membership._default_plan(replicas)

    assert on_ranks(1, act)[0] == plan
