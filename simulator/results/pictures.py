"""Pictures of simulated runs, as PNG. matplotlib is optional: `pip install 'coadapt[report]'`."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..engine.outcome import Outcome
from ..traces.tables import Floats
from .fairness import UNFAIR
from .metrics import active_over_time, gpu_hours, held_over_time, intervals
from .saved import SavedRun

# These colours are safe for colour-blind readers (Okabe and Ito). All pictures use the same order.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
STYLES = ("-", "--", "-.", ":")
DPI = 110
_POINTS = 2000  # of a line or cloud; more look the same


def cdfs(groups: Mapping[str, Sequence[SavedRun]]) -> bytes:
    """Draw job completion times and finish-time fairness, with all traces of a policy together."""
    figure, (left, right) = _figure(2)
    for at, (label, runs) in enumerate(groups.items()):
        _cdf(left, np.concatenate([run.outcome.jct_s for run in runs]) / 3600, label, at)
        rho = np.concatenate([run.rho for run in runs])
        if np.isfinite(rho).any():
            _cdf(right, rho[np.isfinite(rho)], label, at)
    left.set(xlabel="job completion time (h)", ylabel="fraction of jobs", xscale="log", ylim=(0, 1.02))
    right.set(xlabel="finish-time fairness ratio", ylabel="fraction of jobs", xscale="log", ylim=(0, 1.02))
    right.axvline(UNFAIR, color="grey", lw=0.8, ls=":")
    right.text(UNFAIR, 0.02, " unfair →", color="grey", fontsize=8)
    if not right.lines[:-1]:
        right.text(0.5, 0.5, "not known", transform=right.transAxes, ha="center")
    for axes in (left, right):
        _plain_log(axes.xaxis)
    left.legend(loc="upper left", fontsize=8)
    return _png(figure)


def active_jobs(groups: Mapping[str, Sequence[SavedRun]]) -> bytes:
    """Draw the jobs that are submitted and not finished over time, for the first trace of each policy."""
    figure, (axes,) = _figure(1, width=11)
    for at, (label, runs) in enumerate(groups.items()):
        times, active = active_over_time(runs[0].outcome)
        axes.step(times / 3600, active, where="post", label=label, **_style(at))
    axes.set(xlabel="time (h)", ylabel="active jobs", ylim=(0, None))
    axes.set_xlim(left=0)
    axes.legend(loc="upper right", fontsize=8)
    return _png(figure)


def policy_time(groups: Mapping[str, Sequence[SavedRun]]) -> bytes:
    """Draw the time of the policy per round, and how it grows with the jobs in the round."""
    figure, (left, right) = _figure(2)
    for at, (label, runs) in enumerate(groups.items()):
        took_ms = np.concatenate([run.outcome.policy_s for run in runs]) * 1e3
        active = np.concatenate([run.outcome.contention[:, 1] for run in runs])
        if not len(took_ms):
            continue
        _cdf(left, took_ms, label, at)
        some = np.linspace(0, len(took_ms) - 1, min(len(took_ms), _POINTS)).astype(int)
        right.plot(active[some], took_ms[some], ".", ms=3, alpha=0.5, color=_style(at)["color"], label=label)
    left.set(xlabel="policy (ms per round)", ylabel="fraction of rounds", xscale="log", ylim=(0, 1.02))
    right.set(xlabel="active jobs in the round", ylabel="policy (ms per round)", yscale="log")
    _plain_log(left.xaxis)
    _plain_log(right.yaxis)
    left.legend(loc="lower right", fontsize=8)
    return _png(figure)


def gpu_types_over_time(run: SavedRun) -> bytes:
    """Draw the held GPUs of each type over time, beside what the cluster has."""
    outcome = run.outcome
    times, held = held_over_time(outcome)
    capacity = outcome.cluster.capacity()
    figure, panels = _figure(len(held), width=11, height=1.5 * len(held) + 0.9, rows=True)
    for at, (axes, (gpu_type, gpus)) in enumerate(zip(panels, held.items(), strict=True)):
        axes.fill_between(times / 3600, gpus, step="post", color=_of_type(at), alpha=0.8, lw=0)
        axes.axhline(capacity[gpu_type], color="black", lw=0.8, ls=":")
        axes.set(ylabel=f"{gpu_type} GPUs", ylim=(0, capacity[gpu_type] * 1.08), xlim=(0, _end_h(outcome)))
    panels[-1].set_xlabel("time (h)")
    panels[0].set_title(f"{run.policy}: GPUs held (dotted: in the cluster)", fontsize=10)
    return _png(figure)


def jobs_over_time(run: SavedRun, top: int) -> bytes:
    """Draw a lane for each of the `top` jobs with most GPU-hours.

    A bar is higher with more GPUs, and its colour is the GPU type.
    """
    outcome = run.outcome
    types, hours = gpu_hours(outcome)
    chosen = np.sort(np.argsort(-hours.sum(axis=1), kind="stable")[:top])  # in order of submission
    found = intervals(outcome.holdings)
    most = max(int(found.gpus[np.isin(found.job, chosen)].max(initial=1)), 1)
    figure, (axes,) = _figure(1, width=11, height=0.28 * len(chosen) + 1.3)
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
    return _png(figure)


def _end_h(outcome: Outcome) -> float:
    return max(float(outcome.finished_s.max()) / 3600, 1e-6)


def _of_type(at: int) -> str:
    return COLOURS[::-1][(at + 3) % len(COLOURS)]


def _style(at: int) -> dict[str, Any]:
    # Dashes let a line below show through, if two policies do the same.
    return {"color": COLOURS[at % len(COLOURS)], "ls": STYLES[at % len(STYLES)], "lw": 1.6}


def _cdf(axes: Any, values: Floats, label: str, at: int) -> None:
    values = np.sort(values)
    values = np.maximum(values, values[values > 0].min(initial=1e-9) if (values > 0).any() else 1e-9)
    upto = np.arange(1, len(values) + 1) / len(values)
    some = np.unique(np.linspace(0, len(values) - 1, min(len(values), _POINTS)).astype(int))
    x = np.concatenate([values[:1], values[some]])
    axes.step(x, np.concatenate([[0.0], upto[some]]), where="post", label=label, **_style(at))


def _plain_log(axis: Any) -> None:
    """Mark a log axis with `0.1`, `0.2`, `0.5`, `1` instead of powers; a wide one has whole decades only."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _figure(panels: int, width: float = 11.0, height: float = 3.6, rows: bool = False) -> tuple[Any, list[Any]]:
    try:
        import matplotlib
    except ImportError:
        raise ValueError("a report needs matplotlib; `pip install 'coadapt[report]'` installs it") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shape = (panels, 1) if rows else (1, panels)
    figure, axes = plt.subplots(*shape, figsize=(width, height), squeeze=False, sharex=rows)
    for one in axes.flat:
        one.grid(lw=0.4, color="#dddddd")
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)


def _png(figure: Any) -> bytes:
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    figure.tight_layout()
    figure.savefig(buffer, dpi=DPI, bbox_inches="tight")
    plt.close(figure)
    return buffer.getvalue()
