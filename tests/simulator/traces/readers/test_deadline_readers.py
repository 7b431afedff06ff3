"""Traces with deadlines: Chronus' in minutes, ElasticFlow's in seconds, and what of them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.core.rewards import Rewards
from coadapt.simulator.traces.readers import chronus, elasticflow, jsonl, read_trace
from coadapt.simulator.traces.workload import TraceJob

from tests.support.traces import CHRONUS, ELASTICFLOW, written

MIN_S = 60.0


def test_chronus_has_minutes_and_a_value_for_each_deadline(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="1 job without a GPU left out, the first in line 5"):
        workload = read_trace(written(tmp_path, CHRONUS))
    assert (workload.ids, workload.gpus.tolist()) == (("a", "b", "c"), [1, 8, 4])
    assert (workload.submit_s.tolist(), workload.duration_s.tolist()) == ([60, 120, 180], [5760, 1560, 1200])
    assert workload.names == ("mobilenet_v2", "vgg16", "alexnet")
    soft = Rewards(tuple(minutes * MIN_S for minutes in (159, 189, 229, 289)), (100.0, 80.0, 50.0, 20.0))
    assert workload.rewards == (soft, Rewards.strict(235 * MIN_S), None)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("10-8-5-2", "10-8-5", "line 2: expect_time_list has 4 deadlines and expect_value_list 3 values"),
        ("strict", "stricter", "line 3: job_type 'stricter' is unknown; accepted: strict, soft, best"),
        ("159-189", "x-189", "line 2: expect_time_list 'x-189-229-289' is no list like 159-189-229"),
        ("159-189", "189-159", "line 2: a deadline of 2.6 h follows 3.1 h; deadlines must rise"),
        ("235,10,", "0,10,", "line 3: a deadline of 0 s is not after submission"),
        ("10-8-5-2", "10-10-5-2", "line 2: a worth of 100 follows 100; worth must fall"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*without a GPU")
def test_chronus_rows_that_cannot_be_are_refused_with_their_line(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        chronus.read(written(tmp_path, CHRONUS.replace(old, new)))


@pytest.mark.filterwarnings("ignore:.*without a GPU")
def test_seconds_taken_for_minutes_are_told(tmp_path: Path) -> None:
    seconds = CHRONUS.replace(",96,", ",57600,").replace(",26,", ",15600,").replace(",20,", ",12000,")
    with pytest.warns(UserWarning, match="half of the jobs take more than a week; this format has minutes"):
        chronus.read(written(tmp_path, seconds))


def test_elasticflow_has_moments_of_the_trace_and_best_effort_jobs(tmp_path: Path) -> None:
    workload = read_trace(written(tmp_path, ELASTICFLOW))
    assert (workload.submit_s.tolist(), workload.gpus.tolist()) == ([0.0, 2050.0], [1, 8])
    assert workload.rewards == (Rewards.strict(4511.0), None)
    assert workload.rewards[0] is not None
    assert workload.rewards[0].last_s < workload.duration_s[0], "its authors gave half of the jobs no chance"


def test_an_elasticflow_deadline_before_submission_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2: ddl 3715485 is not after submit_time 3715485; a later second"):
        elasticflow.read(written(tmp_path, ELASTICFLOW.replace("3719996", "3715485")))


def test_a_trace_of_our_own_keeps_deadlines(tmp_path: Path) -> None:
    jobs = [
        TraceJob("a", 0.0, duration_s=5.0, rewards=Rewards((6.0, 8.0), (100.0, 40.0))),
        TraceJob("b", 1.0, duration_s=5.0),
    ]
    jsonl.write(tmp_path / "t.jsonl", jobs)
    assert jsonl.read(tmp_path / "t.jsonl").rewards == (Rewards((6.0, 8.0), (100.0, 40.0)), None)
