"""A model too large for a GPU beside other jobs (section 3.5.3): how it scales, and what becomes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.applications import MeasuredApplications
from coadapt.simulator.results.metrics import active_over_time, intervals
from coadapt.simulator.traces.tables import Floats

from ..harness import DATA

TRACES = DATA / "sia" / "sia-simulator" / "traces"
MODEL = "gpt_pmp"
GPUS = {"a100": (2, 8), "rtx": (3, 8)}  # nodes, and GPUs of each, that can hold it
_BUSY = 1 / 3  # of the job's time, that with most active jobs


@dataclass(frozen=True)
class Speed:
    """So many replicas on GPUs of a type, on as few nodes as can be; `relative`: to one replica, per GPU."""

    gpus: int
    replicas: int
    samples_s: float
    relative: float


@dataclass(frozen=True)
class Course:
    """The model's GPUs over time: each value holds from `time_s[i]` to `time_s[i + 1]`; `gpu_type` "": none."""

    time_s: Floats
    gpu_type: Sequence[str]
    gpus: Floats
    samples_s: Floats  # while it trains
    active: Floats  # jobs that are submitted and not ended, its own too


@cache
def speeds(gpu_type: str) -> tuple[Speed, ...]:
    """Return speeds as measured, in Sia's configurations: powers of two in a node, and whole nodes."""
    model = MeasuredApplications(TRACES, [gpu_type])[MODEL]
    nodes, size = GPUS[gpu_type]
    stages = model.per_replica(gpu_type)
    whole = size // stages
    found: list[Speed] = []
    shapes = [(2**i,) for i in range(whole.bit_length() - 1)] + [(whole,) * count for count in range(1, nodes + 1)]
    for shape in shapes:
        replicas = sum(shape)
        local = model.initial_batch_size
        rate = replicas * local / model.step_times[gpu_type].at(shape, local).step_s
        gpus = replicas * stages
        alone = found[0].samples_s / stages if found else rate / stages
        found.append(Speed(gpus, replicas, rate, rate / gpus / alone))
    return tuple(found)


def job_of(outcome: Outcome) -> int | None:
    """Return the position of the model's job, if the trace has one."""
    names = outcome.workload.applications
    return names.index(MODEL) if MODEL in names else None


def course(outcome: Outcome, job: int) -> Course:
    held = intervals(outcome.holdings)
    mine = held.job == job
    times, active = active_over_time(outcome)
    first, last = outcome.workload.submit_s[job], outcome.finished_s[job]
    cuts = np.unique(np.concatenate([times, held.start_s[mine], held.end_s[mine], [first, last]]))
    cuts = cuts[(cuts >= first) & (cuts <= last)]
    at = np.searchsorted(held.start_s[mine], cuts[:-1], side="right") - 1
    ends, counts, types = held.end_s[mine], held.gpus[mine], held.gpu_type[mine]
    has = (at >= 0) & (cuts[:-1] < ends[at])
    gpus = np.where(has, counts[at], 0).astype(float)
    names = [str(types[i]) if held_now else "" for i, held_now in zip(at, has, strict=True)]
    rates = {(t, speed.gpus): speed.samples_s for t in GPUS for speed in speeds(t)}
    samples_s = [rates[t, int(count)] if t else 0.0 for t, count in zip(names, gpus, strict=True)]
    jobs = active[np.searchsorted(times, cuts[:-1], side="right") - 1]
    return Course(cuts, names, gpus, np.array(samples_s), jobs)


def figures(outcome: Outcome) -> dict[str, float]:
    """Return the figures of the model's job; nothing where the trace has none."""
    job = job_of(outcome)
    if job is None:
        return {}
    found = course(outcome, job)
    took_s = np.diff(found.time_s)
    busy, quiet = (_over(found, took_s, order) for order in (-found.active, found.active))
    return {
        "gpt_jct_h": float(outcome.jct_s[job]) / 3600,
        "gpt_gpu_hours": float(outcome.attained_gpu_s[job]) / 3600,
        "gpt_restarts": float(outcome.restarts[job]),
        "gpt_most_gpus": float(found.gpus.max()),
        "gpt_a100_fraction": float(took_s[[t == "a100" for t in found.gpu_type]].sum() / took_s.sum()),
        "gpt_samples_s_busy": busy,
        "gpt_samples_s_quiet": quiet,
        "others_mean_jct_h": float(np.delete(outcome.jct_s, job).mean()) / 3600,
    }


def _over(found: Course, took_s: Floats, order: Floats) -> float:
    """Return mean samples/s over the third of the time that comes first in an order."""
    ranked = np.argsort(order, kind="stable")
    until = np.cumsum(took_s[ranked])
    share = np.clip(until[-1] * _BUSY - (until - took_s[ranked]), 0.0, took_s[ranked])
    return float((share * found.samples_s[ranked]).sum() / share.sum())
