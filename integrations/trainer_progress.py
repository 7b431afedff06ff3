"""What a trainer of transformers counts and remembers, so that it goes on in another process."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import torch
from transformers import Trainer
from transformers.trainer_callback import ExportableState

from ..executor.training import api

# Each process has these of its own.
_OWN = ("is_world_process_zero", "is_local_process_zero", "stateful_callbacks", "log_history")
_COUNTS = ("_total_loss_scalar", "_globalstep_last_logged", "current_flos")


class TrainerProgress:
    """The state of a trainer, of its callbacks that can export theirs, and the loss since the last log.

    The loss is a sum over items, and their number: each replica has its share, and so has each pass of a batch.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        self._loss: torch.Tensor | float = 0.0
        self._items = 0.0
        self._process = f"{os.getpid()}-{id(self)}"
        self._history = 0, "[]"  # length of the log, and the log as JSON: it is copied with each batch
        self.begin()

    def begin(self) -> None:
        """Begin to count, unless another process's counts were taken over."""
        trainer = self._trainer
        if not hasattr(trainer, "_tr_loss"):
            trainer._initial_num_input_tokens_seen = trainer.state.num_input_tokens_seen
            trainer._initial_global_step = trainer.state.global_step
            trainer._tr_loss = torch.tensor(0.0, device=trainer.args.device)
            trainer._total_loss_scalar = 0.0
            trainer._globalstep_last_logged = trainer.state.global_step

    def add(self, loss: torch.Tensor, items: float) -> None:
        """Add the mean loss over so many items. As the trainer does, leave out what is no number."""
        if self._trainer.args.logging_nan_inf_filter and not torch.isfinite(loss):
            return
        self._loss = self._loss + loss.detach() * items
        self._items += items

    def put_loss(self) -> None:
        """Give the trainer the loss of all replicas since its last log; every one of them calls this."""
        trainer = self._trainer
        loss, items = api.combine(float(self._loss), "sum"), api.combine(float(self._items), "sum")
        steps = trainer.state.global_step - trainer._globalstep_last_logged
        trainer._tr_loss.fill_(loss / items * steps if items else 0.0)
        self._loss, self._items = 0.0, 0.0

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        if self._history[0] != len(trainer.state.log_history):
            self._history = len(trainer.state.log_history), json.dumps(trainer.state.log_history)
        names = [one.name for one in fields(trainer.state) if one.name not in _OWN]
        return {
            "state": {name: copy.copy(getattr(trainer.state, name)) for name in names},
            "log": self._history[1],
            "counts": {name: getattr(trainer, name) for name in _COUNTS},
            "callbacks": [one.state() for one in self._exporting()],
            "loss": (self._process, float(self._loss), self._items),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        trainer = self._trainer
        for name, value in state["state"].items():
            setattr(trainer.state, name, value)
        for name, value in state["counts"].items():
            setattr(trainer, name, value)
        if state["log"] != self._history[1] or len(trainer.state.log_history) != self._history[0]:
            trainer.state.log_history = json.loads(state["log"])
        for one, kept in zip(self._exporting(), state["callbacks"], strict=True):
            for name, value in {**kept["args"], **kept["attributes"]}.items():
                setattr(one, name, value)
        process, loss, items = state["loss"]
        if process != self._process:  # else it is put back after a pass, whose share counts
            self._loss, self._items = (loss, items) if api.rank() == 0 else (0.0, 0.0)
            self._process = process

    def _exporting(self) -> Iterator[ExportableState]:
        trainer = self._trainer
        for one in [*trainer.callback_handler.callbacks, trainer.control]:
            if isinstance(one, ExportableState):
                yield one
