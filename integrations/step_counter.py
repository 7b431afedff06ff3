"""Counts steps of a trainer as its learning rate schedule does: by progress where the batch is adapted."""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


class StepCounter(LRScheduler):
    """Be a schedule that changes no learning rate, and so be advanced, undone and kept like any other."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.count = 0

    def step(self, epoch: int | None = None) -> None:
        self.count += 1

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.count = state_dict["count"]
