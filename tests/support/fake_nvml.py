"""A driver's library as `pynvml` shows it: GPUs, what they do, and which processes are on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass
class FakeGpu:
    """One GPU. Percentages are 0..100, memory is in bytes. None: the driver does not support that figure."""

    uuid: str = "GPU-0"
    gpu: int | None = 0
    memory: int | None = 0
    used: int | None = 0
    processes: list[SimpleNamespace] = field(default_factory=list)  # pid, usedGpuMemory
    samples: list[SimpleNamespace] | None = field(default_factory=list)  # pid, timeStamp, smUtil, memUtil


class NVMLError(Exception):
    pass


class NVMLError_NotFound(NVMLError):
    pass


class FakeNvml:
    """Stands in for the module `pynvml`, initialised. `calls` counts calls by name."""

    NVMLError = NVMLError
    NVMLError_NotFound = NVMLError_NotFound

    def __init__(self, *gpus: FakeGpu) -> None:
        self.gpus = gpus
        self.calls: dict[str, int] = {}

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        self._count("handle")
        if index >= len(self.gpus):
            raise NVMLError("invalid argument")
        return self.gpus[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> FakeGpu:
        self._count("handle")
        for gpu in self.gpus:
            if gpu.uuid == uuid:
                return gpu
        raise NVMLError_NotFound

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> str:
        return handle.uuid

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> Any:
        self._count("utilisation")
        if handle.gpu is None:
            raise NVMLError("not supported")
        return SimpleNamespace(gpu=handle.gpu, memory=handle.memory)

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> Any:
        self._count("memory")
        if handle.used is None:
            raise NVMLError("not supported")
        return SimpleNamespace(used=handle.used)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> list[SimpleNamespace]:
        return handle.processes

    def nvmlDeviceGetProcessUtilization(self, handle: FakeGpu, since: int) -> list[SimpleNamespace]:
        if handle.samples is None:
            raise NVMLError("not supported")
        found = [sample for sample in handle.samples if sample.timeStamp > since]
        if not found:
            raise NVMLError_NotFound
        return found

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1
