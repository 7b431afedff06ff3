"""How batches are divided, and what a step is worth, follow from the batch plan and what the loop has shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.training.data.batches import Unit
from coadapt.executor.training.data.units import Part
from coadapt.executor.training.gradients.gradient_noise import GradientNoise
from coadapt.executor.training.losses.loss_weights import LossWeights
from coadapt.executor.training.sessions.loop_state import LoopState
from coadapt.executor.training.sessions.peers import Peers
from coadapt.executor.training.sessions.sample_counts import SampleCounts
from coadapt.executor.training.sessions.step_in_hand import StepInHand
from coadapt.executor.training.sessions.step_scale import StepScale
from coadapt.executor.training.state.training_state import Position


@dataclass
class FewPeers(Peers):
    replicas: int = 1

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def world_size(self) -> int:
        return self.replicas


def silent(sentence: str) -> None:
    raise AssertionError(sentence)


def no_data() -> Any:
    raise AssertionError("nothing is read")


def batch_of(samples: int, *parts: Part) -> Unit:
    return Unit(samples, parts, no_data)


def scale_of(replicas: int = 1, **position: Any) -> tuple[StepScale, LoopState]:
    loop = LoopState(Position(**position), StepInHand())
    scale = StepScale(32, 1, loop, FewPeers(replicas), LossWeights(silent), GradientNoise(initial_batch_size=32))
    return scale, loop


@pytest.mark.parametrize(
    ("replicas", "plan", "local_bsz", "passes"),
    [
        (1, BatchPlan(32), 32, 1),
        (2, BatchPlan(16, 0, 32), 16, 1),
        (2, BatchPlan(8, 1, 32), 8, 2),
    ],
)
def test_a_batch_is_divided_as_the_plan_says(replicas: int, plan: BatchPlan, local_bsz: int, passes: int) -> None:
    scale, _ = scale_of(replicas)
    scale.plan = plan
    assert (scale.split.local_bsz, scale.split.passes, scale.full_batch_size) == (local_bsz, passes, 32)


def test_a_script_that_makes_several_steps_per_batch_is_given_it_in_one_pass() -> None:
    scale, loop = scale_of(2)
    scale.plan = BatchPlan(8, 1, 32)
    assert scale.split.passes == 2
    loop.one_pass = True
    assert scale.split.passes == 1


def test_the_rest_of_an_epoch_counts_as_at_least_the_initial_batch() -> None:
    scale, loop = scale_of(whole=False)
    scale.plan = BatchPlan(128)
    assert (scale.full_batch_size, scale.step_batch_size) == (128, 128)
    for samples, counts_as in ((8, 32), (72, 72), (200, 128)):
        loop.step.ahead = [batch_of(samples)]
        assert scale.step_batch_size == counts_as


def test_batches_that_the_script_adds_up_make_its_initial_batch_size() -> None:
    scale, _ = scale_of(per_step=4)
    assert (scale.initial_batch_size, scale.full_batch_size, scale.gain) == (128, 128, 1.0)


def test_only_samples_of_divided_batches_weigh_a_replica() -> None:
    counts = SampleCounts()
    assert counts.weight == 1.0
    counts.add(batch_of(32, Part(0, 2, 16, 1)))
    assert (counts.local, counts.apart, counts.since) == (16, 16, 16)
    before = counts.now()
    counts.add(batch_of(32, Part(0, 1, 32, 2)))  # computed whole by both replicas
    assert (counts.local, counts.apart, counts.since) == (48, 16, 16)
    counts.add(batch_of(32, Part(0, 1, 32, 2, counts=False)))  # the other one's turn
    assert counts.local == 48
    counts.go_back(before)
    assert (counts.local, counts.weight) == (16, 16.0)


def test_a_loop_is_behind_only_where_it_counts_what_it_takes() -> None:
    _, loop = scale_of(batch=3)
    assert not loop.is_behind
    loop.by_next = True
    assert loop.is_behind
    loop.given = 3
    assert not loop.is_behind
