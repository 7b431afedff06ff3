"""A job that holds nothing gives up its executor and loses nothing; no executor stays on a node that goes away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec, Phase
from coadapt.core.settings import Settings
from coadapt.estimators.measurements import Measurements
from coadapt.executor.protocol.job_events import AtRest, Released, Running, Standing
from coadapt.scheduler.changes.commands import RetireExecutor
from coadapt.scheduler.changes.reactions import react
from coadapt.scheduler.changes.rest import leave_node, may_have_executor, rest, with_rest
from coadapt.scheduler.executors.executor_homes import home_of
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.nodes.node_view import NodesSnapshot

from tests.support.cycles import RUNS, World
from tests.support.records import SPEC, A, B, job, running
from tests.support.stored_rows import read_back

SETTINGS = Settings(executor_idle_s=30.0)
NODES = NodesSnapshot()


def test_a_job_that_is_evicted_keeps_its_executor_for_a_while_and_no_longer(tmp_path: Path) -> None:
    World(tmp_path, "1x t4:4").play(
        RUNS
        + """
        wish a
        go
        ? sent assign a nothing
        left a
        ? a queued
        after 20
        go
        ? sent
        after 10
        go
        ? sent retire a
        after 1000
        go
        ? sent
        wish a t4-000:2
        go
        ? sent assign a 2xt4
        runs a
        ? a running
        """
    )


@pytest.mark.parametrize("verb", ["pause a", "requeue a"])
def test_a_job_that_is_held_has_no_executor_either(verb: str, tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + f"wish a\n{verb}\ngo")
    world.executors.sent.clear()
    world.play("left a\nafter 31\ngo\n? sent retire a")


def test_a_job_that_was_measured_and_waits_has_none(tmp_path: Path) -> None:
    World(tmp_path, "1x t4:4").play(
        "submit a types=t4\ngo\n? sent profile a t4\nmeasured a t4\n? a profiling\ngo\n? a queued"
        "\nafter 31\ngo\n? sent retire a"
    )


def test_a_job_that_gets_gpus_in_time_keeps_its_executor(tmp_path: Path) -> None:
    World(tmp_path, "1x t4:4").play(
        RUNS + "wish a\ngo\nleft a\nwish a t4-000:1\ngo\nruns a\nafter 100\ngo\n? sent assign a nothing | "
        "assign a 1xt4"
    )


def test_after_a_restart_of_the_service_only_jobs_that_may_have_executors_are_asked(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:4")
    world.play(RUNS + "submit b unprofiled\nwish a\ngo\nleft a\nafter 31\ngo")
    world.executors.sent.clear()
    world.executors.left_over = set(world.ids.values())
    world.play("reopen\n? sent retire a | retire b")


def test_what_the_executor_knew_goes_to_the_next_one() -> None:
    before = replace(running(A, B), target=(), held=(), group=())
    kept = {"budget": {"failures": 2}, "paused_s": 4.0}
    after = react(before, AtRest(kept, Measurements()), 9.0).job
    assert after.kept == kept
    idle = replace(after, idle_since_s=3.0, executor_node="n9")
    stored = read_back(idle)
    assert (stored.kept, stored.idle_since_s, stored.executor_node) == (kept, 3.0, "n9")
    assert after.begun_again().kept == {}, "a new life counts its errors from 0"


def test_groups_of_the_next_executor_count_from_one_again() -> None:
    idle = replace(job(Phase.QUEUED, generation=7), idle_since_s=1.0)
    rested = rest(idle, NODES, SETTINGS, 40.0)
    assert rested.commands == (RetireExecutor(),)
    given = replace(rested.job, sequence=3, target=(A,), held=(A,))
    told = Running(3, (A,), warm=False, pause_s=5.0, generation=1)
    assert react(given, told, 50.0).job.state.restarts == 1, "the pause is counted"


def test_a_job_is_idle_from_when_it_gave_up_its_last_slot() -> None:
    has = running(A)
    left = react(replace(has, target=()), Released(has.sequence, (A,)), 5.0).job
    idle = with_rest(has, left, 5.0)
    assert idle.idle_since_s == 5.0
    assert with_rest(idle, replace(idle, pauses=9), 7.0).idle_since_s == 5.0
    assert with_rest(idle, replace(idle, held=(A,)), 8.0).idle_since_s is None
    assert with_rest(job(), job(pauses=2), 9.0).idle_since_s is None, "a job that never had one"
    assert [may_have_executor(one) for one in (has, idle, job(), job(Phase.FAILED))] == [True, True, False, True]


# --- nodes that go away -------------------------------------------------------------------------------------


def drained(*nodes: str) -> NodesSnapshot:
    return NodesSnapshot(draining=frozenset(nodes))


def test_a_job_whose_executors_node_goes_away_saves_leaves_and_gets_another_executor() -> None:
    has = react(running(A), Standing("n9"), 3.0).job
    assert leave_node(has, drained("n8"), 4.0).job is has
    leaving = leave_node(has, drained("n9"), 4.0)
    assert leaving.job.target == ()
    assert [type(command).__name__ for command in leaving.commands] == ["LeaveGpus"]
    assert rest(leaving.job, drained("n9"), SETTINGS, 5.0).job is leaving.job, "it still holds its GPUs"
    gone = react(leaving.job, Released(leaving.job.sequence, (A,)), 6.0).job
    retired = rest(gone, drained("n9"), SETTINGS, 6.0)
    assert (retired.job.executor_node, retired.round) == ("", True)
    assert retired.commands == (RetireExecutor(),)


def test_a_program_that_may_not_start_again_is_not_stopped_for_its_executor() -> None:
    spec = JobSpec.model_validate({"name": "j", "command": ["make"], "elastic": False})
    has = replace(running(A), spec=spec, executor_node="n9")
    assert leave_node(has, drained("n9"), 4.0).job is has


# --- where executors stand ----------------------------------------------------------------------------------


def four_nodes() -> NodesSnapshot:
    """Return three nodes with room for two executors each, and the head's own."""
    nodes = tuple(Node(name, "t4", 4, memory_gib=2.5) for name in ("n1", "n2", "n3", "head"))
    return NodesSnapshot(Cluster(nodes), homes=frozenset({"head"}))


def on(*nodes: str) -> list[JobRecord]:
    return [job(id=f"other-{number}", executor_node=node) for number, node in enumerate(nodes)]


def test_an_executor_stands_on_a_node_of_its_job_the_one_with_fewest() -> None:
    assert home_of(job(), (B,), four_nodes(), on("n2")) == "n2"
    assert home_of(job(), (A, B), four_nodes(), on("n1")) == "n2"


def test_it_stands_elsewhere_where_its_own_nodes_have_no_room_but_not_on_the_head() -> None:
    assert home_of(job(), (A,), four_nodes(), on("n1", "n1", "n2")) == "n3"


def test_where_no_node_has_room_it_stands_on_the_head() -> None:
    assert home_of(job(), (A,), four_nodes(), on("n1", "n2", "n3") * 2) is None


def test_a_program_that_may_not_start_again_depends_on_no_node_that_it_is_not_on() -> None:
    spec = JobSpec.model_validate({"name": "j", "command": ["make"], "elastic": False})
    assert home_of(job(spec=spec), (A,), four_nodes(), []) == "n1"
    assert home_of(job(spec=spec), (A,), four_nodes(), on("n1", "n1")) is None


def test_with_one_machine_alone_executors_stand_on_the_head() -> None:
    nodes = NodesSnapshot(Cluster((Node("head", "t4", 4, memory_gib=64.0),)), homes=frozenset({"head"}))
    assert home_of(job(spec=SPEC), (A,), nodes, []) is None
