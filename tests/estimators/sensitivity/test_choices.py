"""What a user relies on: what may be chosen is never slower than the share, and the demand is the least that
saturates.
"""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.sensitivity.choices import Share, best_case, choices
from coadapt.estimators.sensitivity.measured import MeasuredSensitivity, Reading
from coadapt.estimators.sensitivity.table import SpeedGrid, TabulatedSensitivity

SHARE = Share(cpus=3.0, memory_gib=62.5, most_cpus=24.0, most_memory_gib=500.0)
CPUS, MEMORY = np.array([1.0, 2, 3, 6, 9, 12]), np.array([20.0, 62.5, 125, 250])


def table_of(rates: list[float], by_memory: list[float]) -> TabulatedSensitivity:
    return TabulatedSensitivity({1: SpeedGrid(CPUS, MEMORY, np.minimum.outer(rates, by_memory))})


HUNGRY = table_of([0.3, 0.6, 1.0, 1.7, 2.0, 2.9], [0.1, 2.0, 2.9, 2.9])
CONTENT = table_of([1.0] * 6, [1.0] * 4)


def test_the_demand_is_the_least_that_saturates() -> None:
    assert best_case(HUNGRY, 1, SHARE) == (12.0, 125.0)
    assert best_case(CONTENT, 1, SHARE) == (1.0, 20.0)
    assert best_case(HUNGRY, 2, SHARE) == (24.0, 250.0)


@pytest.mark.parametrize("seed", range(20))
def test_one_grid_step_less_of_either_is_slower(seed: int) -> None:
    random = np.random.default_rng(seed)
    rates = np.sort(random.integers(1, 6, 6)).astype(float)
    limits = np.sort(random.integers(1, 6, 4)).astype(float)
    found = table_of(rates.tolist(), limits.tolist())
    c, m = best_case(found, 1, SHARE)
    most = found.rate(1, np.array(12.0), np.array(250.0))
    assert found.rate(1, np.array(c), np.array(m)) == most
    for cpus in CPUS[c > CPUS]:
        assert found.rate(1, np.array(cpus), np.array(250.0)) < most
    for memory in MEMORY[m > MEMORY]:
        assert found.rate(1, np.array(c), np.array(memory)) < most


def test_with_a_tolerance_the_demand_is_smaller_and_never_slower_than_the_share() -> None:
    assert best_case(HUNGRY, 1, SHARE, saturation=0.35) == (9.0, 62.5)
    flat_after = table_of([0.97, 0.98, 1.0, 1.0, 1.0, 1.0], [1.0] * 4)
    found = choices(flat_after, 1, SHARE, saturation=0.05)
    assert found.demand == (3.0, 20.0)  # 1 CPU would be within 5 %, but slower than the share
    assert (found.speed >= 1).all()


def test_choices_rise_and_none_asks_for_more_in_vain() -> None:
    found = choices(HUNGRY, 1, SHARE)
    assert (np.diff(found.speed) > 0).all()
    assert found.cpus.tolist() == [3, 6, 9, 12]
    assert found.memory_gib.tolist() == [62.5, 62.5, 62.5, 125]
    assert found.low == 0
    assert found.speed[0] == 1.0
    assert found.speed_with(3.0, 62.5) == 1.0
    assert found.speed_with(24.0, 500.0) == pytest.approx(2.9)


def test_a_slower_gpu_asks_for_less() -> None:
    assert best_case(HUNGRY, 1, SHARE, step_rate=1.7) == (6.0, 62.5)
    assert best_case(HUNGRY, 1, SHARE, step_rate=0.3) == (1.0, 62.5)


def test_a_share_between_grid_points_is_a_choice_itself() -> None:
    found = choices(HUNGRY, 1, Share(4.0, 100.0, 24.0, 500.0))
    assert found.share == (4.0, 100.0)
    assert found.speed[0] == pytest.approx(1.0)
    assert (found.cpus[found.low], found.memory_gib[found.low]) == (4.0, 62.5)  # memory makes no difference there


def test_what_the_user_gave_is_kept() -> None:
    found = choices(HUNGRY, 1, SHARE, cpus=6.0)
    assert set(found.cpus.tolist()) == {6.0}
    assert found.share == (6.0, 62.5)
    assert found.is_wider
    less = choices(HUNGRY, 1, SHARE, cpus=2.0, memory_gib=62.5)
    assert less.demand == (2.0, 62.5)
    assert less.speed.tolist() == [1.0]
    assert not less.is_wider


def test_nothing_known_means_the_share() -> None:
    found = choices(None, 4, SHARE)
    assert found.demand == (12.0, 250.0) == found.share
    assert found.speed_with(1.0, 1.0) == 1.0


def test_without_a_known_cache_memory_stays_at_the_share() -> None:
    found = choices(MeasuredSensitivity.fit([(1, 10), (8, 80)]), 1, SHARE)
    assert set(found.memory_gib.tolist()) == {62.5}
    assert found.demand == (8.0, 62.5)


def test_memory_is_chosen_to_go_with_the_cpus() -> None:
    reading = Reading(dataset_gib=100.0, samples=1000, storage_gib_per_s=1.0, process_gib=5.0)
    found = choices(MeasuredSensitivity.fit([(1, 10), (8, 80)], reading), 1, SHARE)
    assert found.demand == (8.0, pytest.approx(5 + 87.5))
    assert found.share == (3.0, 62.5)
    at = found.low
    assert (found.cpus[at], found.speed[at]) == (3.0, 1.0)  # reading is slower than 3 CPUs' preparation
    assert found.memory_gib[at] <= 62.5


def test_bad_input_is_refused() -> None:
    for wrong in (-0.1, 1.0, float("nan")):
        with pytest.raises(ValueError, match=r"saturation: .* is not accepted"):
            best_case(HUNGRY, 1, SHARE, saturation=wrong)
    with pytest.raises(ValueError, match="outside what was measured"):
        best_case(HUNGRY, 1, Share(3.0, 10.0, 24.0, 80.0))
