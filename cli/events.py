"""`coadapt events`: what happened to jobs and to the cluster, and what happens now."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .plain import printable, say
from .spans import span_s

if TYPE_CHECKING:
    from ..client.client import Client


def register(
    app: typer.Typer,
    connect: Callable[[], Client],
    resolve: Callable[[Client, str], str],
    show: Callable[[Any, bool], None],
) -> None:
    """Add the command. `resolve`: a job's id from its id or name; `show`: prints data or a renderable."""

    @app.command()
    def events(
        job: Annotated[
            str | None, typer.Argument(metavar="[JOB]", help="A job's id, or its name; by default of all.")
        ] = None,
        follow: Annotated[
            bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")
        ] = False,
        since: Annotated[str | None, typer.Option(metavar="TIME", help="Of the last 90s, 10m, 2h or 1d.")] = None,
        kind: Annotated[
            list[str] | None,
            typer.Option(help="Only this kind, such as failing; repeatable; a wrong one lists all."),
        ] = None,
        last: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="The newest N events.")] = 50,
        as_json: Annotated[
            bool, typer.Option("--json", help="Print one JSON document instead; with --follow one a line.")
        ] = False,
    ) -> None:
        """Show what happened to jobs and to the cluster; plans of rounds only with --kind plan."""
        since_s = None if since is None else time.time() - span_s("--since", since)
        client = connect()
        job_id, kinds = None if job is None else resolve(client, job), kind or ()
        found = client.events(job_id, last=last, kinds=kinds, since_s=since_s)
        if as_json and not follow:
            show(found, True)
            return
        for event in found:
            _tell(event, as_json)
        if not found and not follow:
            say("nothing has happened that fits", error=True)
        if follow:
            after = found[-1]["number"] if found else None
            for event in client.follow_events(job_id, after=after, kinds=kinds):
                if event["kind"] != "plan" or kinds:
                    _tell(event, as_json)


def _tell(event: dict[str, Any], as_json: bool) -> None:
    say(json.dumps(event) if as_json else line(event), flush=True)


def line(event: dict[str, Any]) -> str:
    """Return an event as a line: when, of what, which kind, what, and who asked for it."""
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event["time_s"]))
    who = f" (by {event['who']})" if event["who"] else ""
    return f"{at}  {event['job_id'] or 'cluster'}  {event['kind']}: {printable(event['text'])}{who}"
