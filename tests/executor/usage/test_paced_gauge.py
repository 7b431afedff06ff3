"""An emulated GPU is as busy as the GPU type that it stands for would be at its pace."""

from __future__ import annotations

import pytest
from coadapt.core.usage import Usage
from coadapt.executor.usage.paced_gauge import PacedGauge
from coadapt.executor.usage.sampler import UsageSums


class Process:
    """A paced process on a clock of its own, whose GPU is read once a second."""

    def __init__(self, gpus: int = 1) -> None:
        self.now = 100.0
        self.gauge = PacedGauge(gpus, clock=lambda: self.now)
        self.sums = UsageSums(self.gauge.emulated)
        self._busy_s = 0.0
        self._told_s = self._read_s = self.now

    def step(self, step_s: float, wall_s: float) -> None:
        """Take one step that its GPU needs `step_s` for; `wall_s` go by until it is over."""
        self.rest(wall_s)
        self._busy_s += step_s
        if self.now - self._told_s >= 1.0:
            self.gauge.told(self._busy_s, step_s)
            self._told_s = self.now

    def rest(self, seconds: float) -> None:
        end = self.now + seconds
        while self._read_s + 1.0 <= end:
            self.now = self._read_s + 1.0
            self.read()
        self.now = end

    def read(self) -> None:
        self.sums.add(self.gauge.read(), self.now - self._read_s)
        self._read_s = self.now

    def used(self) -> Usage:
        self.read()
        return self.sums.take()


@pytest.mark.parametrize(("step_s", "wall_s"), [(0.01, 0.01), (0.01, 0.04), (0.3, 0.5), (7.0, 7.5), (90.0, 100.0)])
def test_it_is_busy_for_the_steps_part_of_the_wall_time(step_s: float, wall_s: float) -> None:
    process = Process()
    for _ in range(round(4000 / wall_s)):
        process.step(step_s, wall_s)
    used = process.used()
    assert used.gpu_util == pytest.approx(step_s / wall_s, rel=0.03)
    assert used.seconds == pytest.approx(4000, rel=0.03)
    assert used.emulated


def test_a_step_of_minutes_is_no_idleness() -> None:
    process = Process()
    process.step(200.0, 200.0)  # nobody knows of it before it is over
    process.used()
    for _ in range(5):
        process.step(200.0, 200.0)
    assert process.used().idle_s == 0


def test_a_process_that_makes_no_step_leaves_its_gpus_idle() -> None:
    process = Process(gpus=2)
    process.rest(180.0)
    used = process.used()
    assert (used.gpu_util, used.idle_gpu_minutes) == (0.0, 6.0)
    assert used.memory_gib is None, "pace profiles say nothing of memory"


def test_what_follows_the_last_step_counts_as_busy_for_a_step_at_most() -> None:
    process = Process()
    for _ in range(10):
        process.step(2.0, 2.0)
    process.used()
    process.rest(100.0)
    assert process.used().gpu_util == pytest.approx(0.02)
