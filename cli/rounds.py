"""`coadapt rounds`: what the last rounds decided, and how long they took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .plain import printable, say
from .spans import span_s

if TYPE_CHECKING:
    from ..client.client import Client
    from ..core.schemas import RoundChange, RoundRow

MOST_NAMED = 6  # jobs on a line
PROVEN = 1e-9  # a gap that is none


def register(app: typer.Typer, connect: Callable[[], Client], show: Callable[[Any, bool], None]) -> None:
    """Add the command. `show`: prints data or a renderable."""

    @app.command()
    def rounds(
        last: Annotated[int, typer.Option(min=1, metavar="N", help="The newest N rounds.")] = 20,
        since: Annotated[str | None, typer.Option(metavar="TIME", help="Of the last 90s, 10m, 2h or 1d.")] = None,
        phases: Annotated[bool, typer.Option("--phases", help="Also how long each phase took.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Show what the last rounds decided: what was placed, moved and stopped, what waits, and errors."""
        since_s = None if since is None else time.time() - span_s("--since", since)
        rows = connect().rounds(most=last, since_s=since_s)
        if as_json:
            show(rows, True)
        else:
            text = "\n".join(line for row in reversed(rows) for line in lines(row, phases=phases))
            say(text or "there was no round")


def lines(row: RoundRow, *, phases: bool = False) -> list[str]:
    """Return a round as lines: when and how long, then what changed, what waits, and what went wrong."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["time_s"]))
    took = f"{1000 * row['seconds']:.0f} ms"
    if row["round"] is None:
        head = f"{at}  round {row['number']}, {took}: no plan"
    else:
        jobs = "1 job" if row["jobs"] == 1 else f"{row['jobs']} jobs"
        gap = row["gap"]
        best = "the best" if gap is not None and gap <= PROVEN else f"within {100 * (gap or 0):.2g} % of the best"
        proven = "" if gap is None else f", proven {best}"
        head = f"{at}  round {row['number']}, {took}, {jobs}{proven}"
    found = [head]
    changes = {kind: row[kind] for kind in ("placed", "moved", "stopped", "measured")}
    for kind, some in changes.items():
        if some or row["counts"].get(kind):
            found.append(f"  {kind}: {_named(some, row['counts'].get(kind, len(some)))}")
    waiting = row["counts"].get("waiting", 0)
    if waiting:
        reasons = ", ".join(f"{many} {code.replace('_', ' ')}" for code, many in sorted(row["waiting"].items()))
        known = sum(row["waiting"].values())
        told = f" ({reasons})" if known == waiting else f" (of the oldest {known}: {reasons})" if known else ""
        found.append(f"  waiting: {waiting}{told}")
    found += [f"  error: {printable(text)}" for text in row["errors"]]
    if phases:
        found.append("  phases: " + ", ".join(f"{name} {1000 * s:.1f} ms" for name, s in row["phases"].items()))
    return found


def _named(some: Sequence[RoundChange], many: int) -> str:
    parts = [_change(one) for one in some[:MOST_NAMED]]
    left = many - len(parts)
    return ", ".join([*parts, *([f"and {left} more"] if parts and left else [f"{left} jobs"] if left else [])])


def _change(one: RoundChange) -> str:
    sides: Iterable[str] = (one["before"], one["after"])
    return f"{one['job']} {' -> '.join(side for side in sides if side)}"
