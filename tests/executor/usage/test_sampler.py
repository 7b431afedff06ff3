"""A sampler reads the GPUs of a process from outside, and tells sums now and then."""

from __future__ import annotations

import threading

import pytest
from coadapt.core.usage import Usage
from coadapt.executor.usage.gauge import Reading
from coadapt.executor.usage.nvml_gauge import GIB, NvmlGauge
from coadapt.executor.usage.sampler import FIRST_S, MOST_S, Growing, Sampler, UsageSums

from tests.support.fake_nvml import FakeGpu, FakeNvml


class Told:
    """What a sampler tells; `more` waits for the next of it."""

    def __init__(self) -> None:
        self.usages: list[Usage] = []
        self._changed = threading.Condition()

    def __call__(self, usage: Usage) -> None:
        with self._changed:
            self.usages.append(usage)
            self._changed.notify_all()


class Reads(FakeNvml):
    """GPUs that tell when they have been read so often."""

    def __init__(self, *gpus: FakeGpu, often: int) -> None:
        super().__init__(*gpus)
        self._often = often
        self.enough = threading.Event()

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> object:
        if self.calls.get("memory", 0) >= self._often:
            self.enough.set()
        return super().nvmlDeviceGetMemoryInfo(handle)


def test_a_closed_sampler_has_told_all_that_it_has_seen() -> None:
    nvml, told = Reads(FakeGpu(gpu=40, memory=10, used=3 * GIB), FakeGpu(gpu=60, used=5 * GIB), often=20), Told()
    sampler = Sampler(lambda: NvmlGauge(nvml, ["0", "1"]), told, interval_s=0.01)
    sampler.start()
    assert nvml.enough.wait(60)
    sampler.close()
    (usage,) = told.usages
    assert usage.gpu_util == pytest.approx(0.5)
    assert usage.memory_util == pytest.approx(0.05)
    assert usage.memory_gib == pytest.approx(4.0)
    assert usage.seconds > 0
    assert not usage.emulated
    sampler.close()
    assert told.usages == [usage]


def test_nothing_is_told_of_gpus_that_nobody_can_read() -> None:
    tried, told = threading.Event(), Told()
    sampler = Sampler(lambda: tried.set(), told)
    sampler.start()
    assert tried.wait(60)
    sampler.close()
    assert told.usages == []


def test_a_fault_of_the_driver_is_unknown_time_and_ends_nothing() -> None:
    class Faulty(Reads):
        def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> object:
            if self.calls.get("memory", 0) < 3:
                self._count("memory")
                raise OSError("the driver was reloaded")
            return super().nvmlDeviceGetUtilizationRates(handle)

    nvml, told = Faulty(FakeGpu(gpu=70), often=10), Told()
    sampler = Sampler(lambda: NvmlGauge(nvml, ["0"]), told, interval_s=0.01)
    sampler.start()
    assert nvml.enough.wait(60)
    sampler.close()
    assert told.usages[0].gpu_util == pytest.approx(0.7)


def test_sums_are_told_soon_first_and_then_at_the_interval_of_reports() -> None:
    telling, at = Growing(0.0, FIRST_S, MOST_S), []
    for second in range(200):
        if telling.due(float(second)):
            telling.done(float(second))
            at.append(second)
    assert at == [2, 6, 14, 30, 60, 90, 120, 150, 180]


def test_of_a_share_the_idle_minutes_count_in_part() -> None:
    sums = UsageSums(emulated=False, share=0.25)
    for _ in range(60):
        sums.add([Reading(0.0), Reading(0.5)], 1.0)
    assert sums.take().idle_gpu_minutes == 0.25
    assert sums.take() == Usage()
