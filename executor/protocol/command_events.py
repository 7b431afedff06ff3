"""What a command's executor and its workers tell each other. A worker runs all processes of a job on its node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Located:
    """Report where the worker is: its address, and a port that is free there for a rendezvous."""

    host: str
    port: int


@dataclass(frozen=True)
class Begin:
    """Start the processes: the first has rank `first_rank` of `world_size`; ranks meet at `master`."""

    generation: int
    first_rank: int
    world_size: int
    node_rank: int
    nodes: int
    master_host: str
    master_port: int


@dataclass(frozen=True)
class Terminate:
    """Send SIGTERM to every process, and kill what is left of them after `grace_s` seconds."""

    grace_s: float


CommandOrder = Begin | Terminate


@dataclass(frozen=True)
class Begun:
    """Report that all processes of this node exist."""

    generation: int
    pids: tuple[int, ...]


@dataclass(frozen=True)
class Said:
    """Pass on what the process of a rank wrote next."""

    rank: int
    text: str


@dataclass(frozen=True)
class Ended:
    """Report that a process and all it started are gone.

    `code` < 0: killed by signal -code. `summary` and `traceback` are what its output says of an error.
    `overdue`: it was killed since it went on after SIGTERM. `left`: processes that it left in the background.
    """

    rank: int
    code: int
    summary: str = ""
    traceback: str = ""
    overdue: bool = False
    left: int = 0


@dataclass(frozen=True)
class Status:
    """Tell how far a program says it is. What is None it does not say.

    `fraction`: done of all, 0 to 1. `samples`: processed. `time_s`: when it was said, of the worker's clock.
    """

    time_s: float
    step: int | None = None
    steps: int | None = None  # until the end
    epoch: float | None = None
    epochs: float | None = None
    fraction: float | None = None
    samples: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """Tell of a status that was not taken, in one sentence, and how many were not by now.

    `logged`: the job's log is to have the sentence; of many that are refused it has only the first.
    """

    sentence: str
    total: int = 1
    logged: bool = True


CommandEvent = Located | Begun | Said | Ended | Status | Refused
