"""`coadapt report`: compares saved runs on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..simulator.results import pictures
from ..simulator.results.page import page
from ..simulator.results.saved import SavedRun, find, load
from .pages import write_page


def write(runs: Sequence[Path], out: Path, top: int) -> list[Path]:
    """Write the page, and the pictures into a folder of its name beside it. Return the written paths.

    Raise ValueError, in one sentence, for a run that cannot be read and a page that cannot be written.
    """
    if top < 1:
        raise ValueError(f"--top: {top} must be at least 1")
    folders = dict.fromkeys(folder for path in runs for folder in find(path))
    groups = grouped([load(folder) for folder in folders])
    drawn = _draw(groups, top)
    shown = [(heading, seen, png) for heading, seen, _, png in drawn]
    text = page(f"Simulated: {', '.join(groups)}"[:120], groups, shown)
    return write_page(out, text, {name: png for _, _, name, png in drawn})


def grouped(runs: Sequence[SavedRun]) -> dict[str, list[SavedRun]]:
    """Return the runs of one policy on one cluster together, in the order in which they come.

    Runs of a group differ in trace and seed. If the same trace and seed come twice, for instance with other
    round intervals, they go into different groups.
    """
    several = len({str(run.about.get("cluster")) for run in runs}) > 1
    groups: dict[str, list[SavedRun]] = {}
    for run in runs:
        name = run.policy + (f" on {run.about.get('cluster')}" if several else "")
        label, count = name, 1
        while any(_of(run) == _of(other) for other in groups.get(label, ())):
            count += 1
            label = f"{name} ({count})"
        groups.setdefault(label, []).append(run)
    return groups


def _of(run: SavedRun) -> tuple[str, str]:
    return str(run.about.get("trace")), str(run.about.get("seed"))


def _draw(groups: Mapping[str, Sequence[SavedRun]], top: int) -> list[tuple[str, str, str, bytes]]:
    """Return heading, description, file name and PNG of each picture."""
    drawn = [
        (
            "Completion times and fairness",
            "All jobs of all traces. Fairness: time taken against the time alone on a fair share (Sia, equation "
            "3.6); jobs that a policy runs rigid are compared with themselves, rigid and alone.",
            "cdfs.png",
            pictures.cdfs(groups),
        ),
        (
            "Active jobs",
            "Submitted and not finished; the first trace.",
            "active_jobs.png",
            pictures.active_jobs(groups),
        ),
        (
            "Time of the policy",
            "Wall time of each round on the machine of the simulation.",
            "policy_time.png",
            pictures.policy_time(groups),
        ),
    ]
    for at, (label, runs) in enumerate(groups.items(), start=1):
        what = "The first trace." if len(runs) > 1 else ""
        drawn.append((f"GPUs held: {label}", what, f"gpus_{at}.png", pictures.gpu_types_over_time(runs[0])))
        drawn.append((f"Jobs: {label}", what, f"jobs_{at}.png", pictures.jobs_over_time(runs[0], top)))
    return drawn
