"""A fitted throughput model gives step times of any placement, of which gradients are a part."""

from __future__ import annotations

import pytest
from coadapt.estimators.throughput import ThroughputParams, step_time_s
from coadapt.simulator.jobs.fitted_step_times import FittedStepTimes

PARAMS = ThroughputParams(alpha_c=0.02, beta_c=0.001, alpha_r=0.1, alpha_n=0.3)
TIMES = FittedStepTimes(PARAMS, 4, 256)


@pytest.mark.parametrize("shape", [(1,), (4,), (2, 2), (4, 4, 4, 4)])
def test_a_step_takes_what_the_model_says_and_its_pass_is_without_gradients(shape: tuple[int, ...]) -> None:
    found = TIMES.at(shape, 64)
    assert found.step_s == pytest.approx(float(step_time_s(PARAMS, len(shape), sum(shape), 64, 0, max(shape))))
    two_passes = float(step_time_s(PARAMS, len(shape), sum(shape), 64, 1, max(shape)))
    assert found.step_s + found.pass_s == pytest.approx(two_passes)
    assert found.sync_s >= 0


def test_one_replica_waits_for_nobody_and_more_nodes_wait_longer() -> None:
    assert TIMES.at((1,), 64).sync_s == pytest.approx(0.0, abs=1e-12)
    assert 0 < TIMES.at((2,), 64).sync_s < TIMES.at((1, 1), 64).sync_s


def test_every_shape_has_the_same_sizes_and_samples_lie_between_them() -> None:
    assert TIMES.sizes((8, 8)) == (4.0, 256.0)
    assert TIMES.measured((3, 5))
    sizes = {size for _, size in TIMES.samples()}
    assert (min(sizes), max(sizes), len(sizes)) == (4, 256, 6)
    assert {size for _, size in FittedStepTimes(PARAMS, 8, 8).samples()} == {8}, "each size once"
