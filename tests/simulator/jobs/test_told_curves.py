"""Simulated jobs that a metric ends: policies are told when by the points that came, and by earlier runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.expected import ExpectedSource
from coadapt.policies.catalogue import make_policy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.told_curves import ToldCurves
from coadapt.simulator.traces.curves import CurveRule, with_curves
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import TraceCurve, TraceJob, Workload

RISES = tuple(1.0 - 0.9 / epoch for epoch in range(1, 41))
CURVE = TraceCurve(RISES, target=0.95)  # reached in epoch 18
EVERY = np.array([0, 1])


def told(*jobs: TraceJob) -> ToldCurves:
    found = FixedLengthWorld(Workload.of(jobs)).told
    assert isinstance(found, ToldCurves)
    return found


def test_a_curve_tells_more_the_further_it_is_and_never_the_value_to_come() -> None:
    known = told(TraceJob("a", 0.0, duration_s=1800.0, curve=CURVE), TraceJob("b", 0.0, duration_s=900.0))
    assert known.remaining_s(EVERY, np.zeros(2)).tolist() == [4000.0, 900.0], "all of its training, of 100 s each"
    assert known.longest_s(0, 500.0) == 3500.0
    assert known.longest_s(1, 0.0) is None
    half = known.expected(0, 900.0)
    assert half.source is ExpectedSource.LEARNING_CURVE
    assert half.mean_s == pytest.approx(900.0, rel=0.25)
    high_s = known.high_s(EVERY, np.array([900.0, 0.0]))
    assert high_s is not None
    assert high_s.tolist() == [half.high_s, 900.0]
    assert not known.exact


def test_a_job_of_the_same_name_that_has_ended_tells_before_the_first_epoch() -> None:
    jobs = [TraceJob(id, 0.0, duration_s=1800.0, curve=CURVE, name="script") for id in "ab"]
    known = told(*jobs)
    known.learn(2000.0, np.array([1800.0, np.nan]), np.zeros(2))
    expected = known.expected(1, 0.0)
    assert expected.source is ExpectedSource.EARLIER_RUNS
    assert expected.mean_s == pytest.approx(1800.0, rel=0.05)


def test_a_job_ends_when_its_metric_reaches_the_target() -> None:
    world = FixedLengthWorld(Workload.of([TraceJob("a", 0.0, duration_s=1800.0, curve=CURVE)]))
    outcome = Engine(world, Cluster((Node("n", "t4", 1),)), make_policy("srtf"), Timing(60.0)).run()
    assert outcome.jct_s[0] == pytest.approx(1800.0)


@pytest.mark.parametrize(
    ("values", "target", "told"),
    [
        ((0.1, 0.2), 0.9, "curve: none of its 2 values reaches the target 0.9"),
        ((), 0.9, "none of its 0 values"),
        ((0.1, float("nan")), 0.1, "values and target must be finite"),
    ],
)
def test_a_curve_that_ends_no_job_is_refused(values: tuple[float, ...], target: float, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        TraceCurve(values, target)


def test_a_trace_may_give_a_job_a_curve(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"id": "a", "submit_s": 0, "duration_s": 60, '
        '"curve": {"values": [0.9, 0.5], "target": 0.5, "rises": false}}\n'
    )
    (curve,) = read_trace(path).curves
    assert curve is not None
    assert curve.reached == 2
    path.write_text('{"id": "a", "submit_s": 0, "duration_s": 60, "curve": {"values": [0.5], "target": 0.9}}\n')
    with pytest.raises(ValueError, match=r"line 1: curve: .*none of its 1 values reaches the target 0.9"):
        read_trace(path)


def test_a_part_of_jobs_gets_curves_with_the_best_value_or_nearly_that() -> None:
    plain = Workload.of([TraceJob(f"j{i}", 0.0, duration_s=100.0) for i in range(1000)])
    known = [TraceCurve(RISES, max(RISES), name="up"), TraceCurve(tuple(-v for v in RISES), 0.0, False, "down")]
    found = with_curves(plain, known, CurveRule(), seed=1)
    some = [curve for curve in found.curves if curve is not None]
    assert len(some) == pytest.approx(200, abs=40)
    assert {curve.target for curve in some if curve.rises} == {max(RISES), max(RISES) - (1.0 - 0.99) * max(RISES)}
    assert set(found.names) == {"", "up", "down"}
    assert with_curves(plain, known, CurveRule(), seed=1).curves == found.curves
    with pytest.raises(ValueError, match="curves: part 2"):
        CurveRule(part=2)
