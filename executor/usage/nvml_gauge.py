"""Reads real GPUs by NVML, the library of the NVIDIA driver. Without it, nothing is known and nothing fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .gauge import UNKNOWN, Reading

log = logging.getLogger(__name__)

GIB = 2**30


def open_gauge(names: Sequence[str], share: float, pid: int) -> NvmlGauge | None:
    """Return a gauge of these GPUs of this machine; None: there is no NVML or no such GPU."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception as error:  # the module, the library or the driver is missing, or they do not fit together
        log.info("the use of GPUs is not known: %s", error)
        return None
    gauge = NvmlGauge(pynvml, names, share, pid)
    return gauge if gauge.sees_any else None


class NvmlGauge:
    """Reads GPUs of this machine by name. Their handles are kept open.

    A GPU that the slot holds whole is read as a device. Of a shared one, the driver's figures of the processes
    below `pid` count. Where it names none of them, the job counts for its share of the device.

    Args:
        nvml: the module `pynvml`, initialised.
        names: GPUs as in `CUDA_VISIBLE_DEVICES`: indices, UUIDs or beginnings of UUIDs.
        share: the part of each GPU that the slot holds.
        pid: the process whose use is asked for, with all that it starts.
    """

    emulated = False

    def __init__(self, nvml: Any, names: Sequence[str], share: float = 1.0, pid: int = 0) -> None:
        self._nvml = nvml
        self._share = share
        self._pid = pid
        self._handles = [self._handle(name) for name in names]
        self._seen_us = [0] * len(names)  # the driver's clock at the last sample of processes
        self._ours: dict[int, bool] = {}

    @property
    def sees_any(self) -> bool:
        return any(handle is not None for handle in self._handles)

    def hold(self, share: float) -> None:
        """Read GPUs as ones of which the slot holds another part."""
        self._share = share

    def read(self) -> Sequence[Reading]:
        """Return what each GPU does."""
        return [self._read(at, handle) for at, handle in enumerate(self._handles)]

    def _read(self, at: int, handle: Any) -> Reading:
        if handle is None:
            return UNKNOWN
        if self._share < 1 and (own := self._read_processes(at, handle)) is not None:
            return own
        rates = self._ask(self._nvml.nvmlDeviceGetUtilizationRates, handle)
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo, handle)
        return Reading(
            None if rates is None else rates.gpu / 100 * self._share,
            None if rates is None else rates.memory / 100 * self._share,
            None if memory is None else memory.used / GIB * self._share,
        )

    def _read_processes(self, at: int, handle: Any) -> Reading | None:
        """Return what the job's own processes do on a GPU; None where the driver does not say."""
        running = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        mine = [process for process in running if self._is_ours(process.pid)]
        if not mine:
            return None
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(handle, self._seen_us[at])
        except self._nvml.NVMLError_NotFound:
            samples = []  # no process has worked since
        except self._nvml.NVMLError:
            return None
        self._seen_us[at] = max([self._seen_us[at], *(sample.timeStamp for sample in samples)])
        newest = {sample.pid: sample for sample in sorted(samples, key=lambda sample: sample.timeStamp)}
        own = [sample for pid, sample in newest.items() if self._is_ours(pid)]
        memory = [process.usedGpuMemory for process in mine]
        return Reading(
            min(sum(sample.smUtil for sample in own) / 100, 1.0),
            min(sum(sample.memUtil for sample in own) / 100, 1.0),
            None if None in memory else sum(memory) / GIB,
        )

    def _is_ours(self, pid: int) -> bool:
        if pid not in self._ours:
            self._ours[pid] = self._pid in ancestry(pid)
        return self._ours[pid]

    def _handle(self, name: str) -> Any:
        nvml = self._nvml
        if name.isdecimal():
            # CUDA counts the fastest GPUs first. As all GPUs of a node are alike, that is the driver's order.
            return self._ask(nvml.nvmlDeviceGetHandleByIndex, int(name))
        exact = self._ask(nvml.nvmlDeviceGetHandleByUUID, name)
        if exact is not None:
            return exact
        for index in range(self._ask(nvml.nvmlDeviceGetCount) or 0):
            handle = self._ask(nvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None and str(self._ask(nvml.nvmlDeviceGetUUID, handle)).startswith(name):
                return handle
        return None

    def _ask(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return the driver's answer; None where it has none, as for some figures of a divided GPU (MIG)."""
        try:
            return call(*args)
        except self._nvml.NVMLError:
            return None


def ancestry(pid: int) -> Iterator[int]:
    """Yield a process, its parent, and so on, as far as they live."""
    while pid > 1:
        yield pid
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        pid = int(stat.rpartition(")")[2].split()[1])
