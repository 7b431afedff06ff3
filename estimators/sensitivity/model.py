"""What is asked of a sensitivity: how fast the input of a job is, with CPUs and memory, on any GPU type.

The slower of the GPU step and the input decides. So one sensitivity serves every GPU type and batch size.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TOLERANCE = 1e-9  # relative; speeds that differ by less are the same


class Sensitivity(Protocol):
    """The input of a job by CPUs and memory, both totals over all its GPUs."""

    def __hash__(self) -> int: ...

    @property
    def knows_memory(self) -> bool:
        """Whether the speed follows memory. If not, a job needs its share of it and gains by no more."""

    def rate(self, gpus: int, cpus: Floats, memory_gib: Floats) -> Floats:
        """Return the input of all GPUs together, samples/s or in another unit that is the same for all amounts.

        `cpus` and `memory_gib` are broadcast against each other. 0: the job cannot run with so little memory.
        """

    def axes(self, gpus: int, step_rate: float = np.inf) -> tuple[Floats, Floats]:
        """Return the CPUs, and the memory in GiB, between which a change makes a difference, both ascending.

        `step_rate`: of the GPUs, in the unit of `rate`; what is faster than it makes no difference.
        """

    def refusal(self, gpus: int, cpus: float, memory_gib: float) -> str | None:
        """Return why nothing can be said of a job that has this as its share, one sentence; None: it can."""


def speed(
    sensitivity: Sensitivity,
    gpus: int,
    cpus: Floats | float,
    memory_gib: Floats | float,
    step_rate: float = np.inf,
) -> Floats:
    """Return how fast a job is: the slower of its GPUs' steps and its input, in the unit of `Sensitivity.rate`.

    Args:
        gpus: of the job.
        cpus, memory_gib: totals over all GPUs; they are broadcast against each other.
        step_rate: of all GPUs together if no input were waited for.
    """
    rate = sensitivity.rate(gpus, np.asarray(cpus, float), np.asarray(memory_gib, float))
    return np.minimum(rate, step_rate)
