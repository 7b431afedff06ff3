"""What a job uses of emulated GPUs, and how fast it was measured to be beside others on one."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ...core.job import JobSpec
from ...estimators.affinity.pair_table import PairTable, read
from ...executor.emulated_gpu import TenantProfile


def emulated_use(spec: JobSpec, pair_speeds: str | None = None) -> TenantProfile:
    """Return what a job uses of emulated GPUs. `pair_speeds`: a file of measured pairs; None: there is none.

    Raises: ValueError, one sentence, for a file that is no table of pairs.
    """
    told, beside = spec.emulation, dict[str, tuple[float, float]]()
    if pair_speeds is not None:
        table = measured_pairs(Path(pair_speeds), Path(pair_speeds).stat().st_mtime_ns)
        speeds = {name: table.speeds_of(told.profile, name) for name in table.names}
        beside = {name: both for name, both in speeds.items() if both is not None}
    return TenantProfile(told.profile, told.gpu_util, told.memory_util, told.memory_gib, beside, pair_speeds or "")


@lru_cache(maxsize=2)
def measured_pairs(path: Path, changed_ns: int) -> PairTable:
    """Return the table of a file that was changed at a moment."""
    return read(path)
