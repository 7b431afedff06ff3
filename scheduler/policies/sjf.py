"""Shortest job first, without preemption: needs to be told how long jobs take."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..round import JobColumns
from .queueing import QueueingPolicy
from .registry import register


class SjfOptions(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


@register("sjf")
class SjfPolicy(QueueingPolicy):
    """Waiting jobs start by their length; those of unknown length come last."""

    Options = SjfOptions
    preempts = False

    def __init__(self, options: SjfOptions | None = None) -> None:
        self.options = options or SjfOptions()

    def key(self, columns: JobColumns) -> np.ndarray:
        return np.nan_to_num(columns.remaining_s, nan=np.inf)
