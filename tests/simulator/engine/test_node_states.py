"""Promises: nodes sleep and wake as they are told, boots take their time, and no job loses its node."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.fifo import FifoPolicy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.errors import BadAdvice, Stuck
from coadapt.simulator.engine.node_states import Power, PowerEvent
from coadapt.simulator.engine.outages import Failures
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.results.power import power_summary, waited_for_boot
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

EVENTS = Timing(events=True)


@dataclass(frozen=True)
class Said:
    wake: tuple[str, ...] = ()
    sleep: tuple[str, ...] = ()
    again_s: float | None = None


def jobs(*rows: tuple[float, int, float]) -> Workload:
    """Make jobs of (submitted, GPUs, seconds)."""
    return Workload.of(
        TraceJob(id=f"j{i}", submit_s=at, gpus=gpus, duration_s=length)
        for i, (at, gpus, length) in enumerate(rows)
    )


def engine(
    workload: Workload,
    advise: Callable[[Round, Plan], Said],
    *,
    nodes: str = "2x t4:8",
    boot_s: float = 300.0,
    timing: Timing = EVENTS,
    failures: Failures | None = None,
) -> Engine:
    made = Engine(FixedLengthWorld(workload), cluster_of(nodes), FifoPolicy(), timing, failures)
    made.let_sleep(Power(advise, boot_s))
    return made


def sleeps_when_idle(round: Round, plan: Plan) -> Said:
    """Let all idle nodes sleep, and wake all when a job waits."""
    busy = {share.node_id for placement in plan.placements.values() for share in placement.shares}
    idle = tuple(node.machine_name for node in round.cluster.nodes if node.id not in busy)
    if any(job.id not in plan.placements for job in round.jobs):
        return Said(wake=tuple(node.machine_name for node in round.asleep))
    return Said(sleep=idle, again_s=round.now + 600)


def test_a_job_waits_for_the_boot_of_its_node_and_no_longer() -> None:
    made = engine(jobs((0, 8, 100), (1000, 16, 50)), sleeps_when_idle)
    found = made.run()
    assert found.started_s.tolist() == [0, 1300]
    assert waited_for_boot(made.nodes.log, np.array([0.0, 1000.0]), found.started_s).tolist() == [False, True]


@pytest.mark.parametrize("timing", [EVENTS, Timing(interval_s=60.0), Timing(interval_s=60.0, early_s=0.5)])
def test_nodes_sleep_also_while_no_job_is_there(timing: Timing) -> None:
    made = engine(jobs((0, 8, 100), (5000, 8, 50)), sleeps_when_idle, timing=timing)
    found = made.run()
    slept = [change for change in made.nodes.log if change.event is PowerEvent.SLEEPS]
    assert {change.node_id for change in slept if change.time_s < 1500} == {"t4-0000", "t4-0001"}
    assert 5300 <= found.started_s[1] <= 5420


def test_what_sleeps_is_known_to_rounds() -> None:
    seen = []

    def advise(round: Round, plan: Plan) -> Said:
        seen.append((len(round.cluster.nodes), [node.id for node in round.asleep]))
        return Said(sleep=("t4-0001",)) if round.now < 50 else Said()

    engine(jobs((0, 8, 100), (60, 8, 20), (70, 4, 10)), advise).run()
    assert seen[0] == (2, [])
    assert seen[1] == (1, ["t4-0001"])


def test_a_node_on_which_a_job_runs_may_not_sleep() -> None:
    made = engine(jobs((0, 8, 100)), lambda round, plan: Said(sleep=("t4-0000", "t4-0001")))
    with pytest.raises(BadAdvice, match="node t4-0000 may not sleep, as a job runs on it"):
        made.run()


def test_an_unknown_machine_is_refused() -> None:
    made = engine(jobs((0, 8, 100)), lambda round, plan: Said(wake=("moon",)))
    with pytest.raises(BadAdvice, match="'moon' is none of this cluster"):
        made.run()


def test_a_run_is_not_stuck_while_a_node_wakes_and_is_when_none_does() -> None:
    def never(round: Round, plan: Plan) -> Said:
        return Said(sleep=("t4-0000", "t4-0001")) if not round.jobs else Said()

    asleep_first = jobs((0, 8, 1), (5000, 16, 50))

    def asleep(round: Round, plan: Plan) -> Said:
        idle = not plan.placements
        return Said(sleep=("t4-0001",) if idle or round.now < 10 else (), again_s=round.now + 600)

    with pytest.raises(Stuck):
        engine(asleep_first, asleep).run()
    assert math.isfinite(engine(asleep_first, sleeps_when_idle).run().makespan_s)
    assert engine(jobs((0, 8, 10)), never).run().finished_s[0] == 10


def test_a_node_that_sleeps_may_fail_and_is_back_when_both_are_over() -> None:
    made = engine(
        jobs(*((3600.0 * i, 8, 600.0) for i in range(40))),
        sleeps_when_idle,
        failures=Failures(20_000.0, 3600.0, 1),
    )
    assert np.isfinite(made.run().finished_s).all()


def test_boots_are_counted_into_energy_and_nodes_off() -> None:
    made = engine(jobs((0, 8, 100), (1000, 16, 50)), sleeps_when_idle)
    made.run()
    found = power_summary([made.nodes.log], 0.0, 1350.0, 300.0)
    # One node sleeps from 0 on, and the other from 100 on: both until the job of 1000 s.
    assert found.nodes_off == pytest.approx((1000 + 900) / 1350)
    assert found.nodes_per_wake == 2
    assert found.wakes_per_day == pytest.approx(1 / (1350 / 86_400))
    assert found.saved_kwh == pytest.approx(1900 / 3600 * 2.4 - 2 * 300 / 3600 * 2.4)


def test_an_adviser_that_never_acts_changes_nothing() -> None:
    workload = jobs(*((50.0 * i, 4 + 4 * (i % 3), 100.0 * (1 + i % 5)) for i in range(40)))
    with_power = engine(workload, lambda round, plan: Said()).run()
    without = Engine(FixedLengthWorld(workload), cluster_of("2x t4:8"), FifoPolicy(), EVENTS).run()
    assert with_power.finished_s.tolist() == without.finished_s.tolist()


@pytest.mark.parametrize("boot_s", [-1.0, math.nan, math.inf])
def test_a_boot_of_no_such_time_is_refused(boot_s: float) -> None:
    with pytest.raises(ValueError, match="boot_s"):
        Power(lambda round, plan: Said(), boot_s)
