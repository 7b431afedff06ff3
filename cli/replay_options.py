"""Options that every command has that replays a trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..simulator.engine.foreseeing import Foresees

Format = Annotated[
    str | None, typer.Option(help="The trace's format, if its header does not tell; an unknown one lists all.")
]
RoundInterval = Annotated[float, typer.Option(help="Seconds between scheduling rounds.")]
Events = Annotated[bool, typer.Option("--events", help="Rounds when jobs arrive or end, instead of at intervals.")]
Estimates = Annotated[
    Path | None, typer.Option(help="With --lengths estimated: CSV with the columns job_id and estimate_s.")
]
Pairs = Annotated[
    Path | None,
    typer.Option(metavar="FILE.csv", help="Measured speeds of jobs that share GPUs, by their kinds."),
]
Usage = Annotated[
    Path | None,
    typer.Option(metavar="FILE.csv", help="What each job uses of its GPUs, for policies that share GPUs."),
]
Deadlines = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=VALUE,…",
        help="Give jobs deadlines, multiples of their lengths: strict and soft are parts of the jobs, least and "
        "most the multiples; density; awkward, of jobs of 3, 5, 6 or 7 GPUs; metric, of jobs that a metric ends.",
    ),
]
ForeseesOption = Annotated[
    str | None,
    typer.Option(
        "--foresees",
        help="With --shares: what policies are told of jobs to come: perfect, learned (as the service team_load "
        "learns it), always (as many as of late), random (that, or none) or nothing (none come).",
    ),
]
NodeSpeeds = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="How much slower jobs are on more nodes: model, GPUs, nodes, speed."),
]
LengthNoise = Annotated[
    float,
    typer.Option(min=0, metavar="X", help="Standard deviation of told lengths, over the true ones."),
]
RestartScale = Annotated[float, typer.Option(min=0, metavar="X", help="What restarts cost is multiplied with it.")]
Split = Annotated[
    str | None,
    typer.Option(
        metavar="IMAGE,LANGUAGE,SPEECH",
        help="Without --trace: make up --jobs like those of Philly, with these weights of tasks, such as "
        "20,70,10. --profiles says how fast they are.",
    ),
]
Sizes = Annotated[str, typer.Option(help="With --split: GPUs of jobs: single, philly, or weights as 1:80,4:20.")]
AtOnce = Annotated[bool, typer.Option("--at-once", help="With --split: all jobs are submitted at the beginning.")]


def foreseen_by(given: str | None) -> Foresees | None:
    """Return how jobs to come are foretold; None: nobody tells. Raises typer.BadParameter for an unknown word."""
    from ..simulator.engine.foreseeing import Foresees

    if given is not None and given not in list(Foresees):
        raise typer.BadParameter(f"--foresees: {given!r}; accepted: {', '.join(Foresees)}")
    return None if given is None else Foresees(given)
