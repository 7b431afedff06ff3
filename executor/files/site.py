"""What a worker is told of the places of its job."""

from __future__ import annotations

from dataclasses import dataclass

OUTPUTS = ".outputs"  # beside the job's folder


@dataclass(frozen=True)
class Site:
    """What a worker is told of the places of its job.

    `key` names the job's folder on each machine; `state_dir` is the service's, used where it is on this machine.
    """

    key: str
    state_dir: str = ""
    package: bool = True  # whether it has a folder of its own; else it runs where its script is
    outputs_url: str = ""
    profile: str = ""  # the worker of a profile run, which has folders of its own
