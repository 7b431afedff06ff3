"""Figures of deadlines (spec, checks C1, C2 and C4), and that a saved run keeps them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.rewards import Rewards
from coadapt.policies.catalogue import make_policy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.results.deadlines import deadline_figures
from coadapt.simulator.results.saved import SavedRun, load, save
from coadapt.simulator.traces.node_speeds import NodeSpeeds
from coadapt.simulator.traces.workload import TraceJob, Workload

STRICT, SOFT = Rewards.strict(150.0), Rewards.soft(100.0)


def outcome(*jobs: TraceJob, nodes: int = 4, gpus: int = 1, spread: NodeSpeeds | None = None) -> Outcome:
    cluster = Cluster(tuple(Node(f"n{i}", "t4", gpus) for i in range(nodes)))
    world = FixedLengthWorld(Workload.of(jobs), spread=spread, node_gpus=gpus)
    return Engine(world, cluster, make_policy("fifo"), Timing(events=True)).run()


def test_worth_100_100_80_and_0_is_a_miss_rate_of_three_tenths() -> None:
    jobs = [
        TraceJob("a", 0.0, duration_s=100.0, rewards=STRICT),
        TraceJob("b", 0.0, duration_s=100.0, rewards=SOFT),
        TraceJob("c", 0.0, duration_s=105.0, rewards=SOFT),
        TraceJob("d", 0.0, duration_s=200.0, rewards=STRICT),
        TraceJob("e", 0.0, duration_s=50.0),
        TraceJob("f", 10.0, duration_s=60.0),
    ]
    figures = deadline_figures(outcome(*jobs, nodes=6))
    assert figures["miss_rate"] == pytest.approx(0.30)
    assert (figures["deadline_jobs"], figures["late_jobs"]) == (4, 2)
    assert figures["be_jct_h"] * 3600 == pytest.approx(55.0)


def test_a_trace_without_deadlines_has_no_such_figures() -> None:
    assert deadline_figures(outcome(TraceJob("a", 0.0, duration_s=1.0))) == {}


def test_table_3_of_the_paper_relates_to_the_measured_cluster() -> None:
    assert round((274.42 - 266.39) / 274.42, 4) == 0.0293


def test_a_saved_run_keeps_deadlines(tmp_path: Path) -> None:
    run = outcome(TraceJob("a", 0.0, duration_s=100.0, rewards=SOFT), TraceJob("b", 0.0, duration_s=100.0))
    save(SavedRun("fifo", run, np.full(2, np.nan), np.full(2, np.nan)), tmp_path / "r")
    found = load(tmp_path / "r")
    assert found.outcome.workload.rewards == (SOFT, None)
    assert found.figures()["miss_rate"] == pytest.approx(0.0, abs=1e-9)


def test_a_job_is_slower_on_more_nodes_than_it_needs() -> None:
    spread = NodeSpeeds({"vgg16": {2: {1: 1.0, 2: 0.5}}})
    job = TraceJob("a", 0.0, gpus=2, duration_s=100.0, name="vgg16")
    assert outcome(job, nodes=1, gpus=2, spread=spread).jct_s.tolist() == [100.0]
    world = FixedLengthWorld(Workload.of([job]), spread=spread, node_gpus=2)
    assert world.told.on_nodes(0) == {1: 1.0, 2: 0.5}
    apart = Placement("t4", (NodeShare("n0", 1), NodeShare("n1", 1)))
    assert world.moves(0, apart, 0.0).per_s == 0.5
