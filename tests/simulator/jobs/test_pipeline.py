"""A step of a pipeline takes its whole schedule, and its replicas are counted in GPUs of all stages."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.jobs.pipeline import PipelineStepTimes
from coadapt.simulator.jobs.step_times import Shape, StepTime, StepTimes


def stage(*shapes: Shape) -> StepTimes:
    """Return a stage that was measured on these GPUs: 0.1 s a sample, 0.04 s of which wait for gradients."""
    tables = {shape: (np.array([1.0, 2.0]), np.array([[0.14, 0.04], [0.24, 0.04]])) for shape in shapes}
    points = np.array([(len(shape), sum(shape), size) for shape in shapes for size in (1.0, 2.0)])
    times = np.array([(step, 0.04) for _ in shapes for step in (0.14, 0.24)])
    return StepTimes("gpt on a100", tables, points, times)


PIPELINE = PipelineStepTimes(stage((2,), (2, 2), (4, 4)), stages=2, micro_batches=48)


def test_a_step_is_three_passes_of_every_micro_batch_through_all_stages_and_one_all_reduce() -> None:
    assert PIPELINE.at((1,), 48) == StepTime(pytest.approx(3 * (2 - 1 + 48) * 0.14 + 0.04), 0.04)


def test_shapes_are_of_replicas_and_the_local_batch_size_is_fixed() -> None:
    assert list(PIPELINE.samples()) == [((1,), 48), ((1, 1), 48), ((2, 2), 48)]
    assert PIPELINE.sizes((2, 2)) == (48.0, 48.0)
    assert [row[:3] for row in PIPELINE.rows()] == [(1, 1, 48), (2, 2, 48), (2, 4, 48)]


def test_what_was_not_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="gpt on a100"):
        PIPELINE.at((8, 8, 8), 48)
    with pytest.raises(ValueError, match="gpt on a100"):
        PIPELINE.sizes((8, 8, 8))


def test_measurements_of_a_part_of_a_replica_tell_nothing_of_replicas() -> None:
    found = PipelineStepTimes(stage((1,), (2,), (1, 2)), stages=2, micro_batches=48)
    assert list(found.samples()) == [((1,), 48)]
    assert [row[:3] for row in found.rows()] == [(1, 1, 48)]
