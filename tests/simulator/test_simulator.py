"""A simulated cluster does with a trace exactly what its jobs, its nodes and its policy say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from coadapt.core.cluster import Cluster
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.errors import Stuck
from coadapt.simulator.engine.outages import Failures
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.knowledge import LearningKnowledge
from coadapt.simulator.run import simulate
from coadapt.simulator.synthetic import synthetic
from coadapt.simulator.traces.cluster_file import cluster_of, read_cluster
from coadapt.simulator.traces.workload import TraceJob, Workload
from hypothesis import given, settings
from hypothesis import strategies as st

RESTART_S = 40.0
EVENTS = Timing(events=True)
EVERY_MINUTE = Timing(60.0)


def job(id: str, submit_s: float, gpus: int, duration_s: float) -> TraceJob:
    return TraceJob(id, submit_s, gpus, duration_s)


def run(policy: str, cluster: str, timing: Timing, *jobs: TraceJob) -> Outcome:
    world = FixedLengthWorld(Workload.of(jobs), lambda gpus: RESTART_S)
    return Engine(world, cluster_of(cluster), make_policy(policy), timing).run()


def finished(outcome: Outcome) -> dict[str, float]:
    return dict(zip(outcome.workload.ids, outcome.finished_s.tolist(), strict=True))


def test_fifo_lets_nobody_past_the_head_of_the_queue() -> None:
    outcome = run(
        "fifo", "1x v100:4", EVENTS,
        job("first", 0, 3, 100), job("large", 10, 4, 50), job("small", 20, 1, 5), job("last", 160, 2, 10),
    )  # fmt: skip
    assert finished(outcome) == {"first": 100, "large": 150, "small": 155, "last": 170}
    assert outcome.queueing_s.tolist() == [0, 90, 130, 0]


def test_sjf_serves_the_shortest_that_waits() -> None:
    outcome = run(
        "sjf", "1x v100:1", EVENTS, job("runs", 0, 1, 100), job("long", 1, 1, 90), job("short", 2, 1, 10)
    )
    assert finished(outcome) == {"runs": 100, "short": 110, "long": 200}


def test_srtf_stops_a_job_for_a_shorter_one_and_the_stop_costs_a_restart() -> None:
    outcome = run("srtf", "1x v100:1", EVERY_MINUTE, job("long", 0, 1, 600), job("short", 60, 1, 30))
    # Seen at 60 s and done at 90; the long one, with 540 s and its restart to go, starts again at 120.
    assert finished(outcome) == {"short": 90, "long": 120 + RESTART_S + 540}
    assert outcome.preemptions.tolist() == [1, 0]
    assert outcome.restarts.tolist() == [1, 0]


def test_las_prefers_who_was_served_least_in_levels() -> None:
    jobs = job("old", 0, 2, 20_000), job("new", 12_000, 2, 600)
    outcome = run("las", "1x v100:2", EVERY_MINUTE, *jobs)
    # `old` passes 18,000 GPU-seconds at 9,000 s and falls to the lower level.
    assert finished(outcome)["new"] == 12_600
    one_level = Engine(
        FixedLengthWorld(Workload.of(jobs), lambda gpus: RESTART_S),
        cluster_of("1x v100:2"),
        make_policy("las", thresholds_gpu_s=(1e9,)),
        EVERY_MINUTE,
    ).run()
    assert finished(one_level) == {"old": 20_000, "new": 20_040 + 600 - 0}


def test_a_job_within_a_node_takes_the_fullest_that_fits_and_a_larger_one_whole_nodes() -> None:
    outcome = run(
        "fifo", "3x v100:8", EVENTS,
        job("five", 0, 5, 1000), job("two", 1, 2, 1000), job("sixteen", 2, 16, 10), job("one", 3, 1, 10),
    )  # fmt: skip
    # 5 + 2 + 1 share a node, so that two whole nodes are left at once.
    assert finished(outcome) == {"five": 1000, "two": 1001, "sixteen": 12, "one": 13}


def test_a_job_that_the_cluster_cannot_hold_ends_the_run_with_its_name() -> None:
    with pytest.raises(Stuck, match="big"):
        run("fifo", "1x v100:4", EVENTS, job("small", 0, 1, 5), job("big", 1, 5, 5))


def test_a_job_whose_node_fails_goes_on_elsewhere_from_its_last_checkpoint() -> None:
    failing = next(c for c in Failures(2000.0, 1e6, 0).changes(cluster_of("2x v100:1")))
    jobs = [job("a", 0, 1, 10_000), job("b", 0, 1, 10_000)]
    engine = Engine(
        FixedLengthWorld(Workload.of(jobs), lambda gpus: RESTART_S),
        cluster_of("2x v100:1"),
        make_policy("fifo"),
        EVENTS,
        failures=Failures(2000.0, 50.0, 0),
        checkpoint_s=600.0,
    )
    outcome = engine.run()
    assert outcome.failures.sum() >= 1
    # Nothing but the failures costs anything: what was done since a checkpoint, and a restart each.
    extra = outcome.held_s - 10_000
    assert np.all(extra >= outcome.failures * RESTART_S - 1e-6)
    assert np.all(extra <= outcome.failures * (RESTART_S + 600.0) + 1e-6)
    assert 0 < failing.time_s < 20_000


def test_a_round_has_its_jobs_in_order_of_submission_whoever_was_ready_first() -> None:
    measured = TraceJob("measured", 0.0, 1, 300.0, ready_after_s=100.0)
    world = FixedLengthWorld(Workload.of([measured, job("known", 10.0, 1, 300.0)]))
    seen: list[list[str]] = []

    def watch(round: Round, plan: Plan) -> None:
        seen.append([view.id for view in round.jobs])

    Engine(world, cluster_of("1x t4:2"), make_policy("fifo"), EVERY_MINUTE, watch=watch).run()
    assert seen[:2] == [["known"], ["measured", "known"]]


def test_virtual_clusters_share_nothing() -> None:
    jobs = [
        TraceJob("a1", 0, 1, 100, virtual_cluster="a"),
        TraceJob("a2", 1, 1, 100, virtual_cluster="a"),
        TraceJob("b1", 2, 1, 100, virtual_cluster="b"),
    ]
    parts = {"a": cluster_of("1x v100:1", "a-"), "b": cluster_of("1x v100:1", "b-")}
    cluster = read_cluster("1x v100:1").__class__(parts)

    def engine(part: Workload, on: Cluster) -> Engine:
        return Engine(FixedLengthWorld(part), on, make_policy("fifo"), EVENTS)

    outcome = simulate(Workload.of(jobs), cluster, engine)
    assert finished(outcome) == {"a1": 100, "a2": 200, "b1": 102}
    with pytest.raises(ValueError, match=r"pool 'c'; the cluster has a, b"):
        simulate(Workload.of([TraceJob("x", 0, 1, 1, virtual_cluster="c")]), cluster, engine)


def test_rounds_of_all_pools_come_in_one_order_of_time_and_each_pool_is_as_by_itself(tmp_path: Path) -> None:
    (tmp_path / "pools.yaml").write_text('pools: {a: "1x v100:2", b: "1x v100:1"}\n')
    cluster = read_cluster(str(tmp_path / "pools.yaml"))
    rows = [("a", 0, 1, 70), ("a", 5, 2, 200), ("a", 900, 1, 30), ("b", 1, 1, 500), ("b", 90, 1, 40)]
    jobs = [
        TraceJob(f"{vc}{i}", t, gpus, s, virtual_cluster=vc)
        for i, (vc, t, gpus, s) in enumerate(sorted(rows, key=lambda row: row[1]))
    ]
    rounds: list[tuple[float, str]] = []

    class Noting:
        def __init__(self, pool: str) -> None:
            self.pool, self.policy = pool, make_policy("fifo")

        def plan(self, round: Round) -> Plan:
            rounds.append((round.now, self.pool))
            return self.policy.plan(round)

    def engine(part: Workload, on: Cluster) -> Engine:
        return Engine(FixedLengthWorld(part), on, Noting(on.nodes[0].pool), EVERY_MINUTE)

    whole = finished(simulate(Workload.of(jobs), cluster, engine))
    assert [now for now, _ in rounds] == sorted(now for now, _ in rounds)
    assert {pool for _, pool in rounds} == {"a", "b"}
    for pool, part in cluster.parts.items():
        own = Workload.of([job for job in jobs if job.virtual_cluster == pool])
        assert finished(engine(own, part).run()).items() <= whole.items()


traces = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(1, 12), st.integers(0, 1500)), min_size=1, max_size=25
)


@settings(max_examples=60)
@given(traces, st.sampled_from(["fifo", "sjf", "srtf", "las"]), st.sampled_from([EVENTS, EVERY_MINUTE]))
def test_no_work_is_lost_and_no_gpu_held_twice(
    rows: list[tuple[int, int, int]], policy: str, timing: Timing
) -> None:
    if policy in ("srtf", "las"):
        timing = EVERY_MINUTE
    jobs = [job(str(i), *row) for i, row in enumerate(sorted(rows))]
    outcome = run(policy, "2x t4:4, 1x a100:8", timing, *[j for j in jobs if j.gpus <= 8] or [job("0", 0, 1, 1)])
    workload = outcome.workload
    assert np.all(outcome.held_s >= workload.duration_s - 1e-6)
    most = workload.duration_s + outcome.preemptions * RESTART_S
    np.testing.assert_allclose(outcome.held_s, most, atol=1e-6)
    np.testing.assert_allclose(outcome.attained_gpu_s, outcome.held_s * workload.gpus, atol=1e-3)
    assert np.all(outcome.queueing_s >= -1e-6)
    held = dict.fromkeys(("t4", "a100"), 0)
    now: dict[int, tuple[str, int]] = {}
    for holding in outcome.holdings:
        before = now.pop(holding.job, None)
        if before is not None:
            held[before[0]] -= before[1]
        if holding.gpus:
            held[holding.gpu_type] += holding.gpus
            now[holding.job] = holding.gpu_type, holding.gpus
            assert held[holding.gpu_type] <= 8
    assert not now
    again = run(policy, "2x t4:4, 1x a100:8", timing, *[j for j in jobs if j.gpus <= 8] or [job("0", 0, 1, 1)])
    np.testing.assert_array_equal(again.finished_s, outcome.finished_s)


def test_epochs_that_end_within_the_resolution_of_the_clock_do_not_stop_time() -> None:
    workload = synthetic(6, 60.0, 0)
    applications = FittedApplications(["a100"])
    jobs = [applications[name] for name in workload.applications]
    world = AdaptiveWorld(workload, jobs, LearningKnowledge(workload, jobs))
    outcome = Engine(world, cluster_of("2x a100:8"), make_policy("sia"), EVENTS).run()
    assert np.isfinite(outcome.finished_s).all()
    assert np.all(outcome.finished_s > workload.submit_s)
