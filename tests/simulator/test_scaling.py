"""Promises: a simulated cluster buys nodes as the live one does, after a boot, and costs are counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from coadapt.cli.main import app
from coadapt.core.scaling_settings import ScalingSettings
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.run import Simulation
from coadapt.simulator.scaling import always_there, cost_figures, fixed_peak, scaled
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload
from typer.testing import CliRunner

from tests.support.scaling import settings

KINDS = settings(rounds=2, boot_s=300.0, idle_s=600.0, t4="t4:4 2.0 0-3")
TWO = Workload.of(
    [
        TraceJob(id="a", submit_s=0.0, gpus=4, duration_s=3600.0),
        TraceJob(id="b", submit_s=86_400.0, gpus=8, duration_s=3600.0),
    ]
)


def run_of(given: ScalingSettings, workload: Workload = TWO) -> Simulation:
    nodes = scaled(None, given)
    under = Conditions(timing=Timing(60.0), scaling=given)
    return simulation(workload, nodes, "fifo", {}, source_of(False, None, nodes), under)


def test_a_job_waits_for_the_rounds_and_the_boot_of_a_node_that_is_bought() -> None:
    made = run_of(KINDS)
    found = made.run()
    # The second of two rounds asks, and the node is there 300 s later.
    assert found.queueing_s.tolist() == pytest.approx([60.0 + 300.0, 60.0 + 300.0])


def test_nodes_cost_from_when_they_are_asked_for_until_they_are_given_up() -> None:
    made = run_of(KINDS)
    found = made.run()
    logs = [engine.nodes.log for engine in made.engines]
    figures = cost_figures(KINDS, logs, found)
    # Boot, an hour and ten idle minutes of one node; then boot and an hour of two.
    expected = 2.0 * ((300 + 3600 + 600) + 2 * (300 + 3600)) / 3600
    assert figures["dollars"] == pytest.approx(expected, rel=0.03)
    assert (figures["most_dollars_per_h"], figures["dollars_per_job"]) == (4.0, figures["dollars"] / 2)
    assert fixed_peak(KINDS, logs) == {"t4": 2}


def test_nodes_that_are_always_there_cost_all_the_time() -> None:
    fixed = always_there(KINDS, {"t4": 2})
    made = run_of(fixed)
    found = made.run()
    assert found.queueing_s.max() == 0.0
    figures = cost_figures(fixed, [engine.nodes.log for engine in made.engines], found)
    assert figures["dollars"] == pytest.approx(2 * 2.0 * (86_400 + 3600) / 3600)


def test_pools_are_refused() -> None:
    from dataclasses import replace

    from coadapt.simulator.traces.cluster_file import SimulatedCluster

    pools = SimulatedCluster({"lab": replace(cluster_of("1x t4:4", "lab-", "lab"), pool="lab")})
    with pytest.raises(ValueError, match="scaling: simulated nodes of pools cannot be bought"):
        scaled(pools, KINDS)


FILE = """
budget_per_h: 20
rounds: 2
types:
  t4: {gpu_type: t4, gpus: 8, price_per_h: 2.0, max: 6}
  a100: {gpu_type: a100, gpus: 4, price_per_h: 12.0, max: 1}
"""


def test_the_command_tells_what_nodes_cost(tmp_path: Path) -> None:
    (tmp_path / "scaling.yaml").write_text(FILE)
    words = ["simulate", "--jobs", "6", "--scaling", str(tmp_path / "scaling.yaml"), "--policy", "fifo", "--json"]
    answer = CliRunner().invoke(app, words)
    figures = json.loads(answer.stdout)["fifo"]
    assert figures["dollars"] == pytest.approx(6 * figures["dollars_per_job"])
    assert 0 < figures["most_dollars_per_h"] <= 20


def test_a_type_that_sleeps_too_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scaling.yaml").write_text(FILE)
    words = ["simulate", "--jobs", "6", "--scaling", str(tmp_path / "scaling.yaml"), "--service", "energy"]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 2
    assert "a node is either put to sleep or given up; leave the service energy out" in " ".join(
        answer.output.replace("│", " ").split()
    )
