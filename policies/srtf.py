"""Shortest remaining time first, with preemption: needs to be told how long jobs take."""

from __future__ import annotations

import numpy as np

from .contract.round import JobColumns
from .queueing import QueueingOptions, QueueingPolicy
from .registry import register


@register("srtf")
class SrtfPolicy(QueueingPolicy):
    """The jobs that end soonest run; those of unknown length come last."""

    Options = QueueingOptions

    def __init__(self, options: QueueingOptions | None = None) -> None:
        self.options = options or QueueingOptions()

    def key(self, columns: JobColumns) -> np.ndarray:
        return np.nan_to_num(columns.remaining_s, nan=np.inf)
