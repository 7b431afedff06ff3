"""`coadapt metrics`: the history of what a job's script reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .plain import printable

if TYPE_CHECKING:
    from rich.table import Table

    from ..client.client import Client
    from ..core.schemas import MetricPoint, MetricsView

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40  # characters of a curve


def register(
    app: typer.Typer,
    connect: Callable[[], Client],
    resolve: Callable[[Client, str], str],
    show: Callable[[Any, bool], None],
) -> None:
    """Add the command. `resolve`: a job's id from its id or name; `show`: prints data or a renderable."""

    @app.command()
    def metrics(
        job: Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or its name.")],
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Show how a job's metrics went, of each at most 1,000 points."""
        client = connect()
        found = client.metrics(resolve(client, job))
        show(found if as_json else table(found), as_json)


def table(found: MetricsView) -> Table:
    """Return the metrics of a job, a line each."""
    from rich.table import Table

    from ..core.json_numbers import shown

    rows = Table(box=None, pad_edge=False)
    for name in ("METRIC", "POINTS", "FIRST", "LAST", "LEAST", "MOST", ""):
        rows.add_column(name, justify="left" if name in ("METRIC", "") else "right")
    for name, points in found["metrics"].items():
        values = [point["value"] for point in points if point["value"] is not None]
        ends = (points[0]["value"], points[-1]["value"], min(values, default=None), max(values, default=None))
        rows.add_row(printable(name), str(len(points)), *(shown(value) for value in ends), curve(points))
    return rows


def curve(points: Sequence[MetricPoint]) -> str:
    """Return values as a row of bars, from the least to the most; a gap where a value was not finite."""
    values = [math.nan if point["value"] is None else point["value"] for point in points]
    count = min(WIDTH, len(values))
    some = [values[at * len(values) // count] for at in range(count)]
    finite = [value for value in some if not math.isnan(value)]
    if not finite:
        return " " * count
    low, high = min(finite), max(finite)
    return "".join(" " if math.isnan(value) else BARS[_level(value, low, high)] for value in some)


def _level(value: float, low: float, high: float) -> int:
    return round((value - low) / (high - low) * (len(BARS) - 1)) if high > low else 0
