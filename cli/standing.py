"""`coadapt priority`, `hold`, `release`, `bump` and `extend`: how jobs stand among others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from .spans import span_s

if TYPE_CHECKING:
    from ..client.client import Client

Jobs = Annotated[list[str], typer.Argument(metavar="JOB…", help="Jobs, by id or name.")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="A job's id, or its name where only one job has it.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")]
Each = Callable[["Client", Sequence[str], Callable[[str], bool], str, bool], int]
PRIORITIES = ("low", "normal", "high", "urgent")


def register(app: typer.Typer, connect: Callable[[], Client], each: Each) -> None:
    """Add the commands. `each`: does a verb to each job and tells of it."""

    @app.command()
    def priority(
        job: Job,
        wanted: Annotated[str, typer.Argument(metavar="low|normal|high|urgent", help="Its worth.")],
        as_json: Json = False,
    ) -> int:
        """Let a job's progress be worth more or less: each step doubles it."""
        if wanted not in PRIORITIES:
            raise typer.BadParameter(f"{wanted} is no priority; it is one of {', '.join(PRIORITIES)}")
        client = connect()
        return each(client, [job], lambda one: client.set_priority(one, wanted), wanted, as_json)

    @app.command()
    def hold(jobs: Jobs, as_json: Json = False) -> int:
        """Let jobs start on no GPUs until they are released; what they have they keep."""
        client = connect()
        return each(client, jobs, client.hold, "held", as_json)

    @app.command()
    def release(jobs: Jobs, as_json: Json = False) -> int:
        """Let jobs that are on hold start again."""
        client = connect()
        return each(client, jobs, client.release, "released", as_json)

    @app.command()
    def bump(jobs: Jobs, as_json: Json = False) -> int:
        """Let jobs come first among your own that wait; nobody else is delayed."""
        client = connect()
        return each(client, list(reversed(jobs)), client.bump, "bumped", as_json)

    @app.command()
    def extend(
        job: Job,
        by: Annotated[str, typer.Argument(metavar="SPAN", help="By how much, such as 30m or 2h.")],
        as_json: Json = False,
    ) -> int:
        """Move the time limit of a job."""
        client, by_s = connect(), span_s("SPAN", by)
        return each(client, [job], lambda one: client.extend(one, by_s), "extended", as_json)
