"""What a run shows afterwards is what was noted on the way."""

from __future__ import annotations

import numpy as np
from coadapt.core.placement import NodeShare, Placement
from coadapt.simulator.engine.job_states import JobStates, RunLog
from coadapt.simulator.engine.outcome import AllocationChange
from coadapt.simulator.traces.workload import TraceJob, Workload

from tests.support.rounds import cluster

WHERE = cluster("1x t4:4")
PAIR = Placement("t4", (NodeShare("t4-000", 2),))


def test_a_job_that_nothing_has_happened_to_holds_nothing_and_has_not_started() -> None:
    jobs = JobStates.of(2)
    assert jobs.gpus.tolist() == jobs.restarts.tolist() == [0, 0]
    assert list(jobs.placements) == [None, None]
    assert np.isnan(jobs.started_s).all()
    assert np.isnan(jobs.finished_s).all()
    jobs.largest[0]["t4"] = 4
    assert jobs.largest[1] == {}


def test_an_outcome_tells_who_held_what_when_and_what_each_round_took() -> None:
    log, jobs = RunLog(), JobStates.of(1)
    log.holds(0, PAIR, 10.0)
    log.holds(0, None, 70.0)
    log.policy_s += [0.1, 0.2]
    log.contention += [(0.0, 1), (60.0, 1)]
    jobs.finished_s[0] = 70.0
    outcome = log.outcome(Workload.of([TraceJob("a", 0.0, 2, 60.0)]), WHERE, jobs)
    assert outcome.holdings == (AllocationChange(0, 10.0, "t4", 2), AllocationChange(0, 70.0, "", 0))
    assert outcome.contention.tolist() == [[0.0, 1.0], [60.0, 1.0]]
    assert outcome.policy_s.tolist() == [0.1, 0.2]
    assert outcome.finished_s.tolist() == [70.0]


def test_a_run_without_a_round_has_an_outcome_of_the_same_shape() -> None:
    outcome = RunLog().outcome(Workload.of([TraceJob("a", 0.0, 2, 60.0)]), WHERE, JobStates.of(1))
    assert (outcome.contention.shape, outcome.holdings) == ((0, 2), ())
