"""Shortest remaining time first, with preemption: needs to be told how long jobs take."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..round import JobColumns
from .queueing import QueueingPolicy
from .registry import register


class SrtfOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@register("srtf")
class SrtfPolicy(QueueingPolicy):
    """The jobs that end soonest run; those of unknown length come last."""

    Options = SrtfOptions

    def __init__(self, options: SrtfOptions | None = None) -> None:
        self.options = options or SrtfOptions()

    def key(self, columns: JobColumns) -> np.ndarray:
        return np.nan_to_num(columns.remaining_s, nan=np.inf)
