"""The figures of a run are what one computes by hand from who held what when."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.core.training_config import Adaptivity
from coadapt.policies.catalogue import make_policy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.results.fairness import contention_of, rate_on_share, ratios, unfair_fraction, worst
from coadapt.simulator.results.isolated_baseline import IsolatedBaseline, Kind, finish_time_fairness, work_gpu_s
from coadapt.simulator.results.metrics import (
    MEANING,
    active_over_time,
    figures,
    gpu_hours,
    gpu_hours_by_application,
    held_over_time,
    spread,
)
from coadapt.simulator.run import simulate
from coadapt.simulator.traces.cluster_file import SimulatedCluster, cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

ADAPTS = Kind("cifar10", Adaptivity.ADAPTIVE, 0, 0)


def fifo(cluster: str, *jobs: TraceJob) -> Outcome:
    world = FixedLengthWorld(Workload.of(jobs))
    return Engine(world, cluster_of(cluster), make_policy("fifo"), Timing(events=True)).run()


@pytest.fixture(scope="module")
def queue() -> Outcome:
    """Return a run on two GPUs: `a` has one from 0 to 100, `b` two from 100 to 150, `c` two from 150 to 160."""
    jobs = TraceJob("a", 0, 1, 100), TraceJob("b", 10, 2, 50), TraceJob("c", 20, 2, 10)
    return fifo("1x t4:2", *jobs)


def test_figures_of_three_jobs_in_a_queue(queue: Outcome) -> None:
    found = figures(queue, finish_time_fairness(queue, None), work_gpu_s(queue, None))
    assert found["mean_jct_h"] * 3600 == pytest.approx((100 + 140 + 140) / 3)
    assert found["p50_jct_h"] * 3600 == pytest.approx(140)
    assert found["p90_jct_h"] * 3600 == found["p99_jct_h"] * 3600 == pytest.approx(140)
    assert found["makespan_h"] * 3600 == pytest.approx(160)
    assert found["mean_queueing_h"] * 3600 == pytest.approx((0 + 90 + 130) / 3)
    assert found["gpu_hours_per_job"] * 3600 == pytest.approx((100 + 100 + 20) / 3)
    # 220 GPU-seconds held, all of them training, of 2 x 160.
    assert found["utilisation"] == pytest.approx(220 / 320)
    assert found["goodput_gpus"] == pytest.approx(220 / 160)
    assert found["restarts_per_job"] == 0
    assert set(MEANING) <= set(found)


def test_contention_is_the_mean_of_who_is_there_over_a_jobs_own_time(queue: Outcome) -> None:
    count = contention_of(queue.workload.submit_s, queue.finished_s)
    # Beside a there is 1 job for 10 s, 2 for 10 s, 3 for 80 s. Beside b: 2 for 10, 3 for 80, 2 for 50. Beside c: 3
    # for 80, 2 for 50, 1 for 10.
    assert count.tolist() == pytest.approx([(10 + 20 + 240) / 100, (20 + 240 + 100) / 140, (240 + 100 + 10) / 140])
    assert contention_of(np.array([5.0]), np.array([5.0])).tolist() == [1.0]


def test_fairness_of_the_queue_by_hand(queue: Outcome) -> None:
    rho = finish_time_fairness(queue, None)
    count = np.array([2.7, 360 / 140, 350 / 140])
    # Fair shares of 2 / count GPUs: less than each asks for, so alone it would have them part of the time.
    alone = np.array([100.0, 50, 10]) * np.array([1, 2, 2]) / (2 / count)
    np.testing.assert_allclose(rho, np.array([100, 140, 140]) / alone)
    assert worst(rho) == pytest.approx(140 / 25)
    assert unfair_fraction(rho) == pytest.approx(2 / 3)


def test_fairness_over_two_gpu_types_is_weighted_by_their_gpus() -> None:
    alone_s = np.array([[50.0, 200.0], [50.0, np.nan], [np.nan, np.nan]])
    rho = ratios(np.array([100.0, 100.0, 100.0]), alone_s, np.array([1.0, 3.0]))
    # 1/4 of 2 and 3/4 of 1/2; a job that cannot run on the second type has the first one's alone.
    np.testing.assert_allclose(rho, [0.25 * 2 + 0.75 * 0.5, 2.0, np.nan])
    assert worst(rho) == 2.0
    assert unfair_fraction(rho) == 0.5
    assert np.isnan(worst(rho[2:]))


def test_a_share_between_sizes_is_used_in_slices_and_more_is_never_slower() -> None:
    shares = np.array([0.5, 1.0, 3.0, 4.0, 8.0, 100.0])
    rates = rate_on_share(shares, (1, 2, 4, 8), (100.0, 50.0, 25.0, 40.0))
    np.testing.assert_allclose(rates, [0.005, 0.01, 0.03, 0.04, 0.04, 0.04])


def test_a_job_alone_in_its_cluster_is_fair() -> None:
    outcome = fifo("1x t4:2", TraceJob("only", 5, 2, 60))
    assert finish_time_fairness(outcome, None).tolist() == [1.0]
    assert unfair_fraction(np.array([1.0])) == 0.0


def test_virtual_clusters_have_fair_shares_of_their_own() -> None:
    jobs = [TraceJob(id, 0, 1, 100, virtual_cluster=id[0]) for id in ("a1", "a2", "b1")]
    parts = {"a": cluster_of("1x t4:1", "a-"), "b": cluster_of("1x t4:1", "b-")}
    made = simulate(
        Workload.of(jobs),
        SimulatedCluster(parts),
        lambda part, on: Engine(FixedLengthWorld(part), on, make_policy("fifo"), Timing(events=True)),
    )
    # a1: 100 s against 2 jobs on one GPU; a2: 200 s against 1.5 jobs there; b1 has its cluster to itself.
    np.testing.assert_allclose(finish_time_fairness(made, None), [100 / 200, 200 / 150, 1.0])


def test_gpu_hours_by_job_application_and_type(queue: Outcome) -> None:
    types, hours = gpu_hours(queue)
    assert types == ("t4",)
    np.testing.assert_allclose(hours[:, 0] * 3600, queue.attained_gpu_s)
    assert gpu_hours_by_application(queue)[""]["t4"] * 3600 == pytest.approx(220)


def test_what_is_held_and_who_is_active_over_time(queue: Outcome) -> None:
    times, held = held_over_time(queue)
    assert dict(zip(times.tolist(), held["t4"].tolist(), strict=True)) == {0: 1, 100: 2, 150: 2, 160: 0}
    times, active = active_over_time(queue)
    assert list(zip(times.tolist(), active.tolist(), strict=True)) == [
        (0, 1), (10, 2), (20, 3), (100, 2), (150, 1), (160, 0),
    ]  # fmt: skip


def test_spread_over_traces_is_of_a_sample() -> None:
    found = spread([{"x": 1.0, "y": np.nan}, {"x": 3.0, "y": 2.0}])
    assert found["x"] == (2.0, pytest.approx(np.sqrt(2)))
    assert found["y"] == (2.0, 0.0)


def test_a_job_alone_trains_faster_on_more_gpus_and_is_run_once_per_kind() -> None:
    baseline = IsolatedBaseline(FittedApplications(["t4", "a100"]))
    alone = baseline.alone(ADAPTS, "a100", 8, 16)
    assert alone.gpus == (1, 2, 4, 8, 16)
    assert alone.seconds[0] > alone.seconds[1] > alone.seconds[2] > alone.seconds[3]
    assert baseline.alone(ADAPTS, "a100", 8, 16) is alone
    assert baseline.alone(ADAPTS, "t4", 4, 4).seconds[0] > alone.seconds[0]
    rigid = baseline.alone(Kind("cifar10", Adaptivity.RIGID, 2, 256), "a100", 8, 16)
    assert rigid.gpus == (2,)
    assert baseline.alone(ADAPTS, "h100", 8, 8).gpus == ()
