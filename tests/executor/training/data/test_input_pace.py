"""Loader workers of an emulated node take as long for a sample as the described machine would."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from coadapt.core.input_profile import InputProfile
from coadapt.executor.protocol.messages import PACE_JSON
from coadapt.executor.training.caching.cached_read import CachedRead
from coadapt.executor.training.caching.node_cache import NodeCache
from coadapt.executor.training.caching.shared_cache import SharedCache
from coadapt.executor.training.data import input_pace
from coadapt.executor.training.data.input_pace import GIB, InputPace

PROFILE = InputProfile(cpus=[1, 2, 4], prepared=[100, 200, 300], dataset_gib=8.0, storage_gib_per_s=0.5)


class Clock:
    """Time that passes only where somebody works or sleeps."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds


class Disk:
    def __init__(self, clock: Clock) -> None:
        self.clock, self.until_s = clock, 0.0

    def reserve(self, seconds: float) -> float:
        self.until_s = max(self.until_s, self.clock()) + seconds
        return self.until_s


def pace(clock: Clock, workers: int = 1, samples: int = 1000, time_scale: float = 1.0) -> InputPace:
    return InputPace(PROFILE, workers, samples, time_scale, clock, clock.pass_by)


@pytest.mark.parametrize(("workers", "seconds"), [(1, 0.01), (2, 0.01), (3, 3 / 250), (4, 4 / 300), (8, 8 / 300)])
def test_all_workers_together_prepare_what_the_profile_says(workers: int, seconds: float) -> None:
    assert pace(Clock(), workers).sample_s == pytest.approx(seconds)
    assert pace(Clock(), workers, time_scale=10.0).sample_s == pytest.approx(seconds / 10)


def test_real_work_counts_and_what_took_too_long_is_taken_off_later() -> None:
    clock = Clock()
    worker = pace(clock)
    for work_s in (0.004, 0.014, 0.002, 0.0):
        with worker.sample():
            clock.pass_by(work_s)
    assert clock.now_s == pytest.approx(0.04)


def test_a_sample_from_the_storage_is_there_when_it_is_read_and_prepared() -> None:
    clock = Clock()
    worker, disk = pace(clock), Disk(clock)
    with worker.sample():  # 8 GiB / 1000 / 0.5 GiB/s = 16 ms
        worker.read(disk)
    assert clock.now_s == pytest.approx(0.016)
    with worker.sample():  # it is kept
        pass
    assert clock.now_s == pytest.approx(0.026)


def test_samples_of_a_larger_data_set_are_smaller_and_take_as_much_of_the_cache_in_all() -> None:
    many = PROFILE.model_copy(update={"samples": 4000})
    clock = Clock()
    worker, disk = InputPace(many, 1, 1000, 1.0, clock, clock.pass_by), Disk(clock)
    worker.read(disk)
    assert disk.until_s == pytest.approx(0.004)
    assert worker.charge == 8 * GIB // 1000


def test_a_cached_read_waits_for_the_storage_once_and_counts_as_much_as_the_profile_says(tmp_path: Path) -> None:
    cache, clock = NodeCache(tmp_path / "home" / "job", 4 * GIB), Clock()
    read, worker = CachedRead(lambda key: b"toy", cache), pace(clock, samples=4)
    for key in (0, 1, 2, 0, 1, 2):
        with worker.sample():
            read(key)
    assert (cache.shared.count, cache.shared.charged) == (2, 4 * GIB), "half of the samples fit"


def test_processes_of_a_node_share_its_storage(tmp_path: Path) -> None:
    one, other = SharedCache(tmp_path), SharedCache(tmp_path)
    first = one.reserve(100.0)
    assert other.reserve(50.0) == pytest.approx(first + 50.0, abs=1e-3)


def test_the_environment_says_whether_input_is_paced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PACE_JSON, raising=False)
    assert input_pace.input_pace(2, 10) is None
    monkeypatch.setenv(PACE_JSON, json.dumps({"profile": "bert", "time_scale": 2.0}))
    assert input_pace.input_pace(2, 10) is None
    told = {"profile": "bert", "time_scale": 2.0, "input": PROFILE.model_dump()}
    monkeypatch.setenv(PACE_JSON, json.dumps(told))
    found = input_pace.input_pace(2, 10)
    assert found is not None
    assert (found.profile, found.workers, found.samples, found.time_scale) == (PROFILE, 2, 10, 2.0)
