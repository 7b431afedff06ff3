"""The published examples of profiling and memory come out as printed (Synergy, OSDI'22; checks A5 and A7)."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.cpu_plan import next_cpus
from coadapt.estimators.sensitivity.choices import Share, best_case, choices
from coadapt.estimators.sensitivity.measured import MeasuredSensitivity, Reading
from coadapt.estimators.sensitivity.model import speed

SHARE = Share(cpus=3.0, memory_gib=62.5, most_cpus=24.0, most_memory_gib=500.0)
CPUS, MEMORY = range(1, 25), range(50, 501, 50)


def res18(cpus: float) -> float:
    """Samples/s that so many CPUs prepare for ResNet18."""
    return 100.0 * min(cpus, 9.0) ** 0.758


def selected() -> dict[int, float]:
    """Return what is measured of ResNet18, at the points that are chosen."""
    measured: dict[int, float] = {}
    while (cpus := next_cpus(measured, 24, 3)) is not None:
        measured[cpus] = res18(cpus)
    return measured


def test_few_points_are_measured_instead_of_a_grid() -> None:
    assert len(CPUS) * len(MEMORY) == 240
    assert len(CPUS) == 24
    assert len(selected()) == 8


def epoch_s(samples: int, cached: int, read_s: float, prepare_s: float, step_s: float, ahead: int = 64) -> float:
    """Return what a real epoch takes: each stage works on one sample at a time, and is ahead of the next by a few.

    `cached`: of the samples, drawn at random, so many take no time to read.
    """
    hits = np.zeros(samples, bool)
    hits[np.random.default_rng(1).permutation(samples)[:cached]] = True
    read, prepared, stepped = (np.zeros(samples + ahead) for _ in range(3))  # when each sample is, from `ahead` on
    for at in range(samples):
        now = at + ahead
        read[now] = max(read[now - 1], prepared[at]) + (0.0 if hits[at] else read_s)
        prepared[now] = max(prepared[now - 1], read[now], stepped[at]) + prepare_s
        stepped[now] = max(stepped[now - 1], prepared[now]) + step_s
    return float(stepped[-1])


@pytest.mark.parametrize("cpus", [1, 3, 5, 9])
@pytest.mark.parametrize("memory_gib", [62.5, 150.0, 300.0, 500.0])
def test_speeds_that_are_computed_are_within_three_percent_of_epochs_with_a_cache(
    cpus: int, memory_gib: float
) -> None:
    samples, dataset_gib, process_gib, stored_per_s, gpu_per_s = 4000, 400.0, 20.0, 150.0, 500.0
    reading = Reading(dataset_gib, samples, stored_per_s * dataset_gib / samples, process_gib)
    model = MeasuredSensitivity.fit(selected().items(), reading)
    cached = int(samples * min((memory_gib - process_gib) / dataset_gib, 1.0))
    truth = samples / epoch_s(samples, cached, 1 / stored_per_s, 1 / res18(cpus), 1 / gpu_per_s)
    assert speed(model, 1, cpus, memory_gib, gpu_per_s) == pytest.approx(truth, rel=0.03)


def test_a_job_that_reads_much_is_about_twice_as_fast_with_the_memory_of_a_node() -> None:
    # OpenImages: 645 GB, of which the storage gives 301 while the GPU has an epoch's work.
    images = Reading(dataset_gib=645.0, samples=1000, storage_gib_per_s=301.0, process_gib=20.0)
    found = MeasuredSensitivity.fit([(3, 5000.0)], images)  # CPUs are no limit
    share, all_of_it = (float(speed(found, 1, 3.0, memory, 1000.0)) for memory in (62.5, 500.0))
    assert 1.9 < all_of_it / share < 2.1
    assert all_of_it == 1000.0


def test_a_job_that_needs_its_processes_memory_only_gains_by_no_more() -> None:
    text = Reading(dataset_gib=1.0, samples=1000, storage_gib_per_s=50.0, process_gib=20.0)
    found = MeasuredSensitivity.fit([(1, 5000.0)], text)
    assert speed(found, 1, 1.0, np.array([20.0, 62.5, 500.0]), 1000.0).tolist() == [1000.0] * 3
    assert best_case(found, 1, SHARE, 1000.0) == (1.0, 20.0)
    with pytest.raises(ValueError, match="a share of 10 per GPU is less than the 20 GiB"):
        choices(found, 1, Share(3.0, 10.0, 24.0, 80.0), 1000.0)
