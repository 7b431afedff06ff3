"""Traces that Sia's evaluation makes from those it ships: bursts, jobs of limited adaptivity, new requests."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from coadapt.core.training_config import Adaptivity
from coadapt.simulator.jobs.applications import Application
from coadapt.simulator.results.isolated_baseline import ApplicationSource, IsolatedBaseline, Kind

Row = Mapping[str, str]  # name, time (s), application, num_replicas, batch_size, maybe category
SPIKE_S, SPIKE_JOBS = 6 * 3600.0, 240
_JITTER_S = 300.0
_TIMES = ("step_time", "sync_time")
_BURST_S = 2.5 * 3600.0


def read_rows(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write_rows(rows: Sequence[Row], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def spike(
    rows: Sequence[Row], seed: int = 0, jobs: int = SPIKE_JOBS, length_s: float = SPIKE_S, burst: int = 0
) -> list[Row]:
    """Make Spike-240 (section 3.5.6): the busiest hours of a trace, with as many jobs as `jobs`.

    The paper samples its production traces, which are not public, at 40 jobs/h. Here all jobs are taken of the
    window of `length_s` with most submissions. If they are too few, jobs drawn from them are submitted again
    within five minutes. If they are too many, some are left out. So bursts stay bursts. With `burst`, that many
    jobs are submitted in the half hour from 2.5 h on, the paper's burst, and not before.
    """
    times = np.array([float(row["time"]) for row in rows])
    starts = np.sort(times)
    counts = np.searchsorted(starts, starts + length_s, side="left") - np.arange(len(starts))
    first_s = float(starts[int(np.argmax(counts))])
    window = np.flatnonzero((times >= first_s) & (times < first_s + length_s))
    random = np.random.default_rng(seed)
    taken = random.permutation(window)[:jobs]
    again = random.choice(window, jobs - len(taken))
    moved = times[again] + random.uniform(-_JITTER_S, _JITTER_S, len(again))
    at = np.clip(np.concatenate([times[taken], moved]) - first_s, 0.0, length_s - 1e-3)
    at[random.permutation(jobs)[:burst]] = random.uniform(_BURST_S, _BURST_S + 1800.0, burst)
    order = np.argsort(at, kind="stable")
    source = np.concatenate([taken, again])
    return [
        {**rows[source[i]], "name": f"{rows[source[i]]['application']}-{n}", "time": f"{at[i]:.3f}"}
        for n, i in enumerate(order)
    ]


def limited(rows: Sequence[Row], category: str, fraction: float, seed: int = 0) -> list[Row]:
    """Make a drawn fraction of the jobs `scale-gpus` or `rigid`; a larger one holds a smaller one."""
    order = np.random.default_rng(seed).permutation(len(rows))
    chosen = set(order[: round(fraction * len(rows))].tolist())
    return [{**row, "category": category if i in chosen else "adaptive"} for i, row in enumerate(rows)]


def with_large_model(rows: Sequence[Row], application: str, gpus: int = 0, batch_size: int = 0) -> list[Row]:
    """Add one job of `application` from the trace's first second on; it is rigid where it asks for GPUs."""
    large = {
        "name": f"{application}-0", "time": "0", "application": application, "num_replicas": str(max(gpus, 1)),
        "batch_size": str(batch_size or 1), "category": "rigid" if gpus else "adaptive",
    }  # fmt: skip
    return [large, *({"category": "adaptive", **row} for row in rows)]


def tuned(
    rows: Sequence[Row], source: ApplicationSource, gpu_type: str, node_gpus: int, seed: int = 0
) -> list[Row]:
    """Tune jobs anew (TunedJobs, section 3.4.3): up to 64 GPUs, a batch size at 50 to 80 % of ideal speedup.

    Over one GPU with the batch size that is best there; of all such combinations one is drawn for each job.
    """
    random = np.random.default_rng(seed)
    baseline = IsolatedBaseline(source)
    choices: dict[str, list[tuple[int, int]]] = {}
    out = []
    for row in rows:
        name = row["application"]
        if name not in choices:
            choices[name] = efficient_requests(source[name], baseline, gpu_type, node_gpus)
        gpus, batch_size = choices[name][int(random.integers(len(choices[name])))]
        out.append({**row, "num_replicas": str(gpus), "batch_size": str(batch_size)})
    return out


def efficient_requests(
    application: Application, baseline: IsolatedBaseline, gpu_type: str, node_gpus: int, most: int = 64
) -> list[tuple[int, int]]:
    """Return (GPUs, batch size) that run at 50 to 80 % of ideal speedup; one GPU where there are none."""
    first, last = application.initial_batch_size, application.max_batch_size
    sizes = [first * 2**i for i in range(last.bit_length()) if first * 2**i <= last]
    took: dict[tuple[int, int], float] = {}
    for gpus in (1, 2, *range(node_gpus, most + 1, node_gpus)):
        for size in sizes:
            if size < gpus * application.local_bsz[gpu_type][0]:
                continue
            kind = Kind(application.name, Adaptivity.RIGID, gpus, size)
            for seconds in baseline.alone(kind, gpu_type, node_gpus, most).seconds:
                took[gpus, size] = seconds - application.restart_s
    alone_s, alone = min((seconds, key) for key, seconds in took.items() if key[0] == 1)
    efficiency = {key: alone_s / seconds / key[0] for key, seconds in took.items() if key[0] > 1}
    return sorted(key for key, value in efficiency.items() if 0.5 <= value <= 0.8) or [alone]


def slowed(folder: Path, factors: Mapping[str, float], to: Path) -> Path:
    """Write the profiles of a folder to `to`, with every time of a model that many times as long."""
    for model, factor in factors.items():
        for path in sorted((folder / model).glob("*.csv")):
            rows = read_rows(path)
            if "step_time" in rows[0]:
                rows = [{**row, **{name: str(factor * float(row[name])) for name in _TIMES}} for row in rows]
            write_rows(rows, to / model / path.name)
    return to
