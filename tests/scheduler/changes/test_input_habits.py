"""Users are told what CPUs and memory do for a job."""

from __future__ import annotations

import pytest
from coadapt.core.reports import InputRow, MeasuredInput
from coadapt.estimators.measurements import Measurements
from coadapt.scheduler.changes.input_habits import input_habits_of

ROWS = (InputRow(12, 1200.0), InputRow(1, 100.0))
PREPARES = (
    "its loader workers prepare 100 samples/s for a GPU on 1 CPU, and 1200 on 12; 12 CPUs were free to measure it"
)


def test_nothing_is_told_before_it_was_measured() -> None:
    assert input_habits_of(None) == input_habits_of(Measurements()) == []


@pytest.mark.parametrize(
    ("sample_bytes", "stored_per_s", "told"),
    [
        (0.0, 0.0, "it reads nothing by coadapt.cached, so it counts as insensitive to memory"),
        (
            1e5,
            0.0,
            "its storage gives samples as fast as all CPUs prepare them, so more memory makes it no faster",
        ),
        (1e5, 250.0, "its storage gives 250 samples/s; those in the cache come faster"),
    ],
)
def test_it_is_told_what_cpus_and_memory_do(sample_bytes: float, stored_per_s: float, told: str) -> None:
    measured = Measurements(input=MeasuredInput(ROWS, 12, sample_bytes, stored_per_s))
    assert input_habits_of(measured) == [PREPARES, told]


def test_one_cpu_is_told_as_one() -> None:
    measured = Measurements(input=MeasuredInput((InputRow(1, 100.0),), 1))
    assert input_habits_of(measured)[0].endswith("on 1 CPU; 1 CPU was free to measure it")
