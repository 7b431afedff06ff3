"""A trace's jobs run from their submission unless it says how long they waited; a run knows when they ran."""

from __future__ import annotations

import numpy as np
from coadapt.simulator.study.jobs import STATES, StudiedJobs
from coadapt.simulator.traces.final_state import FinalState
from coadapt.simulator.traces.workload import TraceJob

from tests.support.runs import saved
from tests.support.studies import studied


def test_jobs_without_waits_hold_their_gpus_from_submission_and_that_is_demand() -> None:
    jobs = studied([TraceJob("a", 10.0, 2, 30.0)])
    assert (jobs.held.start_s.tolist(), jobs.held.end_s.tolist()) == ([10.0], [40.0])
    assert jobs.use_word == "demand"


def test_jobs_with_waits_hold_them_later_and_want_them_from_submission() -> None:
    jobs = studied([TraceJob("a", 10.0, 2, 30.0, waited_s=5.0)])
    assert (jobs.held.start_s.tolist(), jobs.held.end_s.tolist()) == ([15.0], [45.0])
    wanted = jobs.wanted()
    assert (wanted.start_s.tolist(), wanted.end_s.tolist(), wanted.gpus.tolist()) == ([10.0], [45.0], [2])
    assert jobs.use_word == "use"
    assert jobs.gpu_s.tolist() == [60.0], "waiting is no GPU time"


def test_a_run_knows_when_jobs_ran_and_waited() -> None:
    jobs = StudiedJobs.of_run(saved(100.0, 50.0, 400.0, cluster="1x t4:1").outcome)
    assert jobs.waits_known
    np.testing.assert_allclose(jobs.wait_s, [0.0, 100.0, 150.0])
    np.testing.assert_allclose(jobs.length_s, [100.0, 50.0, 400.0])
    assert sorted(jobs.held.start_s.tolist()) == [0.0, 100.0, 150.0]
    np.testing.assert_allclose(jobs.wanted().end_s, [100.0, 150.0, 550.0])


def test_what_a_trace_does_not_know_is_unknown() -> None:
    jobs = studied([TraceJob("a", 0.0, application="bert"), TraceJob("b", 1.0, 1, 5.0)], began=None)
    assert jobs.began_s is None
    assert (jobs.lengths_known, jobs.states_known) == (1, 0)
    assert np.isnan(jobs.gpu_s[0])
    assert jobs.held.job.tolist() == [1]


def test_selected_jobs_keep_what_they_hold_and_groups_without_jobs_go() -> None:
    jobs = studied([TraceJob(str(i), float(i), i + 1, 10.0, user=f"u{i}") for i in range(4)])
    some = jobs.select(np.array([False, True, False, True]))
    assert some.gpus.tolist() == [2, 4]
    assert some.users.names == ("u1", "u3")
    assert some.held.job.tolist() == [0, 1]
    assert some.held.start_s.tolist() == [1.0, 3.0]


def test_time_outs_and_lost_nodes_count_as_failures() -> None:
    jobs = studied([TraceJob(str(i), 0.0, 1, 1.0, state=state) for i, state in enumerate((*FinalState, None))])
    counted = [None if at < 0 else STATES[at] for at in jobs.counted_states.tolist()]
    assert counted == [
        FinalState.COMPLETED, FinalState.CANCELLED, FinalState.FAILED, FinalState.FAILED, FinalState.FAILED, None
    ]  # fmt: skip
