"""A sensitivity that is fitted from measurements: preparation by CPUs, and reading by what a cache holds.

The model is that of Synergy (OSDI'22, section 3.1): preparing, reading and training overlap, and the slowest
decides. A cache gives a fixed number of hits in each epoch, so reading follows memory without being measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..cpu_plan import THRESHOLD
from .model import TOLERANCE, Floats


@dataclass(frozen=True)
class Reading:
    """How samples are read.

    dataset_gib: size of all samples. samples: how many there are.
    storage_gib_per_s: bandwidth of the storage. process_gib: memory of each GPU's processes without the cache.

    Raises ValueError, one sentence, for numbers that are not above 0, and for a negative `process_gib`.
    """

    dataset_gib: float
    samples: int
    storage_gib_per_s: float
    process_gib: float = 0.0

    def __post_init__(self) -> None:
        for name in ("dataset_gib", "samples", "storage_gib_per_s"):
            value = getattr(self, name)
            if not 0 < value < np.inf:
                raise ValueError(f"{name}: {value} is not accepted; a number above 0 is")
        if not 0 <= self.process_gib < np.inf:
            raise ValueError(f"process_gib: {self.process_gib} is not accepted; a number of 0 or more is")

    def rate(self, gpus: int, memory_gib: Floats) -> Floats:
        """Return samples/s that can be read with so much memory for all GPUs; 0: too little for the processes."""
        cached = np.asarray(memory_gib, float) - gpus * self.process_gib
        uncached = np.clip(1.0 - cached / self.dataset_gib, 0.0, 1.0)
        bandwidth = self.storage_gib_per_s / self.dataset_gib * self.samples
        with np.errstate(divide="ignore"):
            rate = np.where(uncached > 0, bandwidth / uncached, np.inf)
        return np.where(cached < -1e-9, 0.0, rate)

    def memory_for(self, gpus: int, rate: Floats) -> Floats:
        """Return the least memory, GiB, with which so many samples/s can be read."""
        bandwidth = self.storage_gib_per_s / self.dataset_gib * self.samples
        with np.errstate(divide="ignore"):
            cached = np.clip(1.0 - bandwidth / np.asarray(rate, float), 0.0, 1.0) * self.dataset_gib
        return gpus * self.process_gib + cached


@dataclass(frozen=True)
class MeasuredSensitivity:
    """A sensitivity from a few measured points.

    cpus: CPU counts of one GPU at which preparation was measured, ascending.
    prepared: samples/s that they prepared for one GPU. A count that is slower than a smaller one counts as that.
    reading: how samples are read; None: the job's script has no cache that is known, so memory is no choice.

    Between points the rate is interpolated linearly, and below the first it is in proportion to the CPUs. Beyond
    the last it stays as it is.

    Raises ValueError, one sentence, for points that cannot be.
    """

    cpus: tuple[float, ...]
    prepared: tuple[float, ...]
    reading: Reading | None = None

    def __post_init__(self) -> None:
        if not self.cpus or len(self.cpus) != len(self.prepared):
            raise ValueError(
                f"prepared: {len(self.prepared)} rates for {len(self.cpus)} CPU counts; one for each is accepted"
            )
        axis = np.array(self.cpus, float)
        if not (np.isfinite(axis).all() and axis[0] > 0 and (np.diff(axis) > 0).all()):
            raise ValueError(f"cpus: {list(self.cpus)} is not accepted; counts above 0 that ascend are")
        rates = np.array(self.prepared, float)
        if not (np.isfinite(rates).all() and (rates > 0).all()):
            raise ValueError(f"prepared: {list(self.prepared)} is not accepted; samples/s above 0 are")

    @classmethod
    def fit(cls, points: Iterable[tuple[float, float]], reading: Reading | None = None) -> MeasuredSensitivity:
        """Fit measured points, (CPUs, samples/s prepared) each for one GPU; points of equal CPUs are averaged.

        Raises ValueError, one sentence, without any point and for points that cannot be.
        """
        by_cpus: dict[float, list[float]] = {}
        for cpus, rate in points:
            by_cpus.setdefault(float(cpus), []).append(float(rate))
        if not by_cpus:
            raise ValueError("points: there are none; at least one is needed")
        counts = sorted(by_cpus)
        return cls(tuple(counts), tuple(float(np.mean(by_cpus[c])) for c in counts), reading)

    @property
    def knows_memory(self) -> bool:
        """Whether the job has a cache that makes its speed follow memory."""
        return self.reading is not None

    @property
    def climbs(self) -> bool:
        """Whether twice as many CPUs as were measured would be faster by a tenth, if it went on as it did."""
        if len(self.cpus) == 1:
            return True
        rates = np.maximum.accumulate(np.array(self.prepared, float))
        slope = (rates[-1] - rates[-2]) / (self.cpus[-1] - self.cpus[-2])
        return bool(slope * self.cpus[-1] >= THRESHOLD * rates[-1])

    def preparation(self, cpus: Floats) -> Floats:
        """Return the samples/s that so many CPUs prepare for one GPU."""
        x = np.asarray(cpus, float)
        found: Floats = np.interp(x, self.cpus, np.maximum.accumulate(np.array(self.prepared, float)))
        return found * np.minimum(x / self.cpus[0], 1.0)

    def rate(self, gpus: int, cpus: Floats, memory_gib: Floats) -> Floats:
        """Return the input of all GPUs together, samples/s; see `Sensitivity.rate`."""
        prepared = gpus * self.preparation(np.asarray(cpus, float) / gpus)
        if self.reading is None:
            prepared, _ = np.broadcast_arrays(prepared, np.asarray(memory_gib, float))
            return prepared.copy()
        return np.minimum(prepared, self.reading.rate(gpus, memory_gib))

    def axes(self, gpus: int, step_rate: float = np.inf) -> tuple[Floats, Floats]:
        """Return whole CPUs of each GPU, and the memory that reading needs beside them; see `Sensitivity.axes`."""
        whole = np.arange(1.0, np.floor(self.cpus[-1]) + 1)
        cpus = np.union1d(whole, np.array(self.cpus, float))
        rates = np.minimum(gpus * self.preparation(cpus), step_rate)
        if self.reading is None:
            return gpus * cpus, np.zeros(1)
        return gpus * cpus, np.unique(self.reading.memory_for(gpus, rates))

    def refusal(self, gpus: int, cpus: float, memory_gib: float) -> str | None:
        """Return that the job's processes need more memory than a share has; see `Sensitivity.refusal`."""
        if self.reading is None or memory_gib >= gpus * self.reading.process_gib * (1 - TOLERANCE):
            return None
        return (
            f"memory_gib: a share of {memory_gib / gpus:g} per GPU is less than the {self.reading.process_gib:g} "
            "GiB that each GPU's processes need"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return asdict(self)

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> MeasuredSensitivity:
        """Return what `to_dict` gave. Raises KeyError, TypeError or ValueError for anything else."""
        reading = values.get("reading")
        return cls(
            tuple(values["cpus"]), tuple(values["prepared"]), None if reading is None else Reading(**reading)
        )
