"""Jobs of known length take what Lucid's published simulator would give them."""

from __future__ import annotations

import pytest
from coadapt.simulator.compat import lucid
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload


def run(policy: str, cluster: str, *jobs: TraceJob, began_s: float = 0.0) -> Outcome:
    return lucid.engine(policy, Workload.of(jobs, began_s), cluster_of(cluster)).run()


def test_tiresias_is_asked_at_full_minutes_of_the_clock_and_its_jobs_end_a_second_late() -> None:
    outcome = run("las", "1x v100:1", TraceJob("a", 0.0, 1, 100.0), TraceJob("b", 57.5, 1, 10.0), began_s=3.0)
    assert outcome.started_s.tolist() == [57.0, 177.0]
    assert outcome.finished_s.tolist() == [57.0 + 101, 177.0 + 11]


def test_a_job_of_exactly_the_threshold_keeps_its_level_for_one_more_minute() -> None:
    # 60 GPUs reach 18,000 GPU-seconds after 300 s; the newcomer of 270 s gets them at 360 s.
    old, new = TraceJob("old", 0.0, 60, 1000.0), TraceJob("new", 270.0, 60, 30.0)
    outcome = run("las", "1x v100:60", old, new)
    assert outcome.started_s.tolist() == [0.0, 360.0]
    # 360 s are done; it starts again at the minute after 391 s, with 60 s more to do.
    assert outcome.finished_s.tolist() == [420.0 + 60 + 640 + 1, 391.0]
    assert outcome.preemptions.tolist() == [1, 0]


def test_srtf_stops_a_job_in_the_second_in_which_a_shorter_one_arrives() -> None:
    outcome = run("srtf", "1x v100:1", TraceJob("long", 0.0, 1, 100.0), TraceJob("short", 7.0, 1, 10.0))
    assert outcome.finished_s.tolist() == [18.0 + 40 + 93 + 1, 18.0]


@pytest.mark.parametrize("policy", ["fifo", "sjf"])
def test_jobs_that_are_never_stopped_end_on_time(policy: str) -> None:
    outcome = run(policy, "1x v100:1", TraceJob("a", 3.0, 1, 100.0), TraceJob("b", 4.0, 1, 10.0))
    assert outcome.finished_s.tolist() == [103.0, 113.0]


def test_a_policy_without_semantics_of_lucid_is_named() -> None:
    with pytest.raises(ValueError, match=r"'sia'.*accepted: fifo, sjf, srtf, las"):
        run("sia", "1x v100:1", TraceJob("a", 0.0, 1, 1.0))
