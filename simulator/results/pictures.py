"""Pictures of simulated runs, as PNG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..engine.outcome import Outcome
from . import drawing
from .fairness import UNFAIR
from .metrics import active_over_time, gpu_hours, held_over_time, intervals
from .saved import SavedRun


def cdfs(groups: Mapping[str, Sequence[SavedRun]]) -> bytes:
    """Draw job completion times and finish-time fairness, with all traces of a policy together."""
    figure, (left, right) = drawing.figure(2)
    for at, (label, runs) in enumerate(groups.items()):
        drawing.cdf(left, np.concatenate([run.outcome.jct_s for run in runs]) / 3600, label, at)
        rho = np.concatenate([run.rho for run in runs])
        if np.isfinite(rho).any():
            drawing.cdf(right, rho[np.isfinite(rho)], label, at)
    left.set(xlabel="job completion time (h)", ylabel="fraction of jobs", xscale="log", ylim=(0, 1.02))
    right.set(xlabel="finish-time fairness ratio", ylabel="fraction of jobs", xscale="log", ylim=(0, 1.02))
    right.axvline(UNFAIR, color="grey", lw=0.8, ls=":")
    right.text(UNFAIR, 0.02, " unfair →", color="grey", fontsize=8)
    if not right.lines[:-1]:
        right.text(0.5, 0.5, "not known", transform=right.transAxes, ha="center")
    for axes in (left, right):
        drawing.plain_log(axes.xaxis)
    left.legend(loc="upper left", fontsize=8)
    return drawing.png(figure)


def active_jobs(groups: Mapping[str, Sequence[SavedRun]]) -> bytes:
    """Draw the jobs that are submitted and not finished over time, for the first trace of each policy."""
    figure, (axes,) = drawing.figure(1, width=11)
    for at, (label, runs) in enumerate(groups.items()):
        times, active = active_over_time(runs[0].outcome)
        axes.step(times / 3600, active, where="post", label=label, **drawing.style(at))
    axes.set(xlabel="time (h)", ylabel="active jobs", ylim=(0, None))
    axes.set_xlim(left=0)
    axes.legend(loc="upper right", fontsize=8)
    return drawing.png(figure)


def policy_time(groups: Mapping[str, Sequence[SavedRun]]) -> bytes:
    """Draw the time of the policy per round, and how it grows with the jobs in the round."""
    figure, (left, right) = drawing.figure(2)
    for at, (label, runs) in enumerate(groups.items()):
        took_ms = np.concatenate([run.outcome.policy_s for run in runs]) * 1e3
        active = np.concatenate([run.outcome.contention[:, 1] for run in runs])
        if not len(took_ms):
            continue
        drawing.cdf(left, took_ms, label, at)
        some = np.linspace(0, len(took_ms) - 1, min(len(took_ms), drawing.POINTS)).astype(int)
        right.plot(
            active[some], took_ms[some], ".", ms=3, alpha=0.5, color=drawing.style(at)["color"], label=label
        )
    left.set(xlabel="policy (ms per round)", ylabel="fraction of rounds", xscale="log", ylim=(0, 1.02))
    right.set(xlabel="active jobs in the round", ylabel="policy (ms per round)", yscale="log")
    drawing.plain_log(left.xaxis)
    drawing.plain_log(right.yaxis)
    left.legend(loc="lower right", fontsize=8)
    return drawing.png(figure)


def gpu_types_over_time(run: SavedRun) -> bytes:
    """Draw the held GPUs of each type over time, beside what the cluster has."""
    outcome = run.outcome
    times, held = held_over_time(outcome)
    capacity = outcome.cluster.capacity()
    figure, panels = drawing.figure(len(held), width=11, height=1.5 * len(held) + 0.9, rows=True)
    for at, (axes, (gpu_type, gpus)) in enumerate(zip(panels, held.items(), strict=True)):
        axes.fill_between(times / 3600, gpus, step="post", color=_of_type(at), alpha=0.8, lw=0)
        axes.axhline(capacity[gpu_type], color="black", lw=0.8, ls=":")
        axes.set(ylabel=f"{gpu_type} GPUs", ylim=(0, capacity[gpu_type] * 1.08), xlim=(0, _end_h(outcome)))
    panels[-1].set_xlabel("time (h)")
    panels[0].set_title(f"{run.policy}: GPUs held (dotted: in the cluster)", fontsize=10)
    return drawing.png(figure)


def jobs_over_time(run: SavedRun, top: int) -> bytes:
    """Draw a lane for each of the `top` jobs with most GPU-hours.

    A bar is higher with more GPUs, and its colour is the GPU type.
    """
    outcome = run.outcome
    types, hours = gpu_hours(outcome)
    chosen = np.sort(np.argsort(-hours.sum(axis=1), kind="stable")[:top])  # in order of submission
    found = intervals(outcome.holdings)
    most = max(int(found.gpus[np.isin(found.job, chosen)].max(initial=1)), 1)
    figure, (axes,) = drawing.figure(1, width=11, height=0.28 * len(chosen) + 1.3)
    for lane, job in enumerate(chosen.tolist()):
        y = len(chosen) - 1 - lane
        submitted, finished = outcome.workload.submit_s[job] / 3600, outcome.finished_s[job] / 3600
        axes.plot([submitted, finished], [y, y], "-", color="black", lw=0.5)
        for at, gpu_type in enumerate(types):
            mine = (found.job == job) & (found.gpu_type == gpu_type)
            width = (found.end_s - found.start_s)[mine] / 3600
            # The height is the root of the count, so that one GPU beside 64 is visible.
            height = 0.86 * np.sqrt(found.gpus[mine] / most)
            axes.bar(
                found.start_s[mine] / 3600, height, width, bottom=y, align="edge", color=_of_type(at), linewidth=0
            )
    axes.set_yticks(
        np.arange(len(chosen)) + 0.4, [outcome.workload.ids[job] for job in chosen.tolist()[::-1]], fontsize=7
    )
    axes.set(xlabel="time (h)", ylim=(-0.1, len(chosen)), xlim=(0, _end_h(outcome)))
    axes.set_title(
        f"{run.policy}: the {len(chosen)} jobs with most GPU-hours; height: root of GPUs (1 to {most})",
        fontsize=10,
    )
    axes.grid(axis="y", visible=False)
    from matplotlib.patches import Patch

    handles = [Patch(color=_of_type(at)) for at in range(len(types))]
    axes.legend(handles, types, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    return drawing.png(figure)


def _end_h(outcome: Outcome) -> float:
    return max(float(outcome.finished_s.max()) / 3600, 1e-6)


def _of_type(at: int) -> str:
    return drawing.COLOURS[::-1][(at + 3) % len(drawing.COLOURS)]
