"""`coadapt usage`: value units and GPU-hours of teams, users and GPU types."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .plain import printable, say
from .spans import span_s

if TYPE_CHECKING:
    from rich.table import Table

    from ..client.client import Client
    from ..core.schemas import UsageSum

WORDS = ("team", "user", "type")
HOURS = ("trained_h", "profiled_h", "started_h", "idle_h", "lost_h")


def register(app: typer.Typer, connect: Callable[[], Client], show: Callable[[Any, bool], None]) -> None:
    """Add the command. `show`: prints data or a renderable."""

    @app.command()
    def usage(
        by: Annotated[str, typer.Option(metavar="WORD,WORD…", help="team, user and type.")] = "team,user",
        since: Annotated[str, typer.Option(metavar="TIME", help="Since so long ago, such as 12h or 30d.")] = "30d",
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Show what teams and users have used: value units, and GPU-hours by what was done in them."""
        words = [word.strip() for word in by.split(",") if word.strip()]
        if wrong := [word for word in words if word not in WORDS]:
            raise typer.BadParameter(f"--by: {wrong[0]} is not one of {', '.join(WORDS)}")
        rows = connect().usage(words or ["team", "user"], time.time() - span_s("--since", since))
        if as_json:
            show(rows, True)
        elif rows:
            show(table(rows, words), False)
        else:
            say(f"nothing was used in the last {since}")


def table(rows: Sequence[UsageSum], by: Sequence[str]) -> Table:
    """Return sums, a line each."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False)
    for word in by:
        found.add_column(word.upper(), overflow="fold")
    for name in ("VALUE UNITS", *(f"{name.removesuffix('_h').upper()} h" for name in HOURS)):
        found.add_column(name, justify="right")
    for row in rows:
        told: dict[str, Any] = dict(row)
        cells = [printable(told[word] or "-") for word in by]
        found.add_row(*cells, f"{row['value_units']:.2f}", *(f"{told[name]:.2f}" for name in HOURS))
    return found
