"""The live view: a table that changes in a terminal, or a line per change elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from coadapt.cli import show
from coadapt.core.schemas import JobRow
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .phenomena import Promise


class View:
    """A view that `update` gives the whole state each time. Use it in a `with` block."""

    def __init__(self, console: Console | None = None) -> None:
        self._rows: dict[str, JobRow] = {}
        self._seen: set[str] = set()
        console = console or show.console()
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None

    def __enter__(self) -> View:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, elapsed_s: float, rows: Sequence[JobRow], seen: Sequence[Promise]) -> None:
        """Show the state after `elapsed_s` seconds."""
        if self._live is not None:
            clock = Text(f"{show.duration(elapsed_s)} since the first job came", "dim")
            parts = [clock, Text(), show.jobs_table(rows, bars=True), Text(), checklist(seen)]
            self._live.update(Group(*parts), refresh=True)
        else:
            lines = show.change_lines(self._rows, rows)
            lines += [
                f"seen: {promise.what}" for promise in seen if promise.seen and promise.what not in self._seen
            ]
            for line in lines:
                print(f"{elapsed_s:5.0f} s  {line}", flush=True)
        self._rows = {row["id"]: row for row in rows}
        self._seen = {promise.what for promise in seen if promise.seen}


def checklist(seen: Sequence[Promise]) -> Table:
    """Return a table of what was seen and what was not."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for promise in seen:
        mark = Text("seen", "green") if promise.seen else Text("...", "dim")
        table.add_row(mark, Text(promise.what), Text(promise.seen or "", "dim"))
    return table
