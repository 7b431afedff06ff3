"""The figures of a simulated run, and their spread over several traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..engine.outcome import AllocationChange, Outcome
from ..traces.tables import Floats
from .fairness import unfair_fraction, worst

# Figure -> (its name in tables, whether less is better; None: neither).
MEANING: dict[str, tuple[str, bool | None]] = {
    "jobs": ("jobs", None),
    "mean_jct_h": ("JCT, mean (h)", True),
    "p50_jct_h": ("JCT, median (h)", True),
    "p90_jct_h": ("JCT, p90 (h)", True),
    "p99_jct_h": ("JCT, p99 (h)", True),
    "makespan_h": ("makespan (h)", True),
    "gpu_hours_per_job": ("GPU-hours per job", True),
    "mean_queueing_h": ("without GPUs, mean (h)", True),
    "restarts_per_job": ("restarts per job", True),
    "failures": ("jobs hit by failed nodes", True),
    "mean_contention": ("active jobs, mean of rounds", True),
    "worst_rho": ("worst FTF ratio", True),
    "unfair_fraction": ("unfair jobs (FTF ratio > 1)", True),
    "goodput_gpus": ("cluster goodput (GPUs' worth)", False),
    "utilisation": ("GPUs held, mean fraction", None),
    "policy_median_ms": ("policy, median (ms)", True),
    "policy_p95_ms": ("policy, p95 (ms)", True),
    "policy_p99_ms": ("policy, p99 (ms)", True),
}


def figures(outcome: Outcome, rho: Floats | None = None, work_gpu_s: Floats | None = None) -> dict[str, float]:
    """Return `Outcome.summary` with fairness, goodput and utilisation; nan: not known.

    `rho`: (jobs,) finish-time fairness.
    `work_gpu_s`: (jobs,) work in seconds of one GPU (`isolated_baseline`). Cluster goodput is the work per
        second of the makespan. It equals a number of GPUs that only train.
    """
    seconds, nan = outcome.makespan_s, float("nan")
    total = sum(node.gpus for node in outcome.cluster.nodes)
    return {
        **outcome.summary(),
        "worst_rho": nan if rho is None else worst(rho),
        "unfair_fraction": nan if rho is None else unfair_fraction(rho),
        "goodput_gpus": nan if work_gpu_s is None or seconds <= 0 else float(work_gpu_s.sum()) / seconds,
        "utilisation": float(outcome.attained_gpu_s.sum()) / (total * seconds) if seconds > 0 and total else nan,
    }


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals in which a job holds the same GPUs, by job and time, as columns of one length."""

    job: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    gpu_type: np.ndarray  # text
    gpus: np.ndarray


def held_counts(holdings: Sequence[AllocationChange]) -> np.ndarray:
    """Return (changes,) the GPUs held from each change on: whole numbers, unless jobs share GPUs."""
    counts = np.array([h.gpus for h in holdings], float)
    whole = counts.astype(np.int64)
    return whole if (whole == counts).all() else counts


def intervals(holdings: Sequence[AllocationChange]) -> Intervals:
    """Return the intervals between changes. The last change of a job gives its GPUs back."""
    job = np.array([h.job for h in holdings], np.int64)
    time_s = np.array([h.time_s for h in holdings], float)
    gpus = held_counts(holdings)
    gpu_type = np.array([h.gpu_type for h in holdings], dtype=np.str_)
    order = np.lexsort((np.arange(len(job)), time_s, job))
    job, time_s, gpus, gpu_type = job[order], time_s[order], gpus[order], gpu_type[order]
    goes_on = np.append(job[1:] == job[:-1], False) if len(job) else np.zeros(0, bool)
    held = goes_on & (gpus > 0)
    ends = np.append(time_s[1:], 0.0) if len(job) else time_s
    return Intervals(job[held], time_s[held], ends[held], gpu_type[held], gpus[held])


def gpu_hours(outcome: Outcome) -> tuple[tuple[str, ...], Floats]:
    """Return the GPU types, and (jobs, types) the GPU-hours of every job on each of them."""
    types, found = outcome.cluster.gpu_types, intervals(outcome.holdings)
    out = np.zeros((len(outcome.workload), len(types)))
    for at, gpu_type in enumerate(types):
        mine = found.gpu_type == gpu_type
        held = (found.end_s - found.start_s)[mine] * found.gpus[mine] / 3600
        np.add.at(out[:, at], found.job[mine], held)
    return types, out


def gpu_hours_by_application(outcome: Outcome) -> dict[str, dict[str, float]]:
    """Return application -> GPU type -> GPU-hours of all its jobs.

    All jobs of given length count as one application, `""`.
    """
    types, hours = gpu_hours(outcome)
    names = np.array(outcome.workload.applications)
    return {
        name: dict(zip(types, hours[names == name].sum(axis=0).tolist(), strict=True))
        for name in sorted(set(outcome.workload.applications))
    }


def held_over_time(outcome: Outcome) -> tuple[Floats, dict[str, Floats]]:
    """Return times (s), and the GPUs of each type that are held from each time to the next."""
    found = intervals(outcome.holdings)
    times, at = np.unique(np.concatenate([found.start_s, found.end_s]), return_inverse=True)
    starts, ends = at[: len(found.job)], at[len(found.job) :]
    held = {}
    for gpu_type in outcome.cluster.gpu_types:
        mine = found.gpu_type == gpu_type
        change = np.zeros(len(times))
        np.add.at(change, starts[mine], found.gpus[mine])
        np.add.at(change, ends[mine], -found.gpus[mine])
        held[gpu_type] = np.cumsum(change)
    return times, held


def active_over_time(outcome: Outcome) -> tuple[Floats, Floats]:
    """Return times (s), and the jobs that are submitted and not finished from each time to the next."""
    both = np.concatenate([outcome.workload.submit_s, outcome.finished_s])
    times, at = np.unique(both, return_inverse=True)
    change = np.zeros(len(times))
    np.add.at(change, at, np.repeat([1.0, -1.0], len(outcome.workload)))
    return times, np.cumsum(change)


def spread(runs: Sequence[Mapping[str, float]]) -> dict[str, tuple[float, float]]:
    """Return the mean and standard deviation of each figure over several traces.

    The deviation is that of a sample (n - 1); 0 for a single run.
    """
    out = {}
    for name in runs[0]:
        values = np.array([run[name] for run in runs], float)
        values = values[np.isfinite(values)]
        mean = float(values.mean()) if len(values) else float("nan")
        out[name] = mean, float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return out
