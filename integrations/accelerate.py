"""Elastic training with Hugging Face's Accelerate.

    from coadapt.integrations.accelerate import Accelerator

    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for epoch in coadapt.epochs(3):
        ...

In a job `prepare` gives models, optimizers and the training loader to `coadapt.prepare`. Mixed precision,
accumulation, clipping and saving are Accelerate's own. Anywhere else this is Accelerate's class as it is.
"""
# ruff: noqa: E402  # what is missing is told before it is imported

from __future__ import annotations

from . import versions

versions.require("accelerate")

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import accelerate
import torch
from accelerate.utils import send_to_device
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader

from ..executor.training import api, inside
from . import accelerate_state

# Options of Accelerate for ways to train that a job cannot follow.
_REFUSED = (
    "deepspeed_plugin",
    "deepspeed_plugins",
    "fsdp_plugin",
    "torch_tp_plugin",
    "megatron_lm_plugin",
    "parallelism_config",
)
_OF_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


class Accelerator(accelerate.Accelerator):
    """Be Accelerate's `Accelerator`, whose `prepare` makes a script elastic in a job.

    In a job there is one process to Accelerate: the loader's batch is that of all replicas, each of which
    evaluates by itself. `is_main_process` is true on one of them.
    Raises ValueError, in one sentence, for a way to train that a job cannot follow.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        if not inside.in_job():
            super().__init__(*args, **options)
            return
        for name in _REFUSED:
            if options.get(name) is not None:
                raise ValueError(
                    f"Accelerator: {name} is set, and a job divides batches between whole copies of the model; "
                    "leave it out, or submit the script as a command with sizes"
                )
        with _without_ranks():
            super().__init__(*args, **options)
        accelerate_state.be_one_process()
        if self.gradient_accumulation_steps > 1 and not self.gradient_state.sync_with_dataloader:
            raise ValueError(
                "Accelerator: sync_with_dataloader is False; a job ends a step with each pass over the data"
            )

    def prepare(self, *args: Any, device_placement: list[bool] | None = None) -> Any:
        """Prepare everything of a run in one call, the first loader being that of the training data."""
        if not inside.in_job():
            inside.leave_to_framework()
            return super().prepare(*args, device_placement=device_placement)
        if not any(isinstance(one, torch.optim.Optimizer) for one in args):
            return super().prepare(*args, device_placement=device_placement)
        place: list[bool | None] = [*device_placement] if device_placement else [None] * len(args)
        loader = next((one for one in args if isinstance(one, DataLoader)), None)
        done = dict(enumerate(args))
        for i, one in enumerate(args):
            if isinstance(one, torch.nn.Module):
                done[i] = self.prepare_model(one, device_placement=place[i])
        elastic = [one for one in done.values() if not isinstance(one, DataLoader) or one is loader]
        others = [one for one in self._custom_objects if not any(one is given for given in args)]
        api.prepare(*elastic, *others, *([] if self.scaler is None else [self.scaler]))
        for i, one in enumerate(args):
            if one is loader:
                _place_batches(loader, self)
            elif isinstance(one, DataLoader):
                done[i] = self.prepare_data_loader(one, device_placement=place[i])
            elif isinstance(one, torch.optim.Optimizer):
                done[i] = self.prepare_optimizer(one, device_placement=place[i])
        for i, one in enumerate(args):
            if isinstance(one, LRScheduler):
                done[i] = self.prepare_scheduler(one)
        accelerate_state.follow_rank()
        return tuple(done.values())

    def log(
        self, values: dict[str, Any], step: int | None = None, log_kwargs: dict[str, Any] | None = None
    ) -> None:
        """Log, and report what is a number to the job."""
        if inside.in_job() and api.current() is not None:
            numbers: dict[str, Any] = {
                name: value for name, value in values.items() if isinstance(value, int | float)
            }
            api.report(**numbers)
        super().log(values, step=step, log_kwargs=log_kwargs or {})

    def _do_sync(self) -> None:
        """Decide whether this batch ends a step, by its number: it is given again in each of its passes."""
        if not inside.in_job():
            super()._do_sync()
            return
        state, number = self.gradient_state, inside.batch_number()
        self.step = number
        state._set_sync_gradients(number % state.num_steps == 0 or state.end_of_dataloader)


def _place_batches(loader: Any, accelerator: Accelerator) -> None:
    """Let the prepared loader put its batches on the device, and tell Accelerate which is the last one."""
    kind = type(loader)
    state = accelerator.gradient_state

    def iterate(self: Any) -> Iterator[Any]:
        self.end_of_dataloader, self.remainder = False, -1
        last = len(self) if state.num_steps > 1 else None
        state._add_dataloader(self)
        try:
            for batch in kind.__iter__(self):
                accelerate_state.follow_rank()
                self.end_of_dataloader = inside.batch_number() == last
                moves = accelerator.device_placement
                yield send_to_device(batch, accelerator.device) if moves else batch
        finally:
            state._remove_dataloader(self)

    members = {"__iter__": iterate, "__module__": kind.__module__, "_is_accelerate_prepared": True}
    loader.__class__ = type(kind.__name__, (kind,), members)


@contextmanager
def _without_ranks() -> Iterator[None]:
    """Hide the job's ranks, so that Accelerate sets up no process group, and say which device is the process's."""
    os.environ.setdefault("ACCELERATE_TORCH_DEVICE", str(api.device()))
    hidden = {name: os.environ.pop(name) for name in _OF_RANKS if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
