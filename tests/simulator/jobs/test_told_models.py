"""What policies are told of jobs that train models is what a live job would report of itself."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.core.cluster import Cluster
from coadapt.core.expected import UNKNOWN
from coadapt.core.training_config import Adaptivity
from coadapt.estimators.goodput import JobModel
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.jobs.knowledge import Knows, LearningKnowledge
from coadapt.simulator.jobs.told_models import ToldModels
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

from tests.support.rounds import model

NODES = cluster_of("1x a100:8, 1x t4:4")
ONE = FittedApplications(NODES.gpu_types)["cifar10"]
END = float(ONE.statistics.boundaries[ONE.epochs - 1])
SPEED = {"a100": 512.0 * 4, "t4": 512.0}  # samples/s on one GPU


class Known:
    """Knows the same model of every job, until it knows another."""

    def __init__(self, found: JobModel | None) -> None:
        self.found = found

    def model(self, job: int) -> JobModel | None:
        return self.found


def told(known: Known, *adaptivity: Adaptivity, nodes: Cluster | None = NODES) -> ToldModels:
    jobs = [
        TraceJob(str(i), 0.0, 1, application="cifar10", batch_size=512, adaptivity=one)
        for i, one in enumerate(adaptivity)
    ]
    return ToldModels(Workload.of(jobs), [ONE] * len(jobs), known, nodes)


def test_rigid_jobs_that_train_models_tell_how_long_they_take_as_far_as_their_model_says() -> None:
    rows = [TraceJob(str(n), 0.0, n, application="cifar10", batch_size=512) for n in (1, 4)]
    workload = Workload.of(rows)

    def told(knows: Knows, workload: Workload) -> list[float]:
        knowledge = LearningKnowledge(workload, [ONE, ONE], knows)
        world = AdaptiveWorld(workload, [ONE, ONE], knowledge, cluster=NODES)
        whole = np.full(2, ONE.statistics.boundaries[ONE.epochs - 1])
        start, half = (world.told.remaining_s(np.arange(2), whole * done) for done in (0.0, 0.5))
        assert half.tolist() == pytest.approx((start / 2).tolist(), nan_ok=True)
        return [float(seconds) for seconds in start]

    alone, four = told(Knows.ORACLE, workload.tuned())
    assert 0 < four < alone
    assert told(Knows.NO_PROFILE, workload.tuned()) == pytest.approx([float("nan")] * 2, nan_ok=True)


def test_a_rigid_job_needs_its_steps_left_at_the_speed_of_the_fastest_type() -> None:
    found = told(Known(model(SPEED)), Adaptivity.RIGID)
    steps_per_s = SPEED["a100"] / ONE.initial_batch_size
    left_s = found.remaining_s(np.array([0]), np.array([END / 2]))[0]
    assert left_s == pytest.approx(END / 2 / steps_per_s, rel=0.02)
    assert found.expected(0, END / 2).mean_s == left_s
    assert found.expected(0, 2 * END).mean_s == 0.0


@pytest.mark.parametrize(
    ("known", "adaptivity", "nodes"),
    [
        (model(SPEED), Adaptivity.ADAPTIVE, NODES),
        (None, Adaptivity.RIGID, NODES),
        (model(SPEED), Adaptivity.RIGID, None),
    ],
    ids=["a job whose size is chosen", "a job without a model", "without nodes"],
)
def test_of_other_jobs_nobody_says_how_long_they_need(
    known: JobModel | None, adaptivity: Adaptivity, nodes: Cluster | None
) -> None:
    found = told(Known(known), adaptivity, nodes=nodes)
    assert np.isnan(found.remaining_s(np.array([0]), np.array([0.0]))).all()
    assert found.expected(0, 0.0) == UNKNOWN


def test_a_job_that_has_learned_is_expected_by_its_newest_model() -> None:
    known = Known(model(SPEED))
    found = told(known, Adaptivity.RIGID)
    before = found.expected(0, 0.0).mean_s
    known.found = model({name: 2 * speed for name, speed in SPEED.items()})
    assert found.expected(0, 0.0).mean_s == pytest.approx(before / 2, rel=0.02)


def test_what_is_left_is_told_in_samples_once_some_are_done() -> None:
    found = told(Known(None), Adaptivity.ADAPTIVE)
    assert found.remaining(0, 0.0) is None
    assert found.remaining(0, END / 4) == pytest.approx(0.75 * END * ONE.initial_batch_size)
    assert found.remaining(0, END) == 0.0
