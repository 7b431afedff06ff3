"""Under the semantics of Sia's published simulator, policies know and decide what they do there."""

from __future__ import annotations

import numpy as np
from coadapt.policies.contract.round import Round
from coadapt.policies.pollux import PolluxOptions
from coadapt.simulator.compat.sia_artifact import ArtifactKnowledge, ArtifactSia
from coadapt.simulator.compat.sia_pollux import ArtifactPollux, BlindKnowledge
from coadapt.simulator.jobs.adaptive import Batch, Observation
from coadapt.simulator.jobs.applications import Application
from coadapt.simulator.jobs.step_times import StepTime
from coadapt.simulator.jobs.training_statistics import TrainingStatistics

from tests.support.rounds import cluster, job

MIXED = cluster("2x t4:4, 1x a100:8")
QUICK = PolluxOptions(population=30, generations=30)


class Linear:
    """A hundredth of a second per sample, and a second more where replicas wait for each other."""

    def at(self, shape: tuple[int, ...], local_bsz: float) -> StepTime:
        sync_s = 1.0 if sum(shape) > 1 else 0.0
        return StepTime(0.01 + 0.01 * local_bsz + sync_s, sync_s)

    def sizes(self, shape: tuple[int, ...]) -> tuple[float, float]:
        return 8.0, 64.0

    def samples(self) -> list[tuple[tuple[int, ...], int]]:
        return [((1,), 8), ((1,), 64)]


def application(largest: float = 4096.0) -> Application:
    one = np.ones((2, 1))
    statistics = TrainingStatistics(np.array([32.0, largest]), one, one, 100 * one)
    return Application("net", statistics, {"t4": Linear(), "a100": Linear()}, 30.0, 1)


def seen(gpu_type: str, *shape: int, local_bsz: int = 32) -> Observation:
    time = Linear().at(shape, local_bsz)
    return Observation(gpu_type, shape, Batch(local_bsz, 0), time, grad_sqr=1.0, grad_var=100.0)


def given_to(batch_size: int) -> int:
    """Return the GPUs that Sia gives to a job which ran on 4, alone on the cluster."""
    knowledge = ArtifactKnowledge([application()], [batch_size])
    for observation in (seen("t4", 1), seen("t4", 2), seen("t4", 4)):
        knowledge.observe(0, observation)
    assert knowledge.choose(0, "t4", (4,)).total(4) > 64
    views = [job("0", known=False, age_s=3600.0)]
    return ArtifactSia(knowledge, int).plan(Round(3600.0, 60.0, MIXED, views)).placements["0"].gpus


def test_the_traces_batch_size_bounds_what_the_policy_hopes_for_but_not_what_the_job_trains_with() -> None:
    assert given_to(4096) == given_to(0) == 8
    assert given_to(64) < 8


def test_to_pollux_all_gpu_types_are_one_and_what_was_measured_is_not_measured_again() -> None:
    knowledge = BlindKnowledge([application()], [0])
    knowledge.observe(0, seen("t4", 1))
    fit = knowledge.of[0].fits["any"]
    slower = Observation("a100", (1,), Batch(32, 0), StepTime(9.0, 0.0), 1.0, 100.0)
    knowledge.observe(0, slower)
    assert list(knowledge.of[0].fits) == ["any"]
    np.testing.assert_array_equal(knowledge.of[0].fits["any"], fit)
    # What was learnt on a T4 chooses the batch on an A100.
    assert knowledge.choose(0, "a100", (1,)) == knowledge.choose(0, "t4", (1,))


def test_pollux_starts_jobs_on_one_gpu_and_at_most_doubles_them_on_one_gpu_type() -> None:
    knowledge = BlindKnowledge([application()] * 3, [0] * 3)
    policy = ArtifactPollux(knowledge, int, QUICK)
    views = [job(str(i), known=False, age_s=60.0) for i in range(3)]
    first = policy.plan(Round(60.0, 60.0, MIXED, views)).placements
    assert {id: placement.gpus for id, placement in first.items()} == {"0": 1, "1": 1, "2": 1}
    for i in range(3):
        knowledge.observe(i, seen("t4", 1))
    old = [job(str(i), known=False, age_s=1e5, placement=first[str(i)], attained_gpu_s=1.0 * i) for i in range(3)]
    grown = policy.plan(Round(1e5, 60.0, MIXED, old)).placements
    assert {placement.gpus for placement in grown.values()} == {2}
    for placement in grown.values():
        assert {MIXED.by_id[share.node_id].gpu_type for share in placement.shares} == {placement.gpu_type}


def test_pollux_leaves_a_job_where_it_is_when_a_restart_would_eat_its_gain() -> None:
    knowledge = BlindKnowledge([application()], [0])
    policy = ArtifactPollux(knowledge, int, QUICK)
    fresh = job("0", known=False, age_s=60.0)
    first = policy.plan(Round(60.0, 60.0, MIXED, [fresh])).placements
    knowledge.observe(0, seen("t4", 1))
    tired = job("0", known=False, age_s=120.0, restarts=4, placement=first["0"])
    assert policy.plan(Round(120.0, 60.0, MIXED, [tired])).placements == first
