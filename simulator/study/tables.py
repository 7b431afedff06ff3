"""The tables of a study's page, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ..results.html import number
from .final_states import FinalStates
from .jobs import STATES
from .lengths import Lengths
from .monthly import Monthly
from .sizes import Sizes
from .users import Users
from .virtual_clusters import VirtualClusters
from .words import seconds, share

MOST_ROWS = 40


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return at most `MOST_ROWS` rows of text under a header, without columns that know nothing."""
    some = [at for at in range(len(head)) if any(row[at] != "-" for row in rows)]
    head, rows = [head[at] for at in some], [[row[at] for at in some] for row in rows]
    shown = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows[:MOST_ROWS]
    )
    more = f"<p><small>and {len(rows) - MOST_ROWS:,} more</small></p>" if len(rows) > MOST_ROWS else ""
    return f"<table><tr>{''.join(f'<th>{escape(one)}</th>' for one in head)}</tr>{shown}</table>{more}"


def months(found: Monthly, word: str) -> str:
    """Return submissions and use by month."""
    return table(
        ("month", "days", "jobs of 1 GPU", "of several", "GPUs per job", f"GPUs in {word} by 1", "by several"),
        [
            [name, f"{days:.3g}", f"{single:,}", f"{multi:,}", number(gpus), number(one), number(several)]
            for name, days, single, multi, gpus, one, several in zip(
                found.names, found.days.tolist(), found.single.tolist(), found.multi.tolist(),
                found.mean_gpus.tolist(), found.use_single.tolist(), found.use_multi.tolist(), strict=True,
            )
        ],
    )  # fmt: skip


def virtual_clusters(found: VirtualClusters, word: str) -> str:
    """Return the VCs, and how unevenly they are loaded."""
    rows = [
        [
            name,
            number(float(found.gpus[at])),
            f"{found.jobs[at]:,}",
            f"{found.users[at]:,}" if found.users[at] else "-",
            number(float(found.mean_gpus[at])),
            seconds(float(found.mean_length_s[at])),
            seconds(float(found.median_length_s[at])),
            seconds(float(found.mean_wait_s[at])),
            number(float(found.use[at])),
            share(float(found.use[at] / found.gpus[at])),
        ]
        for at, name in enumerate(found.names)
    ]
    head = (
        "virtual cluster", "GPUs", "jobs", "users", "GPUs per job", "mean length", "median length", "mean wait",
        f"GPUs in {word}", "of its GPUs",
    )  # fmt: skip
    told = ""
    if found.imbalance is not None:
        told = (
            f"<p>In {share(found.imbalance.lacking)} of the hours a virtual cluster wants more GPUs than it has. "
            f"In {share(found.imbalance.at_once)} others have idle ones then. On average "
            f"{number(found.imbalance.gpus)} GPUs could be used at once if they were shared.</p>"
        )
    return table(head, rows) + told


def lengths(found: Lengths) -> str:
    """Return the distribution of lengths."""
    spread = {"jobs": f"{found.jobs:,}", "mean": seconds(found.mean_s), "longest": seconds(found.longest_s)}
    spread |= {f"p{percent}": seconds(value) for percent, value in found.quantiles_s.items()}
    shorter = {f"under {seconds(bound)}": share(part) for bound, part in found.shorter.items()}
    return "".join(table(tuple(cells), [list(cells.values())]) for cells in (spread, shorter))


def sizes(found: Sizes) -> str:
    """Return jobs and GPU time by size."""
    total = float(found.jobs.sum())
    return table(
        ("GPUs", "jobs", "of all jobs", "of the GPU time", "mean length"),
        [
            [name, f"{jobs:,}", share(jobs / total), share(time), seconds(length)]
            for name, jobs, time, length in zip(
                found.names,
                found.jobs.tolist(),
                found.time_share.tolist(),
                found.mean_length_s.tolist(),
                strict=True,
            )
        ],
    )


def states(found: FinalStates) -> str:
    """Return how jobs ended, in all and by size."""
    rows = [
        [
            str(state),
            f"{found.jobs[at]:,}",
            share(float(found.job_share[at])),
            share(float(found.time_share[at])),
            seconds(float(found.median_length_s[at])),
        ]
        for at, state in enumerate(STATES)
    ]
    by_size = [
        [name, f"{jobs:,}", *(share(part) for part in parts)]
        for name, jobs, parts in zip(
            found.size_names, found.size_jobs.tolist(), found.by_size.tolist(), strict=True
        )
    ]
    return table(("ended as", "jobs", "of all jobs", "of the GPU time", "median length"), rows) + table(
        ("GPUs", "jobs", "completed", "cancelled", "failed"), by_size
    )


def users(found: Users) -> str:
    """Return the users with most, and how unequal users are."""
    total = float(found.gpu_s.sum()) or float("nan")
    rows = [
        [
            name,
            f"{found.jobs[at]:,}",
            number(float(found.gpu_s[at]) / 3600) if found.timed else "-",
            share(float(found.gpu_s[at]) / total),
            share(float(found.completed[at])),
            seconds(float(found.wait_s[at] / found.jobs[at])) if found.waits else "-",
        ]
        for at, name in enumerate(found.names[:10])
    ]
    parts = []
    kinds = [("GPU time", found.gpu_s, found.timed), ("waiting", found.wait_s, found.waits)]
    for what, values, known in [*kinds, ("jobs", found.jobs.astype(float), True)]:
        if known and values.sum() > 0:
            tops = [f"{share(part)} have {share(found.top_share(values, part))}" for part in (0.01, 0.05, 0.2)]
            parts.append(f"Of the {what} the top {tops[0]}, {tops[1]} and {tops[2]}.")
    completed = found.completed[np.isfinite(found.completed)]
    if len(completed):
        half = share(float((completed < 0.5).mean()))
        middle = share(float(np.median(completed)))
        parts.append(f"The median user completes {middle} of the jobs; {half} complete under half.")
    told = f"<p>{len(found.names):,} users. {escape(' '.join(parts))} The ten with most:</p>"
    return told + table(("user", "jobs", "GPU-hours", "of the GPU time", "completed", "mean wait"), rows)
