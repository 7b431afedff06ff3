"""The places of a job that a worker is given."""

from __future__ import annotations

from dataclasses import dataclass

from ..sandbox.line import NO_LINE, Line

OUTPUTS = ".outputs"  # beside the job's folder


@dataclass(frozen=True)
class Site:
    """Name the places of a job.

    `key` names the job's folder on each machine. `state_dir` is the service's, used if it exists on this machine.
    """

    key: str
    state_dir: str = ""
    package: bool = True  # whether it has a folder of its own; else it runs where its script is
    outputs_url: str = ""
    line: Line = NO_LINE  # around its processes
    profile: str = ""  # the worker of a profile run, which has folders of its own
