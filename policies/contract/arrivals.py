"""What a policy may be told of jobs that are to come."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Arrivals:
    """What arrives in a slot of 10 min: jobs, and the GPUs that they ask for."""

    jobs: float
    gpus: float
