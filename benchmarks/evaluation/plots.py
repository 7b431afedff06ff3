"""The figures of Sia's evaluation as pictures, ours beside what the paper's text says."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from coadapt.simulator.results.drawing import COLOURS
from coadapt.simulator.results.pictures import cdfs
from coadapt.simulator.results.saved import SavedRun

from . import hybrid
from .experiments import POWERS, ROUNDS_S, Experiment
from .grid import Value

Values = Mapping[str, Mapping[str, Value]]  # group -> figure ->
_MILLISECONDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
_POLICIES = ("sia", "pollux", "gavel", "shockwave")  # in the order of their colours in all pictures


def draw(experiment: Experiment, values: Values, runs: Mapping[str, Sequence[SavedRun]], folder: Path) -> None:
    """Draw the picture of an experiment that has one, if anything of it was run."""
    if experiment.key == "figure_3_7":
        picture = cdfs({key: found for key, found in runs.items() if found})
    elif experiment.key in (*_PANELS, "section_3_5_3") and values:
        figure = (
            _PANELS[experiment.key](values)
            if experiment.key in _PANELS
            else _large_model(runs.get("GPT adapts/sia", ()))
        )
        if figure is None:
            return
        figure.tight_layout()
        buffer = io.BytesIO()
        figure.savefig(buffer, dpi=80)
        plt.close(figure)
        picture = buffer.getvalue()
    else:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{experiment.key}.png").write_bytes(picture)


def draw_policy_time(found: Mapping[str, Mapping[int, Mapping[str, float]]], folder: Path) -> None:
    """Draw decision times. `found`: policy -> times 64 GPUs -> quartiles of a decision (`runtime`)."""
    figure, (axes,) = _figure(1)
    colours = _colours(found)
    for policy, scales in found.items():
        gpus = [64 * scale for scale in scales]
        low, mid, high = (np.array([row[f"{q}_ms"] for row in scales.values()]) for q in ("p25", "median", "p75"))
        axes.errorbar(
            gpus, mid, [mid - low, high - mid], label=policy, color=colours[policy], marker="o", capsize=3
        )
    axes.set(xlabel="GPUs", ylabel="policy (ms per round)", xscale="log", yscale="log")
    axes.set_xticks([64, 128, 256, 512, 1024, 2048], ["64", "128", "256", "512", "1024", "2048"], minor=False)
    limits = axes.get_ylim()
    axes.set_yticks(_MILLISECONDS, [str(ms) for ms in _MILLISECONDS])
    axes.set_ylim(limits)
    axes.minorticks_off()
    axes.legend()
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "figure_3_10.png", dpi=80)
    plt.close(figure)


def _colours(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each policy and variant; the paper's have the same in every picture."""
    found = set(names)
    order = [*_POLICIES, *sorted(found.difference(_POLICIES))]
    colour = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(order)}
    at = {policy: i for i, policy in enumerate(_POLICIES)}
    return {
        name: colour[name] for name in sorted(found, key=lambda name: (at.get(name.split()[0], len(at)), name))
    }


def _bars(values: Values, figure: str, label: str) -> Any:
    """Draw groups `setting/policy`: a cluster of bars for each setting, one colour for each policy."""
    settings = list(dict.fromkeys(key.split("/")[0] for key in values))
    colours = _colours(key.split("/")[1] for key in values)
    picture, (axes,) = _figure(1)
    width = 0.8 / len(colours)
    for at, (policy, colour) in enumerate(colours.items()):
        pairs = [(i, values.get(f"{setting}/{policy}", {}).get(figure)) for i, setting in enumerate(settings)]
        known = [(i, value) for i, value in pairs if value is not None]
        x = np.array([i for i, _ in known]) + (at - (len(colours) - 1) / 2) * width
        height, error = [value.mean for _, value in known], [value.spread or np.nan for _, value in known]
        axes.bar(x, height, width, color=colour, label=policy)
        axes.errorbar(x, height, error, fmt="none", ecolor="black", elinewidth=1, capsize=2)
        for at_x, h, e in zip(x, height, np.nan_to_num(error), strict=True):
            place = {"xytext": (0, 2), "textcoords": "offset points", "ha": "center", "fontsize": 7}
            axes.annotate(f"{h:.2f}", (at_x, h + e), **place)
    axes.set_xticks(np.arange(len(settings)), settings)
    axes.set(ylabel=label)
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(colours), frameon=False)
    return picture


def _parameters(values: Values) -> Any:
    picture, (left, right) = _figure(2)
    for at, (figure, label) in enumerate(
        (("mean_jct_h", "mean JCT"), ("p99_jct_h", "p99 JCT"), ("makespan_h", "makespan"))
    ):
        base = values.get("p = -0.5", {}).get(figure)
        known = [p for p in POWERS if f"p = {p:g}" in values]
        if base is not None:
            y = [values[f"p = {p:g}"][figure].mean / base.mean for p in known]
            left.plot(known, y, marker="o", color=COLOURS[at], label=label)
    left.set(xlabel="p", ylabel="over p = -0.5")
    left.legend()
    lengths = [s for s in ROUNDS_S if f"rounds of {s} s" in values]
    jct = [values[f"rounds of {s} s"]["mean_jct_h"] for s in lengths]
    right.errorbar(
        lengths, [v.mean for v in jct], [v.spread for v in jct], marker="o", color=COLOURS[0], capsize=3
    )
    top = max((v.mean + np.nan_to_num(v.spread) for v in jct), default=1.0)
    right.set(xlabel="length of a round (s)", ylabel="mean JCT (h)", ylim=(0, 1.15 * top))
    return picture


def _adaptivity(values: Values) -> Any:
    picture, panels = _figure(2)
    for axes, kind in zip(panels, ("strong scaling", "rigid"), strict=True):
        known = [key for key in values if key.endswith(kind)]
        base = values.get(f"0 % {kind}")
        for at, (figure, label) in enumerate((("mean_jct_h", "mean JCT"), ("makespan_h", "makespan"))):
            if base is not None:
                y = [values[key][figure].mean / base[figure].mean for key in known]
                axes.plot([int(key.split()[0]) for key in known], y, marker="o", color=COLOURS[at], label=label)
        axes.set(xlabel=f"{kind.replace(' ', '-')} jobs (%)", ylabel="over all jobs adaptive")
        axes.legend(loc="lower right")
    top = max((one.get_ylim()[1] for one in panels), default=1.0)
    for axes in panels:
        axes.set_ylim(0, top)
    return picture


def _large_model(runs: Sequence[SavedRun]) -> Any:
    """Draw samples/s over GPUs, and its GPUs and the active jobs of the first trace; None: was not run."""
    if not runs:
        return None
    picture = plt.figure(figsize=(11, 4.2))
    grid = picture.add_gridspec(2, 2, width_ratios=(1, 2.2))
    left, upper = picture.add_subplot(grid[:, 0]), picture.add_subplot(grid[0, 1])
    lower = picture.add_subplot(grid[1, 1], sharex=upper)
    for axes in (left, upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
        axes.grid(lw=0.4, color="#dddddd")
    colours = dict(zip(hybrid.GPUS, COLOURS, strict=False))
    for gpu_type, colour in colours.items():
        found = hybrid.speeds(gpu_type)
        gpus, rates = [one.gpus for one in found], [one.samples_s for one in found]
        left.plot([0, gpus[-1]], [0, found[0].samples_s / found[0].gpus * gpus[-1]], ls=":", lw=1, color=colour)
        left.plot(gpus, rates, marker="o", ms=4, color=colour, label=f"{gpu_type}, {gpus[0]} GPUs a replica")
    left.plot([], [], ls=":", lw=1, color="grey", label="linear in GPUs")
    left.set(xlabel="GPUs", ylabel="samples/s", xlim=(0, 25.5), ylim=(0, 24), xticks=range(0, 25, 8))
    left.legend(fontsize=8, frameon=False, loc="upper left")
    outcome = runs[0].outcome
    job = hybrid.job_of(outcome)
    assert job is not None
    course = hybrid.course(outcome, job)
    hours = course.time_s / 3600
    for gpu_type, colour in colours.items():
        mine = np.array([t == gpu_type for t in course.gpu_type])
        upper.stairs(np.where(mine, course.gpus, 0.0), hours, fill=True, color=colour, lw=0, label=gpu_type)
        lower.stairs(np.where(mine, course.samples_s, 0.0), hours, fill=True, color=colour, lw=0, alpha=0.55)
    lower.stairs(course.active, hours, baseline=None, color="black", lw=1.2, label="active jobs")
    upper.set(ylabel="GPUs of the GPT", ylim=(0, 31), yticks=range(0, 25, 8))
    upper.tick_params(labelbottom=False)
    upper.legend(fontsize=8, ncols=2, loc="upper left", frameon=False)
    lower.set(xlabel="time (h)", ylabel="samples/s of the GPT", xlim=(0, hours[-1]))
    lower.set_ylim(0, 1.3 * max(float(course.active.max()), float(course.samples_s.max())))
    lower.legend(fontsize=8, loc="upper left", frameon=False)
    return picture


def _one_each(values: Values) -> Any:
    picture, (axes,) = _figure(1)
    jct = [value["mean_jct_h"] for value in values.values()]
    height, error = [v.mean for v in jct], [v.spread or np.nan for v in jct]
    bars = axes.bar(list(values), height, 0.6, color=COLOURS[0])
    axes.errorbar(list(values), height, error, fmt="none", ecolor="black", elinewidth=1, capsize=3)
    axes.bar_label(bars, [f"{h:.2f}" for h in height], label_type="center", color="white")
    axes.set(ylabel="mean JCT (h)")
    return picture


_PANELS = {
    "figure_3_1": lambda values: _bars(values, "mean_jct_h", "mean JCT (h)"),
    "figure_3_6": lambda values: _bars(values, "mean_jct_h", "mean JCT (h)"),
    "figure_3_11": _parameters,
    "figure_3_12": _adaptivity,
    "figure_3_13": _one_each,
    "spike_240": lambda values: _bars(values, "mean_jct_h", "mean JCT (h)"),
    "artifact_pace": lambda values: _bars(values, "mean_jct_h", "mean JCT (h)"),
}


def _figure(panels: int) -> tuple[Any, list[Any]]:
    figure, axes = plt.subplots(1, panels, figsize=(8.5, 3.4), squeeze=False)
    for one in axes.flat:
        one.grid(lw=0.4, color="#dddddd")
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
    return figure, list(axes.flat)
