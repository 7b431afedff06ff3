"""First in, first out: jobs of a fixed size in order of submission, none before one ahead of it."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..round import JobColumns
from .queueing import QueueingPolicy
from .registry import register


class FifoOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@register("fifo")
class FifoPolicy(QueueingPolicy):
    """Non-preemptive, with head-of-line blocking, as Slurm's default queue."""

    Options = FifoOptions
    preempts = False

    def __init__(self, options: FifoOptions | None = None) -> None:
        self.options = options or FifoOptions()

    def key(self, columns: JobColumns) -> np.ndarray:
        return columns.submitted_s
