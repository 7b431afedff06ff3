"""`coadapt settings`: what the scheduler goes by, and changing it while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .plain import say

if TYPE_CHECKING:
    from rich.table import Table

    from ..client.client import Client
    from ..core.schemas import SettingRow

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]


def register(app: typer.Typer, connect: Callable[[], Client], show: Callable[[Any, bool], None]) -> None:
    """Add the commands. `show`: prints data or a renderable."""
    settings_app = typer.Typer(
        help="Show the settings of the scheduler, and change them while it runs.", rich_markup_mode=None
    )
    app.add_typer(settings_app, name="settings")

    @settings_app.callback(invoke_without_command=True)
    def settings(context: typer.Context, as_json: Json = False) -> None:
        """Show the settings of the scheduler, and change them while it runs."""
        if context.invoked_subcommand is None:
            rows = connect().settings_rows()
            show(rows if as_json else table(rows), as_json)

    @settings_app.command("set")
    def set_settings(
        words: Annotated[
            list[str], typer.Argument(metavar="KEY=VALUE…", help="Such as round_interval_s=30 or policy=fifo.")
        ],
    ) -> None:
        """Change settings from the next round on; they last over restarts."""
        from ..core.settings_change import parsed

        wanted = parsed(words)
        names = connect().change_settings(wanted)
        say(f"changed: {', '.join(names)}" if names else "all of that was so before")


def table(rows: Sequence[SettingRow]) -> Table:
    """Return the settings, a line each."""
    from rich.table import Table

    from ..core.json_numbers import dumps

    found = Table(box=None, pad_edge=False)
    for name in ("SETTING", "VALUE", "DEFAULT", ""):
        found.add_column(name, overflow="fold")
    for row in rows:
        told = "changed" if row["changed"] else "fixed" if row["fixed"] else ""
        other = "" if row["value"] == row["default"] else dumps(row["default"])
        found.add_row(row["name"], dumps(row["value"]), other, told)
    return found
