"""How many GPUs jobs ask for, and which sizes use the cluster's time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..traces.tables import Floats
from ..traces.workload import Ints
from .groups import Groups
from .jobs import StudiedJobs

LARGE = 8  # GPUs, a whole node in most of the published clusters


@dataclass(frozen=True, eq=False)
class Sizes:
    """One value per size from small to large: 1, 2, 3 to 4, 5 to 8 and so on GPUs, of sizes that occur.

    Shares of GPU time, and `large_time` and `single_time`, are nan where no length is known.
    """

    names: tuple[str, ...]
    jobs: Ints
    time_share: Floats
    mean_length_s: Floats  # nan: not known
    mean_gpus: float
    most_gpus: int
    single_jobs: float  # shares
    single_time: float
    large_jobs: float  # of jobs with at least `LARGE` GPUs
    large_time: float


def size_groups(gpus: Ints) -> Groups:
    """Return jobs by size, in order of size."""
    power = np.ceil(np.log2(gpus)).astype(np.int64)
    found, of = np.unique(power, return_inverse=True)
    return Groups(tuple(_name(int(one)) for one in found), of.astype(np.int64))


def sizes(jobs: StudiedJobs) -> Sizes:
    """Return the sizes of jobs."""
    by_size = size_groups(jobs.gpus)
    gpu_s = np.nan_to_num(jobs.gpu_s)
    whole = float(gpu_s.sum()) or float("nan")
    one, large = jobs.gpus == 1, jobs.gpus >= LARGE
    return Sizes(
        names=by_size.names,
        jobs=by_size.jobs(),
        time_share=by_size.sums(gpu_s) / whole,
        mean_length_s=by_size.means(jobs.length_s),
        mean_gpus=float(jobs.gpus.mean()),
        most_gpus=int(jobs.gpus.max()),
        single_jobs=float(one.mean()),
        single_time=float(gpu_s[one].sum()) / whole,
        large_jobs=float(large.mean()),
        large_time=float(gpu_s[large].sum()) / whole,
    )


def _name(power: int) -> str:
    low, high = 2 ** (power - 1) + 1 if power else 1, 2**power
    return f"{high}" if power < 2 else f"{low} to {high}"
