"""`coadapt down`: ends the scheduler, with its jobs or without."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated

import typer

from .exit_codes import Interrupted
from .plain import say


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(down)


def down(
    grace: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, max=86_400, help="How long jobs may take to save.")
    ] = 60.0,
    keep_jobs: Annotated[
        bool, typer.Option("--keep-jobs", help="End only the scheduler; jobs train on, and find the next one.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask where jobs of other users run.")] = False,
) -> None:
    """End the scheduler, and a cluster that `up --emulate` started; jobs save, and go on after the next `up`."""
    from ..deploy import local_cluster

    def sure(others: Mapping[str, int]) -> None:
        if not yes:
            asked(others)

    def unserved() -> None:
        if not yes:
            told = "the scheduler has ended, so that jobs which train on could not save"
            raise typer.BadParameter(f"{told}; repeat `coadapt up` first, or add --yes")

    if not local_cluster.down(grace_s=grace, keep_jobs=keep_jobs, sure=sure, unserved=unserved):
        say("nothing was running")
    elif keep_jobs:
        say("the scheduler has ended; jobs train on, and the next `coadapt up` finds them")
    else:
        say("down")


def asked(others: Mapping[str, int]) -> None:
    """Ask whether to stop others' jobs. Raises: BadParameter where nobody can be asked, Interrupted for no."""
    many = sum(others.values())
    whose = ", ".join(f"{name or 'somebody'}: {count}" for name, count in others.items())
    told = f"{many} job{'s' * (many != 1)} of other users would stop ({whose})"
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"{told}; --yes ends the scheduler all the same, --keep-jobs lets them train on")
    if not typer.confirm(f"{told}. End the scheduler?"):
        raise Interrupted("nothing was ended")
