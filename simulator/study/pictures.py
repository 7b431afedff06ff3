"""Pictures of a study, as PNG. Each is drawn only where the trace knows what it shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..results import drawing
from ..results.drawing import COLOURS
from ..traces.tables import DAY_S, Floats
from .daily import HOURS, Daily
from .final_states import COUNTED, FinalStates
from .jobs import STATES, StudiedJobs
from .lengths import Lengths
from .monthly import Monthly
from .sizes import LARGE, Sizes
from .study import Course, Study
from .time_bins import Bins
from .users import Users
from .virtual_clusters import SHOWN, VirtualClusters

SINGLE, MULTI = COLOURS[0], COLOURS[1]
MOST_HOURS = 24 * 60  # a longer course is drawn by days
BARS = 20  # of completion ratios


def pictures(study: Study) -> Iterator[tuple[str, bytes]]:
    """Yield the name and PNG of each picture. Raise ValueError where matplotlib is missing."""
    total, word = None if study.capacity is None else study.capacity.gpus, study.jobs.use_word
    if study.course is not None:
        yield "course", course(study.course, study.jobs.began_s, total)
    if study.daily is not None:
        yield "hours", hours(study.daily, total, word)
    if study.monthly is not None and len(study.monthly.names) > 1:
        yield "months", months(study.monthly, word)
    if study.virtual_clusters is not None:
        yield "virtual_clusters", virtual_clusters(study.virtual_clusters, word)
    if study.lengths is not None:
        yield "lengths", lengths(study.jobs, study.lengths)
    yield "sizes", sizes(study.sizes)
    if study.final_states is not None:
        yield "final_states", final_states(study.final_states)
    if study.users is not None:
        yield "users", users(study.users)


def course(found: Course, began_s: float | None, total: int | None) -> bytes:
    """Draw use and submissions over the trace, by hours, or by days where it is long."""
    step = 1 if len(found.submissions) <= MOST_HOURS else 24
    first = np.arange(0, len(found.submissions), step)
    edges_s = np.append(found.bins.edges_s[first], found.bins.edges_s[-1])
    width_s = np.diff(edges_s)
    use = np.add.reduceat(found.use * found.bins.width_s, first) / width_s
    submissions = np.add.reduceat(found.submissions, first) / width_s * (3600 if step == 1 else DAY_S)
    times = _times(Bins(edges_s), began_s)
    known = bool(np.isfinite(use).all())
    figure, panels = drawing.figure(2 if known else 1, width=11, height=4.2 if known else 2.4, rows=True)
    if known:
        panels[0].fill_between(times, np.append(use, use[-1]), step="post", color=COLOURS[2], alpha=0.8, lw=0)
        if total is not None:
            panels[0].axhline(total, color="black", lw=0.8, ls=":")
        panels[0].set(ylabel="GPUs", ylim=(0, None))
    panels[-1].fill_between(
        times, np.append(submissions, submissions[-1]), step="post", color=COLOURS[5], alpha=0.9, lw=0
    )
    panels[-1].set(ylabel=f"jobs per {'hour' if step == 1 else 'day'}", ylim=(0, None), xlim=(times[0], times[-1]))
    if began_s is None:
        panels[-1].set_xlabel("day of the trace")
    else:
        figure.autofmt_xdate(rotation=0, ha="center")
    return drawing.png(figure)


def hours(found: Daily, total: int | None, word: str) -> bytes:
    """Draw use and submissions by the hour of the day."""
    figure, panels = drawing.figure(1 if found.use is None else 2)
    hour = np.arange(HOURS)
    if found.use is not None:
        scale, unit = (100 / total, "% of the GPUs") if total else (1.0, "GPUs")
        mean, apart = found.use.mean * scale, found.use.deviation * scale
        panels[0].plot(hour + 0.5, mean, "-o", ms=3, color=COLOURS[2], label="mean")
        panels[0].fill_between(
            hour + 0.5, np.maximum(mean - apart, 0), mean + apart, color=COLOURS[2], alpha=0.15, lw=0,
            label="± 1 standard deviation over days",
        )  # fmt: skip
        panels[0].set(ylabel=f"{word} ({unit})")
        panels[0].legend(fontsize=8)
    panels[-1].bar(hour + 0.5, np.nan_to_num(found.single), 0.85, color=SINGLE, label="1 GPU")
    panels[-1].bar(
        hour + 0.5, np.nan_to_num(found.multi), 0.85, np.nan_to_num(found.single), color=MULTI,
        label="several GPUs",
    )  # fmt: skip
    panels[-1].set(ylabel="submissions per hour", ylim=(0, None))
    panels[-1].legend(fontsize=8)
    for axes in panels:
        axes.set(xlabel="hour of the day" if found.dated else "hour of the trace's day", xlim=(0, HOURS))
        axes.set_xticks(range(0, HOURS + 1, 3))
    return drawing.png(figure)


def months(found: Monthly, word: str) -> bytes:
    """Draw submissions per day and use of each month."""
    known = bool(np.isfinite(found.use_multi).all())
    figure, panels = drawing.figure(2 if known else 1)
    at = np.arange(len(found.names))
    _stacked(panels[0], at, (found.single / found.days, found.multi / found.days))
    panels[0].set(ylabel="submissions per day", ylim=(0, None))
    if known:
        _stacked(panels[1], at, (found.use_single, found.use_multi))
        panels[1].set(ylabel=f"GPUs in {word} (mean)", ylim=(0, None))
    for axes in panels:
        shown = at[:: max(len(at) // 8, 1)]
        axes.set_xticks(shown, [found.names[one] for one in shown], fontsize=8)
        axes.set_xlim(-0.75, max(len(at), 3) - 0.25)
        axes.legend(fontsize=8, loc="upper right")
    return drawing.png(figure)


def virtual_clusters(found: VirtualClusters, word: str) -> bytes:
    """Draw the hourly use of the largest VCs as boxes, and their mean lengths and waits as bars."""
    count = min(len(found.names), SHOWN)
    at = np.arange(count)
    boxes = len(found.hours) == count
    times = bool(np.isfinite(found.mean_length_s[:count]).any())
    figure, panels = drawing.figure(1 + boxes + times, width=11, height=1.8 * (1 + boxes + times) + 0.6, rows=True)
    left = iter(panels)
    if boxes:
        axes = next(left)
        sized = bool(np.isfinite(found.gpus[:count]).all())
        scale = 100 / found.gpus[:count] if sized else np.ones(count)
        series = [hours * by for hours, by in zip(found.hours, scale.tolist(), strict=True)]
        axes.boxplot(
            series, positions=at, widths=0.5, whis=1.5, showfliers=False, patch_artist=True,
            boxprops={"facecolor": "#bfe3d6", "lw": 0.8}, medianprops={"color": "black"},
        )  # fmt: skip
        axes.set(ylabel=f"{word} (% of its GPUs)" if sized else f"{word} (GPUs)", ylim=(0, None))
        if sized:
            axes.axhline(100, color="black", lw=0.8, ls=":")
    axes = next(left)
    axes.bar(at, found.mean_gpus[:count], 0.5, color=COLOURS[3])
    axes.set(ylabel="GPUs per job", ylim=(0, None))
    if times:
        axes = next(left)
        waits = bool(np.isfinite(found.mean_wait_s[:count]).any())
        wide = 0.3 if waits else 0.5
        shift = wide / 2 if waits else 0.0
        axes.bar(at - shift, found.mean_length_s[:count] / 3600, wide, color=COLOURS[0], label="mean length")
        if waits:
            axes.bar(at + shift, found.mean_wait_s[:count] / 3600, wide, color=COLOURS[4], label="mean wait")
        axes.set(ylabel="hours", ylim=(0, None))
        axes.legend(fontsize=8)
    panels[-1].set_xticks(at, [_short(name) for name in found.names[:count]], fontsize=8)
    return drawing.png(figure)


def lengths(jobs: StudiedJobs, found: Lengths) -> bytes:
    """Draw the lengths of jobs as distributions, by size and by final state."""
    known = np.isfinite(jobs.length_s)
    figure, panels = drawing.figure(2 if (known & (jobs.states >= 0)).any() else 1)
    parts = {
        "all": known,
        "1 GPU": known & (jobs.gpus == 1),
        f"2 to {LARGE - 1} GPUs": known & (jobs.gpus > 1) & (jobs.gpus < LARGE),
        f"{LARGE} GPUs or more": known & (jobs.gpus >= LARGE),
    }
    _lengths(panels[0], jobs, parts)
    if len(panels) > 1:
        counted = jobs.counted_states
        ends = {str(state): known & (counted == STATES.index(state)) for state in COUNTED}
        _lengths(panels[1], jobs, ends)
    return drawing.png(figure)


def sizes(found: Sizes) -> bytes:
    """Draw the shares of jobs and of GPU time by size, and the mean length."""
    timed = bool(np.isfinite(found.time_share).all())
    figure, panels = drawing.figure(2 if timed else 1)
    at = np.arange(len(found.names))
    share = 100 * found.jobs / found.jobs.sum()
    wide = 0.4 if timed else 0.7
    panels[0].bar(at - (wide / 2 if timed else 0), share, wide, color=COLOURS[0], label="jobs")
    if timed:
        panels[0].bar(at + wide / 2, 100 * found.time_share, wide, color=COLOURS[1], label="GPU time")
        panels[0].legend(fontsize=8)
        panels[1].bar(at, found.mean_length_s / 3600, 0.7, color=COLOURS[5])
        panels[1].set(ylabel="mean length (h)", ylim=(0, None))
    panels[0].set(ylabel="% of all" if timed else "% of jobs", ylim=(0, None))
    for axes in panels:
        axes.set_xticks(at, [name.replace(" to ", "–") for name in found.names], fontsize=8)
        axes.set(xlabel="GPUs of a job", xlim=(-0.75, max(len(at), 3) - 0.25))
    return drawing.png(figure)


def final_states(found: FinalStates) -> bytes:
    """Draw how jobs ended: shares of jobs and GPU time, and shares of jobs of each size."""
    figure, (left, right) = drawing.figure(2)
    counted = np.array(
        [[found.of(state, shares) for state in COUNTED] for shares in (found.job_share, found.time_share)]
    )
    names = ["jobs", "GPU time"] if np.isfinite(counted[1]).all() else ["jobs"]
    tables = ((left, names, counted[: len(names)]), (right, list(found.size_names), found.by_size))
    for axes, labels, table in tables:
        at, low = np.arange(len(labels)), np.zeros(len(labels))
        for state, colour, part in zip(COUNTED, (COLOURS[2], COLOURS[4], COLOURS[1]), table.T, strict=True):
            axes.bar(at, 100 * part, 0.6, low, color=colour, label=str(state))
            low = low + 100 * part
        axes.set_xticks(at, [label.replace(" to ", "–") for label in labels], fontsize=8)
        axes.set(ylabel="%", ylim=(0, 100), xlim=(-0.75, max(len(labels), 3) - 0.25))
    right.set(xlabel="GPUs of a job", ylabel="% of jobs")
    left.legend(fontsize=8, loc="center right")
    return drawing.png(figure)


def users(found: Users) -> bytes:
    """Draw how much the users with most have, and how many users complete how much."""
    known = found.completed[np.isfinite(found.completed)]
    figure, panels = drawing.figure(2 if len(known) else 1)
    drawn = {"jobs": found.jobs.astype(float)}
    if found.timed:
        drawn["GPU time"] = found.gpu_s
    if found.waits:
        drawn["waiting"] = found.wait_s
    for at, (label, values) in enumerate(drawn.items()):
        if (total := float(values.sum())) > 0:
            upto = np.concatenate([[0.0], np.cumsum(np.sort(values)[::-1]) / total])
            panels[0].plot(np.linspace(0, 100, len(upto)), 100 * upto, label=label, **drawing.style(at))
    panels[0].set(xlabel="% of users, those with most first", ylabel="% of all", xlim=(0, 100), ylim=(0, 102))
    panels[0].legend(fontsize=8, loc="lower right")
    if len(known):
        panels[1].hist(100 * known, np.linspace(0, 100, BARS + 1), color=COLOURS[2], rwidth=0.9)
        panels[1].set(xlabel="% of a user's jobs that complete", ylabel="users", xlim=(0, 100))
    return drawing.png(figure)


def _times(bins: Bins, began_s: float | None) -> Any:
    if began_s is None:
        return bins.edges_s / DAY_S
    return np.floor(bins.edges_s + began_s).astype(np.int64).astype("datetime64[s]")


def _stacked(axes: Any, at: Any, parts: tuple[Floats, Floats]) -> None:
    axes.bar(at, parts[0], 0.6, color=SINGLE, label="1 GPU")
    axes.bar(at, parts[1], 0.6, parts[0], color=MULTI, label="several GPUs")


def _lengths(axes: Any, jobs: StudiedJobs, parts: dict[str, Any]) -> None:
    some = {label: mask for label, mask in parts.items() if mask.any()}
    for at, (label, mask) in enumerate(some.items()):
        drawing.cdf(axes, jobs.length_s[mask], label, at)
    axes.set(xlabel="length (s)", ylabel="fraction of jobs", xscale="log", ylim=(0, 1.02))
    drawing.plain_log(axes.xaxis)
    axes.legend(loc="upper left", fontsize=8)


def _short(name: str) -> str:
    return name if len(name) <= 12 else f"{name[:11]}…"
