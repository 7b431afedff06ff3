"""`coadapt node drain`, `cordon`, `uncordon` and `window`: nodes that take no new work for a while."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_codes import Exit
from .moments import moment_s
from .plain import printable, say
from .spans import span_s

if TYPE_CHECKING:
    from rich.table import Table

    from ..client.client import Client
    from ..core.schemas import OrderView, WindowRow

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Nodes = Annotated[
    list[str], typer.Argument(metavar="NODE…", help="Names of machines, or beginnings of ids of nodes.")
]
Why = Annotated[str, typer.Option(metavar="TEXT", help="The reason, for whoever sees the node.")]
Show = Callable[[Any, bool], None]


def register(node_app: typer.Typer, connect: Callable[[], Client], show: Show) -> None:
    """Add the commands. `show`: prints data or a renderable."""

    @node_app.command("drain")
    def drain(
        names: Nodes,
        deadline: Annotated[
            str | None,
            typer.Option(metavar="WHEN", help="By when jobs have left: 10m from now, or 2026-12-01T22:00."),
        ] = None,
        why: Why = "",
        as_json: Json = False,
    ) -> int:
        """Give nodes no new work, and have jobs leave them. With a deadline they save at once."""
        now = time.time()
        left_s = None if deadline is None else moment_s("--deadline", deadline, now) - now
        if left_s is not None and left_s <= 0:
            raise typer.BadParameter(f"--deadline: {deadline} is in the past; it must be after now, such as 10m")
        client = connect()
        return _each(names, lambda name: client.drain(name, left_s, why), show if as_json else None)

    @node_app.command("cordon")
    def cordon(names: Nodes, why: Why = "", as_json: Json = False) -> int:
        """Give nodes no new work; what runs there stays."""
        client = connect()
        return _each(names, lambda name: client.cordon(name, why), show if as_json else None)

    @node_app.command("uncordon")
    def uncordon(names: Nodes, as_json: Json = False) -> int:
        """Let nodes take work again that were cordoned or drained."""
        client = connect()
        return _each(names, client.uncordon, show if as_json else None)

    _register_windows(node_app, connect, show)


def _register_windows(node_app: typer.Typer, connect: Callable[[], Client], show: Show) -> None:
    window_app = typer.Typer(help="Maintenance windows: nodes are free in them.", rich_markup_mode=None)
    node_app.add_typer(window_app, name="window")

    @window_app.command("list")
    def windows(as_json: Json = False) -> None:
        """Show all maintenance windows, the next one first."""
        rows = connect().windows()
        show(rows if as_json else table(rows) if rows else "no maintenance windows", as_json)

    @window_app.command("add")
    def add(
        begins: Annotated[str, typer.Option("--from", metavar="WHEN", help="2026-12-01T22:00, or 2h from now.")],
        ends: Annotated[str, typer.Option("--to", metavar="WHEN", help="2026-12-02T02:00, or 6h from now.")],
        names: Annotated[list[str] | None, typer.Argument(metavar="NODE…", help="Names of machines.")] = None,
        gpu_type: Annotated[str, typer.Option(metavar="TYPE", help="All nodes of this type, too.")] = "",
        lead: Annotated[
            str | None, typer.Option(metavar="SPAN", help="Jobs leave so long before it begins; by default 10m.")
        ] = None,
        why: Why = "",
        as_json: Json = False,
    ) -> None:
        """Keep nodes free from one moment to another: they are drained before, and come back at its end."""
        now = time.time()
        lead_s = None if lead is None else span_s("--lead", lead)
        moments = moment_s("--from", begins, now), moment_s("--to", ends, now)
        row = connect().add_window(*moments, names or [], gpu_type, lead_s, why)
        show(row, True) if as_json else say(f"{row['id']}: {_line(row)}")

    @window_app.command("remove")
    def remove(
        ids: Annotated[list[str], typer.Argument(metavar="WINDOW…", help="Ids of windows, such as w1.")],
        as_json: Json = False,
    ) -> None:
        """Forget maintenance windows; their nodes take work again."""
        client = connect()
        rows = [client.remove_window(id) for id in dict.fromkeys(ids)]
        if as_json:
            show(rows, True)
        for row in () if as_json else rows:
            say(f"{row['id']} for {_nodes(row)} is taken back")


def _each(names: list[str], order: Callable[[str], OrderView], show: Show | None) -> Exit:
    """Give an order for each node, and tell what became of it. The others follow one that refuses."""
    from ..client.client import RequestError, UnknownJobError

    rows: list[dict[str, Any]] = []
    code = Exit.OK
    for name in dict.fromkeys(names):
        try:
            rows.append({"node": name, **order(name)})
        except (RequestError, UnknownJobError) as error:
            code = max(code, Exit.NOT_FOUND if isinstance(error, UnknownJobError) else Exit.USAGE)
            rows.append({"node": name, "changed": False, "told": str(error)})
            say(f"coadapt: {error}", error=True)
            continue
        if show is None:
            say(printable(rows[-1]["told"]))
    if show is not None:
        show(rows, True)
    return code


def table(rows: Sequence[WindowRow]) -> Table:
    """Return maintenance windows, a line each."""
    from rich.table import Table
    from rich.text import Text

    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("WINDOW", "NODES", "FROM", "TO", "JOBS LEAVE FROM", "BY", "WHY"):
        found.add_column(name, overflow="fold")
    for row in rows:
        moments = map(_moment, (row["begins_s"], row["ends_s"], row["begins_s"] - row["lead_s"]))
        words = row["id"], _nodes(row), *moments, row["who"] or "-", row["why"] or "-"
        found.add_row(*(Text(printable(word)) for word in words))
    return found


def _line(row: WindowRow) -> str:
    begins, ends, leave = map(_moment, (row["begins_s"], row["ends_s"], row["begins_s"] - row["lead_s"]))
    return f"{_nodes(row)} from {begins} to {ends}; jobs leave from {leave} on"


def _nodes(row: WindowRow) -> str:
    return ", ".join([*row["nodes"], *([f"all {row['gpu_type']} nodes"] if row["gpu_type"] else [])])


def _moment(wall_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(wall_s))
