"""A job that is cancelled saves first, and one that does not get on with it ends all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.core.errors import JobStateError
from coadapt.core.job import JobSpec

from tests.support.cycles import RUNS, World

STORIES = {
    "it saves and leaves before it ends": """
        cancel a saving
        ? sent assign a nothing
        ? a running
        go
        ? a running
        left a 40
        go
        ? a cancelled
        ? a because cancelled by the user; it saved at step 40
        ? a said training left 2xt4: cancelled by the user; it saved at step 40
        ? a said cancelled by the user: it saves and then ends
        go
        ? a retired
    """,
    "it gets no GPUs while it leaves, and others do": """
        cancel a saving
        submit b unprofiled
        wish b t4-000:2
        left a
        go
        ? a cancelled
        ? sent assign a nothing | retire a | assign b 2xt4
    """,
    "a second one without saving hurries it": """
        cancel a saving
        cancel a saving
        ? sent assign a nothing
        cancel a
        ? a cancelled
        ? a because cancelled by the user, without waiting for it to save
        ? sent cancel a
    """,
    "its time to save is bounded": """
        cancel a saving
        go
        after 30
        go
        ? a running
        after 31
        go
        ? a cancelled
        ? a because cancelled by the user; it had not left its GPUs after 60 s
        ? sent assign a nothing | cancel a
    """,
    "it ends when its executor is lost meanwhile": """
        cancel a saving
        executorlost a
        go
        ? a cancelled
        ? a because cancelled by the user
    """,
    "it ends when its node is lost meanwhile": """
        cancel a saving
        nodes 1x a100:4
        go
        ? a cancelled
    """,
    "it saves on over a restart of the service": """
        cancel a saving
        reopen a=0
        ? sent assign a nothing | assign a nothing | assign a 2xt4
        go
        left a 7
        go
        ? a cancelled
        ? a because cancelled by the user; it saved at step 7
    """,
    "what ends by itself meanwhile has succeeded": """
        cancel a saving
        finish a
        ? a succeeded
    """,
    "an error as it leaves does not make it a failed one": """
        cancel a saving
        fail a
        ? a cancelled
        ? a because cancelled by the user; as it left, its script failed: ValueError: no
    """,
    "it goes on from its checkpoint when it is requeued": """
        cancel a saving
        left a 40
        go
        requeue a
        go
        ? sent assign a nothing | retire a | assign a 2xt4
        runs a
        ? a running
    """,
    "it may be resumed before it has left": """
        cancel a saving
        resume a
        ? a submitted
        go
        left a 40
        go
        ? sent assign a nothing | retire a | assign a 2xt4
        runs a
        ? a running
    """,
    "it may be resumed with another file before it has left": """
        cancel a saving
        change a other.py
        left a 40
        go
        ? a script other.py
    """,
    "one that waits has nothing to save": """
        submit b unprofiled
        go
        cancel b saving
        ? b cancelled
        ? b because cancelled by the user
    """,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_cancel(story: str, tmp_path: Path) -> None:
    world = World(tmp_path, "2x t4:4, 1x a100:4")
    world.play(RUNS)
    world.executors.sent.clear()
    world.play(story)
    world.store.close()


def test_a_job_that_is_being_cancelled_cannot_be_paused(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "cancel a saving")
    with pytest.raises(JobStateError, match="a-1 is being cancelled, so it cannot be paused"):
        world.tell("pause", ["a"])
    world.store.close()


def test_a_program_gets_the_grace_that_its_file_gives_it(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    spec = JobSpec.model_validate({"name": "a", "command": ["sh", "x.sh"], "elastic": False, "grace_s": 300})
    world.ids["a"] = world.cycle.orders.submit(spec, idempotency_key="a").id
    world.play("wish a t4-000:1\ngo\nruns a\ncancel a saving")
    world.play("? a said cancelled by the user: its program is told to stop, then it ends")
    world.play("after 300\ngo\n? a running\nafter 20\ngo\n? a cancelled")
    world.store.close()
