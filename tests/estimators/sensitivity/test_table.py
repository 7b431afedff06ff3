"""What a user relies on: speeds that were measured on a grid of CPUs and memory are looked up as they are."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.sensitivity.model import speed
from coadapt.estimators.sensitivity.table import SpeedGrid, TabulatedSensitivity

CPUS = np.array([1.0, 3.0, 9.0, 12.0])
MEMORY = np.array([20.0, 62.5, 125.0])


def grid_of(rate: float = 0.758, knee: float = 9.0) -> SpeedGrid:
    """A curve of the specification, section 9.3: r·min(c, k)^a, without a limit by memory."""
    return SpeedGrid(CPUS, MEMORY, np.repeat(np.minimum(CPUS, knee)[:, None] ** rate, 3, axis=1))


@pytest.mark.parametrize(("a", "knee", "to", "gain"), [(0.816, 12, 12, 3.1), (0.758, 9, 9, 2.3)])
def test_known_gains_of_more_cpus(a: float, knee: float, to: float, gain: float) -> None:
    found = TabulatedSensitivity({1: grid_of(a, knee)})
    ratio = speed(found, 1, to, 62.5) / speed(found, 1, 3.0, 62.5)
    assert ratio == pytest.approx(gain, rel=0.01)


def test_a_flat_model_gains_nothing() -> None:
    flat = TabulatedSensitivity({1: SpeedGrid(CPUS, MEMORY, np.ones((4, 3)))})
    assert speed(flat, 1, np.array([1.0, 2.0, 24.0]), 20.0).tolist() == [1.0, 1.0, 1.0]


def test_between_points_the_speed_is_interpolated_and_beyond_them_it_stays() -> None:
    found = SpeedGrid(CPUS, MEMORY, np.array([[1, 1, 1], [3, 3, 3], [3, 6, 9], [3, 6, 9]], float))
    assert found.at(np.array([2.0, 6.0, 30.0, 0.5]), np.array([62.5, 62.5, 500.0, 62.5])).tolist() == [
        2.0,
        4.5,
        9.0,
        0.5,
    ]
    assert found.at(np.array(3.0), np.array(10.0)) == 0.0  # less than was ever tried


def test_entries_that_were_not_measured_count_as_those_before_them() -> None:
    found = SpeedGrid(CPUS, MEMORY, np.array([[1, 1, 1], [2, 2, 2], [0, 0, 0], [0, 0, 0]], float))
    assert found.at(np.array(12.0), np.array(125.0)) == 2.0


def test_all_gpus_together_are_as_fast_as_their_grid_says() -> None:
    found = TabulatedSensitivity({1: grid_of(), 4: SpeedGrid(CPUS, MEMORY, np.ones((4, 3)))})
    assert speed(found, 2, 18.0, 125.0) == pytest.approx(2 * 9**0.758)
    assert speed(found, 8, 24.0, 500.0) == 8.0


def test_the_slower_of_step_and_input_decides() -> None:
    found = TabulatedSensitivity({1: grid_of()})
    assert speed(found, 1, 9.0, 62.5, step_rate=2.0) == 2.0
    assert speed(found, 1, 1.0, 62.5, step_rate=2.0) == 1.0


@pytest.mark.parametrize(
    ("cpus", "memory", "speeds", "told"),
    [
        ([1, 2], [10], [[1.0], [-1.0]], "speed: -1.0 at row 1, column 0; 0 or more is accepted"),
        ([1, 2], [10], [[1.0], [np.nan]], "speed: nan at row 1, column 0; 0 or more is accepted"),
        ([1, 2], [10], [[1.0, 2.0]], r"speed: has shape \(1, 2\); \(2, 1\) is accepted"),
        ([2, 1], [10], [[1.0], [1.0]], "cpus: .* does not ascend"),
        ([0, 1], [10], [[1.0], [1.0]], "cpus: .* is no axis"),
        ([1], [np.inf], [[1.0]], "memory_gib: .* is no axis"),
        ([1], [10], [[0.0]], "speed: is 0 everywhere"),
    ],
)
def test_what_is_no_grid_is_refused(cpus: list, memory: list, speeds: list, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SpeedGrid(np.array(cpus, float), np.array(memory, float), np.array(speeds))


def test_a_share_outside_the_grid_is_refused() -> None:
    found = TabulatedSensitivity({1: grid_of()})
    assert found.refusal(2, 6.0, 125.0) is None
    assert found.refusal(2, 1.0, 125.0) == (
        "cpus: a share of 0.5 per GPU is outside what was measured; 1 to 12 is accepted"
    )
    assert "memory_gib: a share of 10 per GPU" in str(found.refusal(1, 3.0, 10.0))
    with pytest.raises(ValueError, match="at least one number"):
        TabulatedSensitivity({})
