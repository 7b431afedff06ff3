"""`coadapt audit`: who changed what, and whether nobody changed that log."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_codes import Exit
from .plain import printable, say
from .spans import span_s

if TYPE_CHECKING:
    from rich.table import Table

    from ..client.client import Client
    from ..core.schemas import AuditView

MOST_SHOWN = 160  # characters of what a change made


def register(app: typer.Typer, connect: Callable[[], Client], show: Callable[[Any, bool], None]) -> None:
    """Add the command. `show`: prints data or a renderable."""

    @app.command()
    def audit(
        user: Annotated[str | None, typer.Option(help="Only what this user asked for.")] = None,
        job: Annotated[str | None, typer.Option(metavar="ID", help="Only what was asked of this job.")] = None,
        verb: Annotated[
            str | None, typer.Option(help="Only this verb, such as job.cancel, or job for all of them.")
        ] = None,
        since: Annotated[str | None, typer.Option(metavar="TIME", help="Of the last 90s, 10m, 2h or 1d.")] = None,
        last: Annotated[int, typer.Option(min=1, metavar="N", help="The newest N rows.")] = 50,
        verify: Annotated[
            bool, typer.Option("--verify", help="Look over all rows here, and name the first that does not fit.")
        ] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> int:
        """Show who changed what, and who was refused; for operators."""
        client = connect()
        if verify:
            return _verified(client, show, as_json)
        since_s = None if since is None else time.time() - span_s("--since", since)
        rows = list(client.audit(user=user, job=job, verb=verb, since_s=since_s, most=last))[::-1]
        if as_json or rows:
            show(rows if as_json else table(rows), as_json)
        else:
            say("nobody has changed anything that fits")
        return Exit.OK


def _verified(client: Client, show: Callable[[Any, bool], None], as_json: bool) -> int:
    many, broken = client.audit_broken()
    if as_json:
        show({"rows": many, "broken": broken}, True)
    else:
        rows = "1 row" if many == 1 else f"{many:,} rows"
        say(f"the audit log is broken: {broken}" if broken else f"{rows}: nobody has changed the audit log")
    return Exit.JOB_FAILED if broken else Exit.OK


def table(rows: Sequence[AuditView]) -> Table:
    """Return rows of the audit log, a line each, oldest first."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False)
    for name in ("ROW", "WHEN", "WHO", "FROM", "VERB", "TARGET", "OUTCOME"):
        found.add_column(name, justify="right" if name == "ROW" else "left", overflow="fold")
    for row in rows:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["time_s"]))
        told = row["outcome"] if row["outcome"] != "done" else made_of(row["detail"]) or "done"
        target = _short(row["target"])
        words = str(row["number"]), at, row["user"] or "-", row["origin"], row["verb"], target, told
        found.add_row(*map(printable, words))
    return found


def made_of(detail: dict[str, Any]) -> str:
    """Return what a change made of its target, as one line."""
    before, after = detail.get("before", {}), detail.get("after", {})
    parts = [
        f"{name} {_short(before[name])} -> {_short(value)}"
        if name in before
        else name.replace("_", " ")
        if value is True
        else f"{name} {_short(value)}"
        for name, value in (after or detail).items()
        if value not in ("", None, False, 0) or name in before
    ]
    text = ", ".join(parts)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def _short(value: object) -> str:
    """Return a value as it is shown; of a digest its beginning."""
    text = str(value)
    return f"{text[:12]}…" if len(text) >= 32 and not text.strip("0123456789abcdef") else text
