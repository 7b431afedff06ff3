"""What a live cluster measured of a job is what the job takes when it is replayed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.training_config import Adaptivity
from coadapt.estimators.affinity import pair_speeds
from coadapt.simulator.conditions import EARLY_S, Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.applications import Application
from coadapt.simulator.jobs.knowledge import LearningKnowledge
from coadapt.simulator.jobs.recorded_application import application_of
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.recorded import RecordedModel, RecordedProfile, RecordedThroughput, RecordedUse
from coadapt.simulator.traces.workload import TraceJob, Workload

# A step of 8 samples on one GPU takes 1 s; 800 of them.
SPEED = RecordedThroughput({"alpha_c": 0.2, "beta_c": 0.1}, 8)
MODEL = RecordedModel({"t4": SPEED, "a100": SPEED}, 8, 8, 6400.0, noise_scale=0.0, start_s=20.0, pause_s=0.5)
JOB = TraceJob("a", 0.0, max_gpus=1, adaptivity=Adaptivity.ADAPTIVE, ready_after_s=10.0, model=MODEL)


def replayed(*jobs: TraceJob, cluster: str = "1x t4:2") -> Outcome:
    nodes = read_cluster(cluster)
    source = source_of(False, None, nodes)
    return simulation(Workload.of(jobs), nodes, "sia", {}, source, Conditions(Timing(5.0))).run()


def test_a_job_is_profiled_starts_and_trains_as_long_as_it_did_live() -> None:
    assert replayed(JOB).jct_s == pytest.approx([10 + EARLY_S + 20 + 800])
    slow = replace(JOB, model=replace(MODEL, slowdown=1.25))
    assert replayed(slow).jct_s == pytest.approx([10 + EARLY_S + 20 + 1000])


def test_profile_runs_keep_their_gpus_from_others_and_are_no_jobs() -> None:
    profiled = replace(JOB, ready_after_s=400.0, profiles=(RecordedProfile("t4", 390.0, 1.0),))
    waits = replace(JOB, id="b", submit_s=5.0, ready_after_s=1.0)
    found = replayed(profiled, waits, cluster="1x t4:1")
    assert found.workload.ids == ("a", "b")
    assert found.started_s.min() > 390
    assert {h.job for h in found.holdings} == {0, 1}
    elsewhere = replace(
        profiled, profiles=(RecordedProfile("v100", 390.0, 1.0), RecordedProfile("t4", 9.0, 0.0, 4))
    )
    assert replayed(elsewhere, waits, cluster="1x t4:1").started_s.min() < 10  # where no node could run them


def test_a_profile_run_keeps_gpus_of_its_jobs_pool_also_beside_nodes_of_no_pool() -> None:
    profiled = replace(
        JOB, ready_after_s=400.0, profiles=(RecordedProfile("t4", 390.0, 1.0),), virtual_cluster="lab"
    )
    waits = replace(JOB, id="b", submit_s=5.0, ready_after_s=1.0, virtual_cluster="lab")
    assert replayed(profiled, waits, cluster="1x t4:1@lab, 1x a100:1").started_s.min() > 390


@pytest.mark.parametrize("window_s", [100.0, 600.0])
def test_jobs_that_share_time_take_turns_of_the_window_as_live(window_s: float) -> None:
    nodes = read_cluster("1x t4:1")
    jobs = Workload.of([JOB, replace(JOB, id="b")])
    source, under = source_of(False, None, nodes), Conditions(Timing(5.0))
    found = simulation(jobs, nodes, "sia", {"timeshare_window_s": window_s}, source, under).run()
    second = next(h.time_s for h in found.holdings if h.job == 1)
    first = next(h.time_s for h in found.holdings if h.job == 0)
    assert second - first == pytest.approx(window_s, abs=5.0)


def world(model: RecordedModel = MODEL) -> AdaptiveWorld:
    workload = Workload.of([replace(JOB, model=model, batch_size=8)])
    applications: list[Application] = [application_of("a", model, ["t4", "a100"])]
    return AdaptiveWorld(workload, applications, LearningKnowledge(workload, applications))


def on(gpu_type: str, *gpus: int) -> Placement:
    return Placement(gpu_type, tuple(NodeShare(f"{gpu_type}-{i}", count) for i, count in enumerate(gpus)))


def test_a_job_trains_where_it_is_until_its_new_processes_have_started() -> None:
    fast = RecordedThroughput({"alpha_c": 0.1, "beta_c": 0.05}, 8)
    made = world(replace(MODEL, throughput={"t4": SPEED, "a100": fast}))
    one, two = on("t4", 1), on("t4", 2)
    assert made.pause_s(0, None, one, 0.0, True) == 20.0
    assert made.pause_s(0, None, one, 0.0, False) == 20.0
    assert made.pause_s(0, two, one, 0.0, False) == 0.5  # nothing has to start
    # To GPUs twice as fast: half of what it would train on them meanwhile it trains where it is.
    assert made.pause_s(0, one, on("a100", 1), 0.0, False) == pytest.approx(0.5 + 10.0)
    assert made.pause_s(0, on("a100", 1), one, 0.0, False) == 0.5
    # One that has not begun to train waits for whoever joins.
    assert made.pause_s(0, one, on("a100", 1), 7.0, False) == 20.0
    assert made.pause_s(0, two, one, 7.0, False) == 7.0


def test_policies_learn_what_a_restart_costs_from_the_first() -> None:
    made = world(replace(MODEL, restart_s=12.0, assumed_restart_s=30.0))
    assert [made.told.restart_cost_s(0, restarts) for restarts in (0, 1, 2)] == [30.0, 12.0, 12.0]


def test_a_trace_of_an_earlier_version_costs_what_it_did() -> None:
    made = world(replace(MODEL, start_s=None, restart_s=12.0))
    assert made.pause_s(0, None, on("t4", 1), 0.0, True) == 12.0
    assert made.pause_s(0, on("t4", 2), on("t4", 1), 0.0, False) == 12.0
    assert made.told.restart_cost_s(0) == 12.0


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"slowdown": 0.0}, "slowdown 0.0"),
        ({"start_s": np.inf}, "start_s inf"),
        ({"pause_s": -1.0}, "pause_s -1.0"),
    ],
)
def test_what_cannot_have_been_measured_is_refused(changed: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        application_of("a", replace(MODEL, **changed), ["t4"])
    with pytest.raises(ValueError, match="must be at least 1 GPU for more than 0 s"):
        RecordedProfile("t4", 0.0)


def test_where_gpus_are_shared_a_recorded_job_takes_its_duration_and_its_own_time_to_start() -> None:
    uses = RecordedUse(gpu_util=0.2, memory_gib=1.0)
    jobs = [replace(JOB, id=id, duration_s=600.0, restart_s=7.0, ready_after_s=0.0, uses=uses) for id in "abcdef"]
    nodes = read_cluster("4x t4:1")
    options = {"packing": "default", "profiler": {"nodes": 1, "t_prof_s": 40.0, "burst_s": 40.0}}
    source, under = source_of(False, None, nodes), Conditions(Timing(5.0))
    ran = simulation(Workload.of(jobs), nodes, "lucid", options, source, under).run()
    halves = {holding.job for holding in ran.holdings if holding.gpus == 0.5}
    assert len(halves) >= 4, "what they use is in the trace, so that they share GPUs"
    speed = float(pair_speeds.default().of(uses.row[None], uses.row[None])[0])
    assert ran.jct_s.min() == pytest.approx(600 + 7, abs=1)
    assert ran.jct_s.max() <= 5 * 40 + 600 / speed + 7 + 1, "the last one is measured after five others"


def test_a_use_outside_its_range_is_refused_with_its_field() -> None:
    with pytest.raises(ValueError, match="gpu_util: 140 % is not accepted, must be from 0 to 100 %"):
        RecordedUse(gpu_util=1.4)
    with pytest.raises(ValueError, match=r"mixed_precision: 0\.5 is not accepted, must be 0 or 1"):
        RecordedUse(mixed_precision=0.5)
