"""Real GPUs are read by the driver's library: as a device, or of a shared one the job's own processes."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from coadapt.executor.usage.gauge import UNKNOWN, Reading
from coadapt.executor.usage.nvml_gauge import GIB, NvmlGauge, ancestry

from tests.support.fake_nvml import FakeGpu, FakeNvml

BUSY = FakeGpu("GPU-aaaa-1", gpu=80, memory=30, used=10 * GIB)
IDLE = FakeGpu("GPU-bbbb-2", gpu=0, memory=0, used=GIB)


@pytest.mark.parametrize("names", [["1", "0"], ["GPU-bbbb-2", "GPU-aaaa-1"], ["GPU-bbbb", "GPU-aaaa"]])
def test_gpus_are_found_by_the_names_that_processes_are_given(names: list[str]) -> None:
    assert NvmlGauge(FakeNvml(BUSY, IDLE), names).read() == [Reading(0.0, 0.0, 1.0), Reading(0.8, 0.3, 10.0)]


def test_a_gpu_that_the_driver_does_not_know_is_unknown_and_not_idle() -> None:
    gauge = NvmlGauge(FakeNvml(BUSY), ["0", "3"])
    assert gauge.sees_any
    assert gauge.read() == [Reading(0.8, 0.3, 10.0), UNKNOWN]
    assert not NvmlGauge(FakeNvml(), ["0"]).sees_any


def test_figures_that_a_gpu_does_not_support_are_unknown_one_by_one() -> None:
    divided = FakeGpu(gpu=None, used=2 * GIB)
    assert NvmlGauge(FakeNvml(divided), ["0"]).read() == [Reading(None, None, 2.0)]
    lost = FakeGpu(gpu=None, used=None)
    assert NvmlGauge(FakeNvml(lost), ["0"]).read() == [UNKNOWN]


def test_handles_are_kept_and_each_reading_asks_twice() -> None:
    nvml = FakeNvml(BUSY)
    gauge = NvmlGauge(nvml, ["0"])
    for _ in range(10):
        gauge.read()
    assert nvml.calls == {"handle": 1, "utilisation": 10, "memory": 10}


def shared(pid: int, **fields: object) -> FakeGpu:
    """Return a GPU on which this process works at 30 % and another one at 50 %."""
    processes = [SimpleNamespace(pid=pid, usedGpuMemory=4 * GIB), SimpleNamespace(pid=1, usedGpuMemory=6 * GIB)]
    samples = [
        SimpleNamespace(pid=pid, timeStamp=100, smUtil=30, memUtil=10),
        SimpleNamespace(pid=1, timeStamp=110, smUtil=50, memUtil=20),
    ]
    return FakeGpu(
        **{"gpu": 80, "memory": 30, "used": 10 * GIB, "processes": processes, "samples": samples} | fields
    )


def test_of_a_shared_gpu_the_jobs_own_processes_count() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        gauge = NvmlGauge(FakeNvml(shared(child.pid)), ["0"], 0.5, os.getpid())
        assert gauge.read() == [Reading(0.3, 0.1, 4.0)]
        assert gauge.read() == [Reading(0.0, 0.0, 4.0)], "samples are of the time since the last reading"
    finally:
        child.communicate()


def test_where_the_driver_names_no_process_of_the_job_it_counts_for_its_share() -> None:
    elsewhere = NvmlGauge(FakeNvml(shared(1)), ["0"], 0.5, os.getpid())
    assert elsewhere.read() == [Reading(0.4, 0.15, 5.0)]
    unsupported = NvmlGauge(FakeNvml(shared(os.getpid(), samples=None)), ["0"], 0.25, os.getpid())
    assert unsupported.read() == [Reading(0.2, 0.075, 2.5)]


def test_of_a_whole_gpu_everything_counts() -> None:
    assert NvmlGauge(FakeNvml(shared(1)), ["0"], 1.0, os.getpid()).read() == [Reading(0.8, 0.3, 10.0)]


def test_a_process_is_followed_up_to_those_that_started_it() -> None:
    assert list(ancestry(os.getpid()))[:2] == [os.getpid(), os.getppid()]
    assert list(ancestry(2**22 + 1)) == [2**22 + 1]
