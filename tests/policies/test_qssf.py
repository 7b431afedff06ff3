"""`qssf` serves the least expected GPU-time first, strictly as published or with backfill."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.decisions import Waiting, WaitReason
from coadapt.policies.backfilling import Backfill
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.qssf import QssfOptions, QssfPolicy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

from tests.support.rounds import cluster, held, left, on, rigid

STRICT, FILL, RESERVE = (QssfPolicy(QssfOptions(backfill=how, patience_h=24.0)) for how in Backfill)


def plan(policy: QssfPolicy, where: str, *jobs: JobView, now: float = 1000.0) -> Plan:
    return policy.plan(Round(now, 60.0, cluster(where), jobs))


def waits(given: Plan, job: str) -> WaitReason:
    decision = given.decision(job)
    assert isinstance(decision, Waiting)
    return decision.reason


def test_big_short_jobs_come_after_small_ones_of_less_gpu_time() -> None:
    big, small = rigid("big", 8, expected=left(100.0)), rigid("small", 1, expected=left(700.0))
    order = plan(STRICT, "1x t4:8", big, small).order
    assert order is not None
    assert order.tolist() == [1, 0]


def test_the_order_wins_where_big_short_jobs_would_block_many_small_ones() -> None:
    """One node of 8 GPUs: a job of 8 for 100 s and eight of 1 for 110 s (Helios, section on QSSF)."""
    jobs = [TraceJob("A", 0.0, 8, 100.0), *(TraceJob(f"B{n}", 0.0, 1, 110.0) for n in range(8))]
    mean_jct_s = {
        name: Engine(
            FixedLengthWorld(Workload.of(jobs)), cluster_of("1x gpu:8"), make_policy(name), Timing(events=True)
        ).run().jct_s.mean()
        for name in ("sjf", "qssf")
    }  # fmt: skip
    assert mean_jct_s["sjf"] == pytest.approx((100 + 8 * 210) / 9)
    assert mean_jct_s["qssf"] == pytest.approx((8 * 110 + 210) / 9)


HEAD = rigid("head", 8, expected=left(10.0), submitted_s=900.0)
NEXT = rigid("next", 1, expected=left(400.0), submitted_s=950.0)
LONG = rigid("long", 4, expected=left(300.0), placement=on("t4", n0=4))


def test_strictly_nobody_overtakes_the_head_of_the_line() -> None:
    given = plan(STRICT, "1x t4:8", HEAD, NEXT, LONG)
    assert held(given) == {"long": "4xt4"}
    assert (waits(given, "head"), waits(given, "next")) == (WaitReason.NO_ROOM, WaitReason.BEHIND_OTHERS)


def test_a_job_of_two_nodes_waits_for_two_idle_ones() -> None:
    wide, one = rigid("wide", 16, expected=left(1.0)), rigid("one", 1, placement=on("t4", n0=1))
    assert held(plan(STRICT, "2x t4:8", wide, one)) == {"one": "1xt4"}
    assert held(plan(STRICT, "2x t4:8", wide)) == {"wide": "16xt4"}


def test_with_fill_whoever_has_room_starts() -> None:
    assert held(plan(FILL, "1x t4:8", HEAD, NEXT, LONG)) == {"long": "4xt4", "next": "1xt4"}


def test_with_reserve_a_place_is_kept_and_only_those_that_end_before_use_it() -> None:
    short = rigid("short", 1, expected=left(300.0), submitted_s=960.0)
    given = plan(RESERVE, "1x t4:8", HEAD, NEXT, short, LONG)
    assert held(given) == {"long": "4xt4", "short": "1xt4"}, "the place is free in 300 s"
    assert (waits(given, "head"), waits(given, "next")) == (WaitReason.KEPT_BY_OTHERS, WaitReason.PLACE_KEPT)


def test_with_reserve_other_nodes_are_free_for_all() -> None:
    blocked = rigid("blocked", 2, expected=left(1e6), placement=on("t4", n1=7))
    given = plan(RESERVE, "2x t4:8", HEAD, NEXT, LONG, blocked)
    assert held(given) == {"long": "4xt4", "blocked": "7xt4", "next": "1xt4"}
    assert given.placements["next"].by_node == {"t4-001": 1}


@pytest.mark.parametrize("policy", [FILL, RESERVE])
def test_whoever_was_passed_over_too_long_comes_first(policy: QssfPolicy) -> None:
    old = rigid("old", 4, expected=left(1e6), submitted_s=0.0)
    new = rigid("new", 4, expected=left(1.0), submitted_s=80_000.0)
    assert set(held(plan(policy, "1x t4:4", old, new, now=24 * 3600.0))) == {"new"}, "a day is not over"
    assert set(held(plan(policy, "1x t4:4", old, new, now=24 * 3600.0 + 1))) == {"old"}
    patient = QssfPolicy(QssfOptions(backfill=policy.options.backfill, patience_h=None))
    assert set(held(plan(patient, "1x t4:4", old, new, now=1e6))) == {"new"}


@pytest.mark.parametrize("policy", [STRICT, FILL, RESERVE])
def test_jobs_of_unknown_length_come_last_and_one_that_fits_nowhere_blocks_nobody(policy: QssfPolicy) -> None:
    unknown = rigid("unknown", 1, submitted_s=0.0)
    never = rigid("never", 64, expected=left(0.0))
    given = plan(policy, "1x t4:1", unknown, never, replace(NEXT, submitted_s=500.0))
    assert set(held(given)) == {"next"}
    assert waits(given, "never") is WaitReason.TOO_LARGE


@pytest.mark.parametrize(
    ("option", "value"), [("backfill", "some"), ("patience_h", -1.0), ("patience", 3)]
)  # fmt: skip
def test_options_that_cannot_be_are_refused(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"policy qssf: .*{option}"):
        make_policy("qssf", **{option: value})
