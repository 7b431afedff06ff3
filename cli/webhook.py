"""`coadapt webhook`: who is told of events, by a program, by chat or by mail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.topics import DEFAULT, OF_CLUSTER, OF_JOBS
from .plain import printable, say

if TYPE_CHECKING:
    from rich.table import Table

    from ..client.client import Client
    from ..core.schemas import WebhookRow

Name = Annotated[str, typer.Argument(metavar="NAME", help="Letters, digits, ., _ and -.")]
OfCluster = Annotated[
    bool, typer.Option("--cluster", help="One that is told of all jobs and of the cluster; for operators.")
]
NONE = "none"


def register(app: typer.Typer, connect: Callable[[], Client], show: Callable[[Any, bool], None]) -> None:
    """Add the commands. `show`: prints data or a renderable."""
    webhook_app = typer.Typer(
        help="Tell programs, chat and mail of your jobs' ends, failures and moves.", rich_markup_mode=None
    )
    app.add_typer(webhook_app, name="webhook")

    @webhook_app.command("add")
    def add(
        name: Name,
        url: Annotated[str, typer.Argument(metavar="URL", help="https://…, or one of apprise, as mailtos://….")],
        event: Annotated[
            list[str] | None,
            typer.Option(
                "--event",
                metavar="EVENT",
                help=f"Of what; repeat it. One of {', '.join((*OF_JOBS, *OF_CLUSTER))}; {NONE}: only of jobs "
                f"whose files name it. By default {' and '.join(DEFAULT)}.",
            ),
        ] = None,
        cluster: OfCluster = False,
    ) -> None:
        """Add a webhook, and show the secret with which its events are signed, this once."""
        events = None if event is None else [one for one in event if one != NONE]
        secret = connect().add_webhook(name, url, events, cluster=cluster)
        say(f"{name} added; `coadapt webhook test {name}{' --cluster' if cluster else ''}` tries it")
        if secret:
            say(f"its events are signed with {secret}, which is shown this once")

    @webhook_app.command("list")
    def list_webhooks(
        cluster: OfCluster = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    ) -> None:
        """Show webhooks, and how each has been since the service began."""
        rows = connect().webhooks(cluster=cluster)
        if as_json or rows:
            show(rows if as_json else table(rows), as_json)
        else:
            say("no webhooks; `coadapt webhook add NAME URL` makes one")

    @webhook_app.command("test")
    def test(name: Name, cluster: OfCluster = False) -> None:
        """Send a webhook an event of its own, and say whether it was acknowledged."""
        problem = connect().test_webhook(name, cluster=cluster)
        if problem is None:
            say(f"{name} has not answered yet; `coadapt webhook list` says how it goes on")
            raise typer.Exit(1)
        if problem:
            say(f"{name} was not reached: {problem}; it is tried again", error=True)
            raise typer.Exit(1)
        say(f"{name} has acknowledged an event")

    @webhook_app.command("remove")
    def remove(name: Name, cluster: OfCluster = False) -> None:
        """Remove a webhook, and what is on its way to it."""
        waiting = connect().remove_webhook(name, cluster=cluster)
        count = "1 event" if waiting == 1 else f"{waiting} events"
        say(f"{name} removed" + (f"; {count} will not be delivered" if waiting else ""))


def table(rows: Sequence[WebhookRow]) -> Table:
    """Return webhooks, a line each."""
    from rich.table import Table

    found = Table(box=None, pad_edge=False)
    for name in ("NAME", "URL", "EVENTS", "WAIT", "SENT", "FAILED", "LAST", ""):
        found.add_column(name, overflow="fold")
    for row in rows:
        events = ", ".join(row["events"]) or ("of a job file" if row["by_job"] else "of jobs that name it")
        lost = f"{row['given_up']} given up; " if row["given_up"] else ""
        counts = (str(row[name]) for name in ("waiting", "sent", "failed"))
        last = "" if row["last_s"] is None else time.strftime("%m-%d %H:%M:%S", time.localtime(row["last_s"]))
        found.add_row(row["name"], printable(row["url"]), events, *counts, last, printable(lost + row["problem"]))
    return found
