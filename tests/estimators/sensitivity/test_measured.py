"""What a user relies on: a few measured points say how fast a job is with other CPUs and other memory."""

from __future__ import annotations

import json

import numpy as np
import pytest
from coadapt.estimators.sensitivity.measured import MeasuredSensitivity, Reading
from coadapt.estimators.sensitivity.model import speed

# A dataset of 100 GiB in 1,000 samples, read at 1 GiB/s: 10 samples/s without a cache.
READING = Reading(dataset_gib=100.0, samples=1000, storage_gib_per_s=1.0, process_gib=5.0)
FOUND = MeasuredSensitivity.fit([(1, 10), (4, 40), (8, 40)], READING)


def test_measured_points_and_those_between_them() -> None:
    assert FOUND.preparation(np.array([0.5, 1.0, 2.0, 4.0, 6.0, 99.0])).tolist() == [5, 10, 20, 40, 40, 40]


def test_points_of_equal_cpus_are_averaged_and_more_cpus_are_never_slower() -> None:
    found = MeasuredSensitivity.fit([(2, 10), (2, 20), (4, 12)])
    assert found.preparation(np.array([2.0, 4.0])).tolist() == [15, 15]


def test_speed_follows_the_part_of_the_dataset_that_memory_holds() -> None:
    # Half is cached at 55 GiB, so that 20 samples/s can be read; all of it at 105 GiB.
    assert FOUND.rate(1, np.array(8.0), np.array([5.0, 55.0, 80.0, 105.0, 500.0])).tolist() == pytest.approx(
        [10, 20, 40, 40, 40]
    )
    assert FOUND.rate(1, np.array(1.0), np.array(55.0)) == 10.0  # preparing is slower
    assert FOUND.rate(1, np.array(8.0), np.array(4.0)) == 0.0  # not even the process has room


def test_several_gpus_share_the_cache_and_the_storage() -> None:
    assert FOUND.rate(2, np.array(16.0), np.array([10.0, 60.0, 110.0])).tolist() == pytest.approx([10, 20, 80])


def test_the_gpu_decides_where_it_is_slower() -> None:
    assert speed(FOUND, 1, 8.0, 500.0, step_rate=25.0) == 25.0
    cpus, memory = FOUND.axes(1, step_rate=20.0)
    assert cpus.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert memory.tolist() == [5.0, 55.0]  # for 10 and for 20 samples/s


def test_without_a_cache_memory_is_no_choice() -> None:
    found = MeasuredSensitivity.fit([(1, 10)])
    assert not found.knows_memory
    assert FOUND.knows_memory
    assert found.rate(1, np.array(1.0), np.array([1.0, 500.0])).tolist() == [10, 10]


def test_memory_for_a_rate_gives_just_that_rate() -> None:
    rates = np.array([11.0, 20.0, 39.0])
    assert READING.rate(1, READING.memory_for(1, rates)) == pytest.approx(rates)


def test_it_survives_json() -> None:
    again = MeasuredSensitivity.of_dict(json.loads(json.dumps(FOUND.to_dict())))
    assert again == FOUND
    plain = MeasuredSensitivity.fit([(1, 10)])
    assert MeasuredSensitivity.of_dict(json.loads(json.dumps(plain.to_dict()))) == plain


@pytest.mark.parametrize(
    ("points", "told"),
    [
        ([], "points: there are none"),
        ([(0, 5)], "cpus: .* is not accepted"),
        ([(1, -5)], "prepared: .* is not accepted"),
        ([(1, float("nan"))], "prepared: .* is not accepted"),
    ],
)
def test_points_that_cannot_be_are_refused(points: list[tuple[float, float]], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        MeasuredSensitivity.fit(points)


def test_reading_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="storage_gib_per_s: 0 is not accepted"):
        Reading(100.0, 1000, 0)
    with pytest.raises(ValueError, match="process_gib: -1 is not accepted"):
        Reading(100.0, 1000, 1.0, -1)


def test_a_share_below_the_processes_memory_is_refused() -> None:
    assert FOUND.refusal(2, 2.0, 10.0) is None
    assert FOUND.refusal(2, 2.0, 9.0) == (
        "memory_gib: a share of 4.5 per GPU is less than the 5 GiB that each GPU's processes need"
    )


@pytest.mark.parametrize(
    ("cpus", "rates", "climbs"),
    [
        ((1,), (10,), True),
        ((1, 2, 3), (10, 20, 30), True),
        ((1, 3, 6), (10, 30, 31), False),
        ((1, 3, 6), (10, 30, 25), False),
        ((7, 8), (100, 107), True),
    ],
)
def test_an_input_climbs_while_more_cpus_made_it_faster(
    cpus: tuple[int, ...], rates: tuple[float, ...], climbs: bool
) -> None:
    assert MeasuredSensitivity.fit(zip(cpus, rates, strict=True)).climbs is climbs
