"""The result of the jobs: a table, and a picture of who held which GPUs when."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from coadapt.cli import show
from coadapt.core.json_numbers import shown as number
from coadapt.core.schemas import JobRow, TimelineRow
from rich.table import Table

from .phenomena import running

COLOURS = {"a100": "#2f6fb7", "rtx": "#3f9b52", "t4": "#e0a030"}


def jobs(rows: Sequence[JobRow], timeline: Sequence[TimelineRow]) -> Table:
    """Return a table with a line for each job."""
    table = Table(title="What became of the jobs", title_justify="left", box=None, pad_edge=False)
    for name in ("JOB", "STATUS", "JCT", "PAUSES", "GPU TYPES", "MOST GPUS", "BATCH", "LR", "METRICS"):
        table.add_column(name, overflow="fold")
    for row in rows:
        mine = running(timeline, row["id"])
        table.add_row(
            row["id"],
            row["status"],
            show.duration((row["finished_s"] or time.time()) - row["submitted_s"]),
            str(row["restarts"]),
            " ".join(dict.fromkeys(i["gpu_type"] for i in mine)),
            str(max((i["gpus"] for i in mine), default=0)),
            first_last([i["batch_size"] for i in mine]),
            first_last([i["lr"] for i in mine]),
            show.metrics(row),
        )
    return table


def first_last(values: Sequence[float | None]) -> str:
    """Format the first and the last known value; `-`: none is known."""
    known = [v for v in values if v]
    return f"{number(known[0])} -> {number(known[-1])}" if known else "-"


def picture(
    rows: Sequence[JobRow], timeline: Sequence[TimelineRow], started_s: float, cluster: str, path: Path
) -> None:
    """Draw a lane for each job, with bars and batch sizes, and write it to `path`.

    A bar is higher with more GPUs, and its colour is the GPU type.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    now = time.time()
    most = max((i["gpus"] for i in timeline), default=1)
    figure, axes = plt.subplots(figsize=(13, 0.9 * len(rows) + 1.6))
    for lane, row in enumerate(rows):
        axes.plot(
            [row["submitted_s"] - started_s, (row["finished_s"] or now) - started_s], [lane, lane], "k-", lw=0.5
        )
        shown = None
        for i in (i for i in timeline if i["job_id"] == row["id"]):
            left, width = i["start_s"] - started_s, (i["end_s"] or now) - i["start_s"]
            height, colour = 0.85 * i["gpus"] / most, COLOURS.get(i["gpu_type"], "grey")
            profiling = i["phase"] == "profiling"
            style = {"facecolor": "none", "edgecolor": colour, "hatch": "////"} if profiling else {"color": colour}
            axes.bar(left, height, width, bottom=lane, align="edge", lw=0.5, **style)
            # Numbers over narrower bars would overlap.
            if not profiling and i["batch_size"] and i["batch_size"] != shown and width > 6:
                shown = i["batch_size"]
                axes.text(left, lane + height + 0.02, str(shown), fontsize=7)
    axes.set_yticks(range(len(rows)), [row["id"] for row in rows])
    axes.set_xlabel("seconds")
    axes.set_title(f"Coadapt on {cluster} (emulated): bar height = GPUs (1 to {most}), number = batch size")
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    handles.append(plt.Rectangle((0, 0), 1, 1, facecolor="none", edgecolor="black", hatch="////"))
    axes.legend(handles, [*COLOURS, "profiling"], loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
