"""`coadapt whatif`: when jobs would start and end with another job, other nodes or another policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ..core.errors import WhatIfError
from ..core.json_numbers import shown
from .plain import printable, say
from .predicted import rough

if TYPE_CHECKING:
    from ..client.client import Client
    from ..core.schemas import Prediction, WhatIfValue, WhatIfView

DAY_S = 86_400.0


def register(
    app: typer.Typer,
    connect: Callable[[], Client],
    show: Callable[[Any, bool], None],
    options_of: Callable[[Sequence[str] | None], dict[str, Any]],
) -> None:
    """Add the command. `show`: prints data or a renderable. `options_of`: reads options of a policy."""

    @app.command()
    def whatif(
        submit: Annotated[
            list[Path] | None, typer.Option(metavar="JOB.yaml", help="A job that would be submitted; repeatable.")
        ] = None,
        like: Annotated[
            list[str] | None, typer.Option(metavar="JOB", help="A job that would be sent once more; repeatable.")
        ] = None,
        nodes: Annotated[
            str, typer.Option(help='Nodes that would come and go, such as "+4x a100:8, -1x t4:4".')
        ] = "",
        without: Annotated[
            list[str] | None, typer.Option(metavar="NODE", help="A node that would go; repeatable.")
        ] = None,
        policy: Annotated[str | None, typer.Option(help="A policy that would plan instead.")] = None,
        policy_option: Annotated[
            list[str] | None,
            typer.Option(metavar="NAME=VALUE", help="An option of that policy, such as p=-1; repeatable."),
        ] = None,
        team: Annotated[
            tuple[str, str], typer.Option(metavar="NAME KEY=VALUE", help="A team, and what it would get.")
        ] = ("", ""),
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Say when jobs would start and end with a job, nodes or a policy, and whom that delays."""
        options = options_of(policy_option)
        if options and policy is None:
            raise typer.BadParameter("--policy-option is of a --policy; give both")
        view = connect().whatif(
            submit=submit or (),
            like=like or (),
            nodes=nodes,
            without=without or (),
            policy=policy,
            policy_options=options,
            team=team_of(*team),
        )
        if as_json:
            show(view, True)
            return
        say(printable(view["text"]))
        show(table(view), False)
        for line in lines(view):
            say(printable(line))


def team_of(name: str, told: str) -> dict[str, dict[str, Any]]:
    """Return what `NAME KEY=VALUE` says of a team; {} for no name. Raises: WhatIfError for another form."""
    key, equals, value = told.partition("=")
    if not name and not told:
        return {}
    if not (name and key and equals):
        raise WhatIfError(f"team: {told!r} is not of the form KEY=VALUE, such as cap.a100=32")
    try:
        return {name: {key: float(value)}}
    except ValueError:
        return {name: {key: value}}


def table(view: WhatIfView) -> Table:
    """Return a line per job: start and end before and after, and by how much it ends later."""
    found, now = Table(box=None, pad_edge=False, header_style="bold"), view["asked_s"]
    for name in ("JOB", "STARTS", "WOULD START", "ENDS", "WOULD END", "LATER BY", "VALUE"):
        found.add_column(name, no_wrap=True)
    for row in view["jobs"]:
        before, after = row["before"], row["after"]
        found.add_row(
            printable(row["id"] if not row["new"] else f"{row['name']} (new)"),
            _start(before),
            _start(after),
            _end(before, now),
            _end(after, now),
            later(row["later_s"], row["later_low_s"], row["later_high_s"]),
            value(row["value_after"]) if row["new"] else _both(row["value_before"], row["value_after"]),
        )
    return found


def later(at_s: float | None, low_s: float | None, high_s: float | None) -> str:
    """Format by how much a job ends later, with its band, as `+3m (1m to 5m)`."""
    if at_s is None or low_s is None or high_s is None:
        return "-"
    if max(abs(low_s), abs(at_s), abs(high_s)) < 1:
        return "0s"
    return f"{_signed(at_s)} ({_signed(low_s)} to {_signed(high_s)})"


def _signed(seconds: float) -> str:
    sign = "-" if seconds < 0 else "+" if seconds > 0 else ""
    return f"{sign}{rough(abs(seconds))}"


def _start(told: Prediction | None) -> str:
    if told is None:
        return "-"
    return "runs" if told["start_s"] is None and not told["why_no_start"] else _clock(told["start_s"])


def _end(told: Prediction | None, now: float) -> str:
    if told is None:
        return "-"
    if told["end_s"] is None:
        return "unknown"
    return f"{_clock(told['end_s'])} (in {rough(told['end_s'] - now)})"


def _clock(moment_s: float | None) -> str:
    if moment_s is None:
        return "never"
    form = "%H:%M:%S" if abs(moment_s - time.time()) < DAY_S / 2 else "%d %b %H:%M"
    return time.strftime(form, time.localtime(moment_s))


def _both(before: WhatIfValue, after: WhatIfValue) -> str:
    return f"{value(before)} -> {value(after)}"


def value(told: WhatIfValue) -> str:
    """Format what a job still takes: value units, or GPU-hours by type where types have no price."""
    if told["units"] is not None:
        return shown(round(float(told["units"]), 3))
    hours = " ".join(f"{shown(round(more, 2))} {gpu_type}" for gpu_type, more in told["gpu_hours"].items())
    return hours or "0"


def lines(view: WhatIfView) -> list[str]:
    """Return what stands below the table."""
    unit = "value units" if view["prices"] else "GPU-hours by type, as no type has a price"
    before, after = value(view["before"]), value(view["after"])
    worlds = "1 world" if view["worlds"] == 1 else f"{view['worlds']} worlds"
    return [
        f"What is left of all jobs takes {before} before and {after} after ({unit}).",
        f"After round {view['round']}, by {worlds}.",
        *(f"Note: {note}" for note in view["notes"]),
    ]
