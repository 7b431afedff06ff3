"""Pictures of `lucid_replay`: how GPUs are used beside `las`, which short jobs wait, and JCT by size and pool.

Use of a GPU is the sum of what its tenants use alone. Nodes of Lucid's profiler are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.simulator.compat.lucid_packed import Replayed
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.results.drawing import plain_log
from coadapt.simulator.results.metrics import intervals

from .lucid_data import Lucid

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
SHORT_S = 60.0
SIZES = ((1, 1), (2, 4), (5, 8), (9, 10_000))
SHOWN_POOLS = 10
COLOURS = {"fifo": "#9a9a9a", "las": "#d98c3f", "lucid": "#2f6db3"}


@dataclass(frozen=True, eq=False)
class Ran:
    """One run: queues and JCTs of all jobs, and what the cluster did."""

    result: Replayed
    outcome: Outcome


@dataclass(frozen=True, eq=False)
class Use:
    """By minute, of the GPUs that jobs hold: utilisation, 0..1, and memory in use, GiB; nan: none is held."""

    time_s: np.ndarray
    utilisation: np.ndarray
    memory_gib: np.ndarray


def use_of(data: Lucid, ran: Ran) -> Use:
    """Return how the GPUs of a run were used, sampled each minute."""
    held = intervals(ran.outcome.holdings)
    place = {id: at for at, id in enumerate(data.workload.ids)}
    jobs = np.array([place[id] for id in ran.outcome.workload.ids])[held.job]
    gpus = data.workload.gpus[jobs].astype(float)  # held.gpus counts a shared GPU by half
    times_s = np.arange(0.0, float(ran.outcome.finished_s.max()), MINUTE_S)

    def summed(weights: np.ndarray) -> np.ndarray:
        change = np.zeros(len(times_s) + 1)
        np.add.at(change, np.searchsorted(times_s, held.start_s), weights)
        np.add.at(change, np.searchsorted(times_s, held.end_s), -weights)
        return np.cumsum(change)[:-1]

    uses = [data.profiles.usage[at] for at in jobs.tolist()]
    util = np.array([0.0 if one is None else one.gpu_util or 0.0 for one in uses])
    gib = np.array([0.0 if one is None else one.memory_gib or 0.0 for one in uses])
    active = summed(held.gpus.astype(float))
    busy = active > 0.25
    held_gpus = np.where(busy, active, np.nan)
    return Use(times_s, summed(gpus * util) / held_gpus, summed(gpus * gib) / held_gpus)


def short_waiting(data: Lucid, ran: Ran) -> tuple[np.ndarray, np.ndarray]:
    """Return minutes (s), and the jobs of at most a minute that wait for their first GPUs in each."""
    short = data.workload.duration_s <= SHORT_S
    begin_s = data.workload.submit_s[short]
    end_s = begin_s + ran.result.queue_s[short]
    times_s = np.arange(0.0, float(end_s.max()) + MINUTE_S, MINUTE_S)
    return times_s, np.searchsorted(np.sort(begin_s), times_s, "right") - np.searchsorted(
        np.sort(end_s), times_s, "right"
    )


def figures_of(data: Lucid, runs: Mapping[str, Ran]) -> dict[str, float]:
    """Return utilisation, memory and waits of short jobs beside `las`, in the time in which jobs arrive."""
    last_s = float(data.workload.submit_s.max())
    found = dict[str, float]()
    means = {}
    for name in ("lucid", "las"):
        use = use_of(data, runs[name])
        shown = (use.time_s <= last_s) & ~np.isnan(use.utilisation)
        means[name] = float(use.utilisation[shown].mean()), float(use.memory_gib[shown].mean())
        found[f"{name}/utilisation"], found[f"{name}/memory_gib"] = means[name]
        short = data.workload.duration_s <= SHORT_S
        for key, least_s in (("short_jobs_queued", 1.0), ("short_jobs_queued_minute", MINUTE_S)):
            found[f"{name}/{key}"] = float((runs[name].result.queue_s[short] > least_s).sum())
    found["utilisation_over_las"] = means["lucid"][0] / means["las"][0]
    found["memory_over_las"] = means["lucid"][1] / means["las"][1]
    return found


def draw(data: Lucid, runs: Mapping[str, Ran], folder: Path) -> list[Path]:
    """Write the pictures as PNG. Return their paths."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    last_d = float(data.workload.submit_s.max()) / DAY_S
    written = []

    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(9, 5))
    for name in ("las", "lucid"):
        use = use_of(data, runs[name])
        for axes, values in ((above, 100 * use.utilisation), (below, use.memory_gib)):
            axes.plot(use.time_s / DAY_S, values, color=COLOURS[name], lw=0.5, alpha=0.45)
            hours = np.convolve(np.nan_to_num(values), np.ones(360) / 360, "same")
            axes.plot(use.time_s / DAY_S, hours, color=COLOURS[name], lw=1.6, label=name)
    above.set(ylabel="use of held GPUs (%)", xlim=(0, last_d), ylim=(0, None))
    below.set(ylabel="memory in use of each (GiB)", xlabel="day of September 2020", ylim=(0, None))
    above.legend(frameon=False, ncols=2)
    written.append(_saved(figure, folder / "use.png"))

    figure, axes = plt.subplots(figsize=(9, 3))
    for name, ran in runs.items():
        times_s, waiting = short_waiting(data, ran)
        axes.plot(times_s / DAY_S, waiting, color=COLOURS[name], lw=0.9, label=name)
    axes.set(ylabel="jobs of at most 60 s that wait", xlabel="day of September 2020", xlim=(0, last_d))
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, None)
    axes.legend(frameon=False, ncols=3)
    written.append(_saved(figure, folder / "short.png"))

    sizes = [(data.workload.gpus >= least) & (data.workload.gpus <= most) for least, most in SIZES]
    labels = ["1", "2 to 4", "5 to 8", "more than 8"]
    written.append(_bars(runs, sizes, labels, "GPUs of a job", folder / "sizes.png"))

    pools = np.array(data.workload.virtual_clusters)
    names = sorted(set(pools.tolist()), key=lambda pool: -int((pools == pool).sum()))[:SHOWN_POOLS]
    masks = [pools == name for name in names]
    written.append(_bars(runs, masks, names, "virtual cluster, most jobs first", folder / "pools.png"))
    return written


def _bars(runs: Mapping[str, Ran], masks: list[np.ndarray], labels: list[str], what: str, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 3.4))
    at, width = np.arange(len(masks)), 0.8 / len(runs)
    for number, (name, ran) in enumerate(runs.items()):
        means_h = [float(ran.result.jct_s[mask].mean()) / HOUR_S for mask in masks]
        axes.bar(at + (number - 1) * width, means_h, width, color=COLOURS[name], label=name)
    axes.set_xticks(at, labels)
    axes.set(ylabel="mean JCT (h)", xlabel=what)
    axes.set_yscale("log")
    axes.set_ylim(1, None)
    plain_log(axes.yaxis)
    axes.legend(frameon=False, ncols=3)
    return _saved(figure, path)


def _saved(figure: Any, path: Path) -> Path:
    import matplotlib.pyplot as plt

    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path
