"""What a job uses of its GPUs as a row of numbers, checked. Pure.

A row is (gpu_util, memory_util, memory_gib, mixed_precision): parts of the time from 0 to 1, GiB per GPU, and 0
or 1. What is not known is nan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ...core.usage import Mean, Usage
from ..interpretable.table import Feature, Floats, named

FEATURES: tuple[Feature, ...] = named(("gpu_util", "memory_util", "memory_gib", "mixed_precision"))
GPU_UTIL, MEMORY_UTIL, MEMORY_GIB, MIXED_PRECISION = range(len(FEATURES))
UNKNOWN: Floats = np.full(len(FEATURES), np.nan)
_CATCHING_UP = 1.05  # an emulated GPU may be that much ahead of the clock


def usage_of(gpu_util: float | None, memory_util: float | None, memory_gib: float | None) -> Usage:
    """Return a `Usage` of means that somebody measured. None: not known.

    Args:
        gpu_util, memory_util: parts of the time, 0..1. memory_gib: per GPU.

    Raises:
        ValueError: in one sentence, for a part outside of 0 to 100 %, NaN, and memory below 0.
    """
    _check_part("gpu_util", gpu_util, 1.0)
    _check_part("memory_util", memory_util, 1.0)
    _check_memory(memory_gib)
    return Usage(1.0, Mean.of(gpu_util, 1.0), Mean.of(memory_util, 1.0), Mean.of(memory_gib, 1.0))


def row_of(usage: Usage, mixed_precision: bool | None = None) -> Floats:
    """Return (features,) of a job, in the order of `FEATURES`; nan where nothing is known.

    Raises:
        ValueError: in one sentence, for a part outside of 0 to 100 %, NaN, and memory below 0.
    """
    most = _CATCHING_UP if usage.emulated else 1.0
    _check_part("gpu_util", usage.gpu.value, most)
    _check_part("memory_util", usage.memory.value, most)
    _check_memory(usage.memory_gib)
    parts = (usage.gpu_util, usage.memory_util, usage.memory_gib, mixed_precision)
    return np.array([np.nan if one is None else float(one) for one in parts])


def rows_of(usages: Iterable[tuple[Usage, bool | None]]) -> Floats:
    """Return (jobs, features) of jobs, each with whether it uses mixed precision; see `row_of`."""
    found = [row_of(usage, mixed) for usage, mixed in usages]
    return np.array(found).reshape(len(found), len(FEATURES))


def _check_part(name: str, value: float | None, most: float) -> None:
    if value is not None and not (math.isfinite(value) and 0 <= value <= most + 1e-9):
        raise ValueError(f"{name}: {100 * value:.6g} % is not accepted, must be from 0 to 100 %")


def _check_memory(value: float | None) -> None:
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise ValueError(f"memory_gib: {value:.6g} is not accepted, must be finite and 0 or more")
