"""`coadapt teams`: who shares the cluster, and what another file of teams would change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exit_codes import Exit
from .plain import printable, say

if TYPE_CHECKING:
    from rich.table import Table

    from ..client.client import Client
    from ..core.schemas import TeamsView, WhatIfView

MOST_USERS = 8  # that are named in a cell
MOST_DELAYED = 10  # jobs that are named


def register(app: typer.Typer, connect: Callable[[], Client], show: Callable[[Any, bool], None]) -> None:
    """Add the commands. `show`: prints data or a renderable."""
    teams_app = typer.Typer(
        help="Show the teams that share the cluster, and apply another file of them.",
        rich_markup_mode=None,
        invoke_without_command=True,
    )
    app.add_typer(teams_app, name="teams")

    @teams_app.callback()
    def list_teams(
        context: typer.Context,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Show the teams that share the cluster, and apply another file of them."""
        if context.invoked_subcommand is not None:
            return
        found = connect().teams()
        if as_json or found["teams"]:
            show(found if as_json else table(found), as_json)
        else:
            say("no teams share this cluster; operators apply a file of them by `coadapt teams apply FILE.yaml`")

    @teams_app.command("apply")
    def apply(
        file: Annotated[Path, typer.Argument(metavar="FILE.yaml", help="The file of teams.")],
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Apply it without asking.")] = False,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document; needs --yes.")] = False,
    ) -> int:
        """Let a file of teams count: it says what would change, and asks; for operators."""
        if as_json and not (yes or dry_run):
            raise typer.BadParameter("--json: nobody can be asked then; give --yes or --dry-run, too")
        client, values = connect(), read(file)
        found = client.check_teams(values)
        if not as_json:
            for line in (*found["changes"], *found["notes"]):
                say(printable(line))
        for problem in found["refused"]:
            say(f"coadapt: {file}: {printable(problem)}", error=True)
        if found["refused"] or dry_run or not found["changes"]:
            if as_json:
                show(found, True)
            elif not (found["changes"] or found["refused"]):
                say("nothing would change")
            return Exit.USAGE if found["refused"] else Exit.OK
        for line in () if yes else tried(client, values):
            say(printable(line))
        if not yes and not typer.confirm("apply it?"):
            say("nothing is changed")
            return Exit.OK
        done = client.apply_teams(values, version=found["version"])
        if as_json:
            show(done, True)
        else:
            say("applied; it counts from the next round on")
        return Exit.OK


def tried(client: Client, values: Mapping[str, Any]) -> list[str]:
    """Return what the simulator tells of a file of teams: whom it would delay, a line each."""
    from ..client.http_api import RequestError
    from ..core.errors import StateError

    try:
        return delays(client.whatif(teams=values))
    except (RequestError, StateError) as error:  # such as before the first round
        return [f"the simulator could not try it: {error}"]


def delays(view: WhatIfView) -> list[str]:
    """Return the answer of the simulator, and the jobs that would end noticeably later, a line each."""
    from .whatif import later

    rows = [row for row in view["jobs"] if (row["later_s"] or 0.0) > 0][: view["delayed"]]
    found = [f"tried by the simulator: {view['text']}"]
    for row in rows[:MOST_DELAYED]:
        of = f" of team {row['team']}" if row["team"] else ""
        by = later(row["later_s"], row["later_low_s"], row["later_high_s"]).removeprefix("+")
        found.append(f"  {row['id']}{of} ends later by {by}")
    if rows[MOST_DELAYED:]:
        found.append(f"  and {len(rows) - MOST_DELAYED} more jobs")
    return found


def read(file: Path) -> Mapping[str, Any]:
    """Return the values of a file of teams. Raises: TeamsError for one that cannot be used."""
    from ..core import safe_yaml, teams_file
    from ..core.errors import TeamsError

    try:
        with file.open("rb") as opened:
            data = opened.read(safe_yaml.MAX_BYTES + 1)
        return teams_file.read(data).model_dump(mode="json", exclude_unset=True)
    except OSError as error:
        raise TeamsError(f"{file}: cannot be read: {error.strerror or error}") from None
    except TeamsError as error:
        raise TeamsError(f"{file}: {error}") from None


def table(view: TeamsView) -> Table:
    """Return teams, a line each."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False)
    for name in ("TEAM", "SHARE", "GUARANTEE", "CAP", "HAS", "BORROWED", "LENT", "PRIORITIES", "LIMITS", "USERS"):
        found.add_column(name, overflow="fold")
    for name, team in view["teams"].items():
        users, now = team["users"], view["now"][name]
        named = ", ".join(users[:MOST_USERS]) + (
            f" and {len(users) - MOST_USERS} more" if users[MOST_USERS:] else ""
        )
        found.add_row(
            name + (" (default)" if team["default"] else ""),
            f"{team['share']:g}",
            _counts(team["guarantee"]),
            _counts(team["cap"]),
            _counts(now["gpus"]),
            _counts(now["borrowed"]),
            _counts(now["lent"]),
            ", ".join(team["priorities"]),
            limits(team["limits"]),
            printable(named) or "-",
        )
    return found


def limits(found: Mapping[str, Any]) -> str:
    """Return limits in one cell."""
    parts = [f"{found[name]} {name}" for name in ("queued", "running") if found[name] is not None]
    parts += [f"{count} {gpu_type}" for gpu_type, count in found["gpus"].items()]
    if found["value_units_a_month"] is not None:
        parts.append(f"{found['value_units_a_month']:g} value units a month")
    return ", ".join(parts) or "-"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {gpu_type}" for gpu_type, count in counts.items()) or "-"
