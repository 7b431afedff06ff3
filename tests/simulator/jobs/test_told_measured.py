"""Simulated jobs that are measured as they train, on fewer GPUs, and lengths that are told with errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.rewards import Rewards
from coadapt.policies.catalogue import make_policy
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.lengths import Lengths, Sources
from coadapt.simulator.jobs.told_measured import ToldMeasured
from coadapt.simulator.jobs.told_noisy import ToldNoisy
from coadapt.simulator.results.deadlines import deadline_figures
from coadapt.simulator.traces.workload import TraceJob, Workload

MEASURED = Lengths.MEASURED


def trace(id: str, submit_s: float, gpus: int, duration_s: float, **about: Any) -> TraceJob:
    return TraceJob(id, submit_s, gpus=gpus, duration_s=duration_s, **{"user": id, **about})


def run(*jobs: TraceJob, nodes: int = 1, **options: Any) -> Outcome:
    cluster = Cluster(tuple(Node(f"n{i}", "t4", 8) for i in range(nodes)))
    world = FixedLengthWorld(Workload.of(jobs), lengths=MEASURED)
    return Engine(world, cluster, make_policy("unisched", **options), Timing(300.0)).run()


def told(*jobs: TraceJob) -> ToldMeasured:
    found = FixedLengthWorld(Workload.of(jobs), lengths=MEASURED).told
    assert isinstance(found, ToldMeasured)
    return found


def test_nothing_is_known_of_a_job_before_one_of_its_script_was_measured() -> None:
    known = told(
        trace("a", 0.0, 4, 1000.0, user="ann"), trace("b", 0.0, 4, 900.0, user="ann"), trace("c", 0.0, 8, 900.0)
    )
    every, none = np.arange(3), np.zeros(3)
    assert np.isnan(known.remaining_s(every, none)).all()
    assert [known.measured_on(job) for job in range(3)] == [1, 1, 1]
    known.learn(200.0, np.full(3, np.nan), np.array([150.0, 0.0, 0.0]))
    assert [known.measured_on(job) for job in range(3)] == [2, 1, 1]
    assert not known.expected(0, 0.0).known
    known.learn(400.0, np.full(3, np.nan), np.array([300.0, 0.0, 0.0]))
    assert known.remaining_s(every, none).tolist()[:2] == [1000.0, 900.0]
    assert [known.measured_on(job) for job in range(3)] == [0, 0, 1]
    assert known.expected(1, 100.0).mean_s == 800.0


def test_a_job_that_ends_while_it_is_measured_is_known() -> None:
    known = told(trace("a", 0.0, 1, 100.0, user="ann"), trace("b", 0.0, 1, 50.0, user="ann"))
    known.learn(400.0, np.array([100.0, np.nan]), np.array([100.0, 0.0]))
    assert known.measured_on(1) == 0


def test_samples_of_measuring_count_and_as_published_they_do_not() -> None:
    """Of four GPUs: 150 s on one, 120 s on two after a restart of 30 s, and then another restart."""
    job = trace("a", 0.0, 4, 1000.0)
    trained = run(job)
    assert trained.finished_s[0] == pytest.approx(300.0 + 30.0 + 1000.0 - 150.0 / 4 - 120.0 / 2)
    lost = run(job, profile="published")
    assert lost.finished_s[0] == pytest.approx(300.0 + 30.0 + 1000.0)


def test_the_longest_wait_to_be_measured_is_a_figure() -> None:
    strict = Rewards.strict(1e6)
    jobs = [trace(f"j{i}", 0.0, 1, 2000.0, rewards=strict) for i in range(20)]
    static: dict[str, Any] = {"profiler": "static", "measuring_nodes": 1}
    for options, least in ((dict[str, Any](), 300.0), (static, 600.0)):
        figures = deadline_figures(run(*jobs, nodes=2, **options))
        assert figures["measuring_wait_max_s"] == pytest.approx(least)
    world = FixedLengthWorld(Workload.of(jobs))
    outcome = Engine(world, Cluster((Node("n", "t4", 8),)), make_policy("unisched"), Timing(300.0)).run()
    assert "measuring_wait_max_s" not in deadline_figures(outcome)


def test_lengths_are_told_with_errors_of_a_deviation_and_a_band() -> None:
    workload = Workload.of([trace(f"j{i}", 0.0, 1, 1000.0) for i in range(4000)])
    found = FixedLengthWorld(workload, sources=Sources(deviation=0.2, seed=3)).told
    assert isinstance(found, ToldNoisy)
    every, none = np.arange(4000), np.zeros(4000)
    mean_s = found.remaining_s(every, none)
    assert mean_s.mean() == pytest.approx(1000.0, rel=0.02)
    assert mean_s.std() == pytest.approx(200.0, rel=0.05)
    high_s, low_s = found.high_s(every, none), np.array([found.expected(i, 0.0).low_s for i in range(4000)])
    assert high_s is not None
    assert ((low_s <= 1000.0) & (high_s >= 1000.0)).mean() == pytest.approx(0.8, abs=0.04)
    again = FixedLengthWorld(workload, sources=Sources(deviation=0.2, seed=3)).told
    assert (again.remaining_s(every, none) == mean_s).all()
    late = found.expected(0, 5000.0)
    assert 0 < late.mean_s <= late.high_s


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"length_noise": -0.1}, "length_noise: -0.1 must be 0 or more"),
        ({"restart_scale": float("inf")}, "restart_scale: inf must be 0 or more, and finite"),
        ({"length_noise": 0.1, "lengths": Lengths.UNKNOWN}, "length_noise: goes with lengths that are told"),
    ],
)
def test_conditions_that_cannot_be_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Conditions(**values)


def test_conditions_of_errors_and_restarts_identify_a_run() -> None:
    about = Conditions(length_noise=0.3, restart_scale=4.0).about()
    assert (about["length_noise"], about["restart_scale"]) == (0.3, 4.0)
    assert not {"length_noise", "restart_scale"} & set(Conditions().about())
