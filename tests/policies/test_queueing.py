"""Jobs of a fixed size are served from the front of an order: who starts, who waits, who is stopped."""

from __future__ import annotations

import pytest
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.policies.contract.round import JobView, Round
from coadapt.policies.fifo import FifoPolicy
from coadapt.policies.las import LasOptions, LasPolicy
from coadapt.policies.queueing import QueueingPolicy
from coadapt.policies.sjf import SjfPolicy
from coadapt.policies.srtf import SrtfPolicy

from tests.support.rounds import cluster, held, left, on, rigid

POLICIES: tuple[QueueingPolicy, ...] = (FifoPolicy(), SjfPolicy(), SrtfPolicy(), LasPolicy())


def plan(policy: QueueingPolicy, where: str, *jobs: JobView) -> dict[str, str]:
    """Return job id -> what it gets."""
    return held(policy.plan(Round(1000.0, 60.0, cluster(where), jobs)))


def served(policy: QueueingPolicy, *jobs: JobView) -> list[str]:
    """Return the ids of jobs in the order in which the policy serves them."""
    order = policy.plan(Round(1000.0, 60.0, cluster("1x t4:1"), jobs)).order
    assert order is not None
    return [jobs[i].id for i in order]


def why(policy: QueueingPolicy, id: str, where: str, *jobs: JobView) -> WaitReason:
    decision = policy.plan(Round(1000.0, 60.0, cluster(where), jobs)).decision(id)
    assert isinstance(decision, Waiting)
    return decision.reason


# --- the orders ------------------------------------------------------------------------------------------------

OLD_LONG = rigid("old-long", submitted_s=1.0, expected=left(900.0), attained_gpu_s=18_000.0)
MIDDLE = rigid("middle", submitted_s=2.0, expected=left(500.0), attained_gpu_s=17_999.0)
NEW_SHORT = rigid("new-short", submitted_s=3.0, expected=left(100.0), attained_gpu_s=0.0)
NOT_KNOWN = rigid("unknown", submitted_s=0.0, attained_gpu_s=90_000.0)


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (FifoPolicy(), ["unknown", "old-long", "middle", "new-short"]),
        (SjfPolicy(), ["new-short", "middle", "old-long", "unknown"]),
        (SrtfPolicy(), ["new-short", "middle", "old-long", "unknown"]),
        (LasPolicy(), ["middle", "new-short", "unknown", "old-long"]),
        (LasPolicy(LasOptions(thresholds_gpu_s=())), ["new-short", "middle", "old-long", "unknown"]),
    ],
    ids=["fifo", "sjf", "srtf", "las", "las without levels"],
)
def test_jobs_are_served_in_the_order_of_the_policy(policy: QueueingPolicy, order: list[str]) -> None:
    assert served(policy, OLD_LONG, MIDDLE, NEW_SHORT, NOT_KNOWN) == order


def test_of_equal_jobs_the_first_submitted_is_first_and_then_the_first_of_the_trace() -> None:
    jobs = [rigid("c", submitted_s=5.0), rigid("b", submitted_s=1.0), rigid("a", submitted_s=1.0)]
    for policy in POLICIES:
        assert served(policy, *jobs) == ["b", "a", "c"]


@pytest.mark.parametrize("thresholds", [(0.0,), (5.0, 5.0), (5.0, 1.0), (-1.0,), (float("nan"),)])
def test_levels_that_do_not_rise_are_refused(thresholds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="thresholds must be above 0 and rise"):
        LasOptions(thresholds_gpu_s=thresholds)


# --- without preemption ------------------------------------------------------------------------------------------


def test_a_job_at_the_front_that_finds_no_room_holds_up_those_behind_it() -> None:
    runs = rigid("runs", 3, placement=on("t4", n0=3))
    wide, narrow = rigid("wide", 2, submitted_s=1.0), rigid("narrow", 1, submitted_s=2.0)
    assert plan(FifoPolicy(), "1x t4:4", runs, wide, narrow) == {"runs": "3xt4"}
    assert why(FifoPolicy(), "wide", "1x t4:4", runs, wide, narrow) is WaitReason.NO_ROOM
    assert why(FifoPolicy(), "narrow", "1x t4:4", runs, wide, narrow) is WaitReason.BEHIND_OTHERS


def test_nothing_that_runs_is_stopped_for_a_job_before_it() -> None:
    runs = rigid("runs", 4, placement=on("t4", n0=4), expected=left(900.0))
    short = rigid("short", 4, expected=left(1.0))
    assert plan(SjfPolicy(), "1x t4:4", runs, short) == {"runs": "4xt4"}
    assert plan(SrtfPolicy(), "1x t4:4", runs, short) == {"short": "4xt4"}


IMPOSSIBLE = {
    "it asks for more than there is": rigid("never", 9),
    "it asks for more than there is of one type": rigid("never", 5),
    "its user wants a type that there is not": rigid("never", gpu_types=["h100"]),
    "no node has so many CPUs": rigid("never", cpus_per_gpu=100),
}


@pytest.mark.parametrize("impossible", IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
@pytest.mark.parametrize(
    "policy", [FifoPolicy(), SjfPolicy(), SrtfPolicy(), LasPolicy()], ids=lambda policy: type(policy).__name__
)
def test_a_job_that_the_empty_cluster_could_not_run_holds_up_nobody(
    policy: QueueingPolicy, impossible: JobView
) -> None:
    jobs = [impossible, *(rigid(id, 4, submitted_s=1.0) for id in "ab")]
    assert sorted(plan(policy, "1x t4:4, 1x v100:4", *jobs)) == ["a", "b"]
    assert why(policy, "never", "1x t4:4, 1x v100:4", *jobs) is not WaitReason.BEHIND_OTHERS


# --- with preemption -----------------------------------------------------------------------------------------


def test_a_job_that_does_not_fit_is_passed_over() -> None:
    jobs = [rigid(id, gpus, submitted_s=at) for at, (id, gpus) in enumerate([("a", 3), ("b", 2), ("c", 1)])]
    assert plan(LasPolicy(), "1x t4:4", *jobs) == {"a": "3xt4", "c": "1xt4"}


def test_a_job_that_runs_on_keeps_its_placement_and_one_whose_node_is_gone_is_placed_anew() -> None:
    stays, lost = rigid("stays", 2, placement=on("t4", n1=2)), rigid("lost", 2, placement=on("t4", n7=2))
    found = LasPolicy().plan(Round(0.0, 60.0, cluster("2x t4:2"), [stays, lost]))
    assert found.placements["stays"] is stays.placement
    assert found.placements["lost"].by_node == {"t4-000": 2}


def test_a_job_that_may_not_be_stopped_comes_before_those_the_order_prefers() -> None:
    kept = rigid("kept", 3, placement=on("t4", n0=3), preemptible=False, attained_gpu_s=1e9)
    new = rigid("new", 2)
    assert plan(LasPolicy(), "1x t4:4", new, kept) == {"kept": "3xt4"}
    assert plan(LasPolicy(), "1x t4:2", new, kept) == {"new": "2xt4"}, "its node is no longer as it was"


def test_a_job_waits_where_its_gpus_are_free_but_apart() -> None:
    runs = [rigid(f"r{n}", 3, placement=on("t4", **{f"n{n}": 3})) for n in (0, 1)]
    jobs = [*runs, rigid("pair", 2, submitted_s=1.0)]
    assert plan(LasPolicy(), "2x t4:4", *jobs) == {"r0": "3xt4", "r1": "3xt4"}
    assert why(LasPolicy(), "pair", "2x t4:4", *jobs) is WaitReason.FRAGMENTED
