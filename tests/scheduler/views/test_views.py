"""What a user is shown of a job: its row, its details, and the code of why it waits, whatever policy runs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli import main
from coadapt.core.cluster import Cluster, Node
from coadapt.core.decisions import Placed, Refused, Waiting, WaitReason
from coadapt.core.events import EventKind
from coadapt.core.job import Phase
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.schemas import JobRow
from coadapt.core.settings import Settings
from coadapt.executor.protocol.job_events import JobFailed, Reported
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.lazy import LazyMapping
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.per_pool import PerPool
from coadapt.scheduler.changes.reactions import claim, end, react
from coadapt.scheduler.jobs.record import JobRecord, ProfileRun
from coadapt.scheduler.nodes.node_view import NodesSnapshot
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.views.cluster_views import cluster_view
from coadapt.scheduler.views.explaining import explain, explanation_outside_round, why_not_in_round
from coadapt.scheduler.views.job_views import job_details, job_row
from coadapt.scheduler.views.waiting import wait_reason

from tests.support.cycles import World
from tests.support.listed import Listed
from tests.support.records import REPORT, A, B, job, running


def rows_of(world: World) -> dict[str, JobRow]:
    """Return the rows of all jobs by name, as the service answers `list`."""
    last, nodes = world.cycle.last_round, world.nodes.snapshot.cluster
    return {
        row["name"]: row for row in (job_row(j, wait_reason(j, last, nodes), nodes) for j in world.store.every())
    }


def codes(world: World) -> dict[str, str | None]:
    return {name: row["wait_reason"] for name, row in rows_of(world).items()}


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fifo", {"a": None, "large": "too_large", "b": "no_room"}),
        ("las", {"a": None, "large": "too_large", "b": "behind_others"}),
        ("sia", {"a": None, "large": "too_large", "b": "outbid"}),
    ],
)
def test_a_job_that_the_last_round_left_out_has_the_code_that_explain_gives(
    tmp_path: Path, policy: str, expected: dict[str, str | None]
) -> None:
    chooses = PerPool(partial(make_policy, policy))
    world = World(tmp_path, "1x t4:2", planner=chooses)
    world.play(
        """
        submit a rigid=2 unprofiled kept
        go
        runs a
        submit large rigid=4 unprofiled
        submit b rigid=2 unprofiled
        go 70
        """
    )
    assert codes(world) == expected
    done = world.cycle.last_round
    assert done is not None
    for name, code in expected.items():
        assert chooses.explain(world.ids[name], done.round, done.plan).to_dict()["reason"] == code


def test_a_job_outside_the_round_has_a_code_too_and_one_that_has_gpus_or_has_ended_none(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2")
    world.play("submit new unprofiled")
    assert codes(world) == {"new": "next_round"}
    world.play(
        """
        submit measured
        submit elsewhere types=h100
        wish new t4-000:1
        go
        """
    )
    assert codes(world) == {"new": None, "measured": "measuring", "elsewhere": "no_gpu_type"}
    assert rows_of(world)["new"]["status"] == "starting"
    world.play("runs new\nfinish new")
    assert codes(world)["new"] is None
    for name in ("measured", "elsewhere"):
        outside = explanation_outside_round(world.job(name), world.nodes.snapshot.cluster)
        assert outside["reason"] == codes(world)[name]


def test_a_job_that_lost_its_gpus_since_the_last_round_waits_for_the_next(tmp_path: Path) -> None:
    world = World(tmp_path, "2x t4:2")
    world.play("submit a unprofiled\nwish a t4-000:2\ngo\nruns a\nnodes 1x a100:2\nstep")
    assert world.job("a").target == ()
    assert codes(world) == {"a": "next_round"}


class Choosy:
    """Refuses one job, fails to say why another waits, and says it of the third."""

    def plan(self, round: Round) -> Plan:
        ids: list[str] = round.columns.ids.tolist()

        def decision(at: int) -> Placed | Waiting | Refused:
            if ids[at].startswith("odd"):
                return Refused("No number of GPUs suits it.")
            if ids[at].startswith("mute"):
                raise RuntimeError("no idea")
            return Waiting(WaitReason.HAD_ITS_TURN, "It rests.")

        return Plan({}, decisions=LazyMapping(ids, decision))


def test_a_policy_that_refuses_or_fails_to_say_why_hides_no_job(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2", planner=Choosy())
    world.play("submit odd unprofiled\nsubmit mute unprofiled\nsubmit plain unprofiled\ngo")
    assert codes(world) == {"odd": "no_configuration", "mute": "not_said", "plain": "had_its_turn"}


def test_the_command_prints_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(tmp_path, "1x t4:2")
    world.play("submit a types=h100\ngo")

    class Client(Listed):
        def list(self) -> list[JobRow]:
            return list(rows_of(world).values())

    monkeypatch.setattr(main, "_connect", Client)
    assert main.run(["list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["wait_reason"] == "no_gpu_type"
    job = world.job("a")
    assert job_details(job, [], waits=WaitReason.NO_GPU_TYPE)["wait_reason"] == "no_gpu_type"


# --- rows, details and sentences ---------------------------------------------------------------------------

ON_T4 = Placement("t4", (NodeShare("n1", 1),))


def test_a_failed_job_shows_its_traceback() -> None:
    failed = react(running(A), JobFailed("ValueError: no", "Traceback …", 4), 4.0).job
    details = job_details(failed, [])
    assert details["phase"] == "failed"
    assert details["reason"] == "ValueError: no"
    assert details["traceback"] == "Traceback …"
    assert details["failures"] == 4


def test_the_row_shows_what_the_last_report_said() -> None:
    row = job_row(react(running(A, B), Reported(REPORT, None), 3.0).job)
    assert (row["gpu_type"], row["gpus"], row["batch_size"], row["lr"], row["epoch"]) == ("t4", 2, 64, 0.1, 2)
    assert row["emulated"]


def test_a_job_whose_workers_start_does_not_wait_for_gpus() -> None:
    assert job_row(claim(job(), (A, B), 1.0).job)["reason"] == "starts on 2xt4"


def test_an_ended_job_is_explained_by_its_end() -> None:
    ended = react(running(A), JobFailed("ValueError: no", "", 4), 3.0).job
    assert (
        why_not_in_round(ended, Cluster(()))
        == "j-1 has failed: ValueError: no; `coadapt describe j-1` tells what it had"
    )
    ended = end(running(A), Phase.CANCELLED, "cancelled by the user", 3.0).job
    assert why_not_in_round(ended, Cluster(())).startswith("j-1 was cancelled by the user; ")


def test_a_job_outside_the_round_is_told_in_the_words_of_list() -> None:
    cluster = Cluster((Node("n1", "t4", 4),))
    waits = job()
    assert why_not_in_round(waits, cluster) == "j-1 is waiting: it takes part in the next round"
    of_pool = replace(waits, spec=waits.spec.model_copy(update={"pool": "lab"}))
    assert why_not_in_round(of_pool, cluster) == "j-1 is waiting for pool lab, which has no nodes now"
    measured = replace(waits, state=replace(waits.state, phase=Phase.PROFILING), profiles=(ProfileRun("t4"),))
    assert why_not_in_round(measured, cluster) == "j-1 is waiting: to be measured on t4"


def test_a_job_outside_the_round_has_a_code_for_what_it_does() -> None:
    cluster = Cluster((Node("n1", "t4", 4),))

    def code(job: JobRecord, nodes: Cluster = cluster) -> tuple[str, str | None]:
        found = explanation_outside_round(job, nodes)
        return found["decision"], found["reason"]

    waits = job()
    profiled = replace(waits, state=replace(waits.state, phase=Phase.PROFILING))
    queued = replace(waits, state=replace(waits.state, phase=Phase.QUEUED))
    assert code(profiled) == ("waiting", "measuring")
    assert code(profiled, Cluster(())) == ("waiting", "no_gpu_type")
    assert code(queued) == ("waiting", "next_round")
    assert code(queued, Cluster(())) == ("waiting", "no_gpu_type")
    of_pool = replace(queued, spec=queued.spec.model_copy(update={"pool": "research"}))
    assert code(of_pool) == ("waiting", "pool_empty")
    only_pools = Cluster((Node("n1", "t4", 4, pool="research"),))
    assert code(queued, only_pools) == ("waiting", "pool_empty")
    assert code(claim(job(), (A, B), 1.0).job) == ("placed", None)
    assert code(end(running(A), Phase.CANCELLED, "cancelled by the user", 3.0).job) == ("ended", "cancelled")


@pytest.mark.parametrize(
    ("plan", "gap"),
    [
        (None, None),
        (Plan({}, gap=0.0), None),  # of nothing
        (Plan({"j-1": ON_T4}, gap=7.3e-5), 7.3e-5),
        (Plan({"j-1": ON_T4}, gap=math.inf), None),  # POP's
        (Plan({"j-1": ON_T4}), None),  # a policy without a bound
    ],
)
def test_the_cluster_shows_how_far_the_last_plan_may_be_from_the_best(
    plan: Plan | None, gap: float | None
) -> None:
    assert cluster_view(NodesSnapshot(), [], Settings(), 3, plan)["gap"] == gap


def test_the_cluster_shows_that_the_first_round_waits_for_the_solver() -> None:
    (note,) = cluster_view(NodesSnapshot(), [], Settings(), 0, None, compiling=True)["notes"]
    assert note.startswith("compiling the solver's kernels, once per install")
    assert note.endswith("; the first round waits for it")
    assert cluster_view(NodesSnapshot(), [], Settings(), 0, None)["notes"] == []


def test_the_cluster_shows_that_the_last_round_has_no_plan() -> None:
    (note,) = cluster_view(NodesSnapshot(), [], Settings(), 3, None, unplanned="the policy did not plan")["notes"]
    assert note == "the policy did not plan; jobs keep what they have"


def test_the_cluster_shows_what_happened_to_no_job() -> None:
    event = Event(EventKind.ERROR, 7.0, None, {"text": "the policy did not plan round 3: no"})
    (told,) = cluster_view(NodesSnapshot(), [], Settings(), 3, None, events=[event])["events"]
    assert told == {"time_s": 7.0, "kind": "error", "text": "the policy did not plan round 3: no"}


def told(world: World, name: str) -> dict[str, Any]:
    """What the service answers to `explain`."""
    assert isinstance(world.planner, PerPool)
    return explain(world.job(name), world.cycle.last_round, world.planner, world.nodes.snapshot.cluster)


def test_a_job_that_has_ended_since_the_last_round_is_explained_by_its_end(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2", planner=PerPool(partial(make_policy, "fifo")))
    world.play("submit a unprofiled\ngo\nruns a")
    assert told(world, "a")["decision"] == "placed"
    world.play("finish a")
    assert (told(world, "a")["decision"], told(world, "a")["reason"]) == ("ended", "succeeded")


def test_a_job_whose_gpu_types_have_left_says_what_it_waits_for(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2, 1x a100:1", planner=PerPool(partial(make_policy, "fifo")))
    world.play("submit q types=t4 unprofiled\nsubmit p types=t4\ngo\nruns q\nnodes 1x a100:1\ngo")
    for name in ("q", "p"):
        found = told(world, name)
        assert (found["decision"], found["reason"]) == ("waiting", "no_gpu_type")
        why = "waiting for GPU type t4; the cluster has a100"
        assert found["lines"] == [f"{name}-{world.job(name).number} is {why}"]
        assert (rows_of(world)[name]["reason"], rows_of(world)[name]["wait_reason"]) == (why, "no_gpu_type")


def test_a_job_that_has_given_up_gpus_since_the_last_round_is_not_said_to_have_them(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2", planner=PerPool(partial(make_policy, "sia")))
    world.play("submit a unprofiled rigid=2\ngo")
    before = told(world, "a")["lines"]
    world.play("gaveup a 1")
    line = "It has 1xt4 of these GPUs now: the others are not free yet, or it gave them up since."
    assert told(world, "a")["lines"] == [*before, line]


def test_an_explanation_says_that_it_is_of_a_round_before_the_policy_failed(tmp_path: Path) -> None:
    policy = PerPool(partial(make_policy, "fifo"))
    world = World(tmp_path, "1x t4:2", planner=policy)
    world.play("submit a unprofiled\ngo")
    cluster, last = world.nodes.snapshot.cluster, world.cycle.last_round
    assert last is not None
    before = told(world, "a")["lines"]
    why = "the policy did not plan round 2: RuntimeError: lost"
    found = explain(world.job("a"), last, policy, cluster, why)
    assert found["lines"] == [*before, f"This is of round 1. Since then {why}; jobs keep what they have."]
    others = replace(last, plan=replace(last.plan, failures={"lab": ValueError("lost")}))
    assert explain(world.job("a"), others, policy, cluster, why)["lines"] == before


def test_an_explanation_says_that_the_policy_failed_for_the_job_s_pool_in_that_very_round(tmp_path: Path) -> None:
    policy = PerPool(partial(make_policy, "fifo"))
    world = World(tmp_path, "1x t4:2", planner=policy)
    world.play("submit a unprofiled\ngo")
    before, last = told(world, "a")["lines"], world.cycle.last_round
    assert last is not None
    failed = replace(last, plan=replace(last.plan, failures={"": RuntimeError("lost")}))
    why = "the policy did not plan what belongs to no pool: RuntimeError: lost"
    found = explain(world.job("a"), failed, policy, world.nodes.snapshot.cluster, why)
    assert found["lines"] == [*before, f"In this round {why}; jobs keep what they have."]


def test_a_job_that_waits_for_kernels_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, "1x t4:2")
    world.play("submit a unprofiled")
    job, cluster = world.job("a"), world.nodes.snapshot.cluster
    assert wait_reason(job, None, cluster, compiling=True) is WaitReason.COMPILING
    found = explain(job, None, world.planner, cluster, compiling=True)
    assert (found["decision"], found["reason"]) == ("waiting", "compiling")
    assert found["lines"] == [f"{job.id} is waiting: {WaitReason.COMPILING.line}"]
    assert wait_reason(job, None, cluster) is WaitReason.NEXT_ROUND
