"""Figures of the jobs of teams: bursts over what a team has, spread of lengths and of arrivals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.team_workloads import MEANING_WORKLOAD, largest_burst, most_held, team_workloads
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload


def ran() -> Outcome:
    """Run jobs of 100 s: two of a at once and one after 1000 s; b has one of 2 GPUs, and one of 400 s."""
    rows = [
        TraceJob("a0", 0, 1, 100, virtual_cluster="a"), TraceJob("a1", 0, 1, 100, virtual_cluster="a"),
        TraceJob("a2", 1000, 1, 100, virtual_cluster="a"), TraceJob("b0", 0, 2, 100, virtual_cluster="b"),
        TraceJob("b1", 600, 1, 400, virtual_cluster="b"),
    ]  # fmt: skip
    nodes = read_cluster("1x t4:4")
    jobs = Workload.of(sorted(rows, key=lambda job: job.submit_s))
    return simulation(
        jobs, nodes, "fifo", {}, source_of(False, None, nodes), Conditions(timing=Timing(events=True))
    ).run()


def test_figures_of_two_teams() -> None:
    found = team_workloads(ran())
    assert found["a"].keys() == MEANING_WORKLOAD.keys()
    assert found["a"]["gpus"] == 2
    assert found["a"]["burst_ratio"] == 1.0
    assert found["a"]["length_p99_over_p50"] == pytest.approx(1.0)
    assert found["a"]["arrivals_spread"] == pytest.approx(1.0)  # gaps of 0 and 1000 s
    assert found["a"]["utilisation"] == pytest.approx(300 / (2 * 1100))
    assert found["b"]["utilisation"] == pytest.approx(600 / (2 * 1000))
    assert found["b"]["length_p99_over_p50"] == pytest.approx(397 / 250)


def test_one_team_has_no_table() -> None:
    outcome = ran()
    assert (
        team_workloads(outcome.select(np.array([one == "a" for one in outcome.workload.virtual_clusters]))) == {}
    )


def test_a_burst_is_what_is_asked_within_five_minutes() -> None:
    at, gpus = np.array([0.0, 299.0, 300.0, 900.0]), np.array([1.0, 2.0, 4.0, 5.0])
    assert largest_burst(at, gpus) == 6.0
    assert largest_burst(at, gpus, math.inf) == 12.0
    assert largest_burst(at[:0], gpus[:0]) == 0.0


def test_gpus_that_change_hands_at_one_moment_count_once() -> None:
    outcome = ran()
    first, second = outcome.holdings[0], outcome.holdings[1]
    swap = (
        replace(first, job=0, time_s=0.0, gpus=1),
        replace(second, job=1, time_s=5.0, gpus=1),
        replace(first, job=0, time_s=5.0, gpus=0),
    )
    assert most_held(replace(outcome, holdings=swap), np.array([0, 1])) == 1.0
