"""Ray Train's `TorchTrainer` as a job.

    from coadapt.integrations.ray_train import TorchTrainer, prepare

    def train_loop(config):
        ...
        model, optimizer, loader = prepare(model, optimizer, loader)
        for epoch in coadapt.epochs(10):
            ...

In a job `TorchTrainer.fit` runs the function in each training process, and the job's GPUs take the place of
`ScalingConfig`. Anywhere else this is Ray Train's trainer as it is.
"""
# ruff: noqa: E402  # what is missing is told before it is imported

from __future__ import annotations

from . import versions

versions.require("ray")

import inspect
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import torch
from ray.train import Result
from ray.train.torch import TorchTrainer as RayTorchTrainer
from ray.train.torch import get_device
from ray.train.v2._internal.execution.train_fn_utils import LocalTrainFnUtils, set_train_fn_utils
from torch.utils.data import DataLoader

from ..executor.training import api, inside


class TorchTrainer(RayTorchTrainer):
    """Be Ray Train's `TorchTrainer`, whose `fit` trains elastically in a job.

    In a job there is one worker to the function: the loader's batch is that of all replicas.
    Raises ValueError, in one sentence, for what a job cannot follow.
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        train_loop_config: dict[str, Any] | None = None,
        datasets: Any = None,
        **options: Any,
    ) -> None:
        self._in_job = inside.in_job()
        if not self._in_job:
            super().__init__(
                train_loop_per_worker, train_loop_config=train_loop_config, datasets=datasets, **options
            )
            return
        if datasets:
            raise ValueError(
                "TorchTrainer: datasets are given; a job divides the batches of a DataLoader, so read them by one"
            )
        self._function, self._config = train_loop_per_worker, train_loop_config

    def fit(self) -> Result:
        if not self._in_job:
            return super().fit()
        answers = _Answers()
        set_train_fn_utils(answers)
        takes = bool(inspect.signature(self._function).parameters)
        value = self._function(self._config or {}) if takes else self._function()
        result: Any = Result  # its type follows which version of Ray Train is switched on
        metrics = answers._get_last_metrics()
        return result(metrics=metrics, checkpoint=None, path=None, error=None, return_value=value)


def prepare(*objects: Any, loss: str = "auto") -> tuple[Any, ...]:
    """Make the objects of a training function elastic in a job, as `coadapt.prepare` does.

    What Ray Train has prepared before is taken as well. Anywhere else they are returned as they are.
    """
    if not inside.in_job():
        inside.leave_to_framework()
        return objects
    plain = [_unwrapped(one) for one in objects]
    prepared = api.prepare(*plain, loss=loss)
    for one in prepared:
        if isinstance(one, DataLoader):
            _place_batches(one, get_device())
    return prepared


class _Answers(LocalTrainFnUtils):
    """Answer what a function asks of `ray.train`."""

    def __init__(self) -> None:
        super().__init__(experiment_name="coadapt")

    def report(self, metrics: dict[str, Any], checkpoint: Any = None, *others: Any, **options: Any) -> None:
        """Report numbers to the job, and keep a checkpoint of the function's own among its outputs."""
        super().report(metrics, checkpoint)
        numbers: dict[str, Any] = {
            name: value for name, value in metrics.items() if isinstance(value, int | float)
        }
        api.report(**numbers)
        if checkpoint is not None and api.is_main():
            with checkpoint.as_directory() as folder:
                shutil.copytree(folder, api.output_dir() / "checkpoint", dirs_exist_ok=True)

    def get_checkpoint(self) -> None:
        """Return none: a job goes on by itself."""
        return None

    def get_context(self) -> Any:
        self._context.world_rank = self._context.local_rank = api.rank()
        return self._context


def _unwrapped(thing: Any) -> Any:
    """Return the loader within Ray Train's, which moves its batches to the device."""
    return thing._dataloader if isinstance(thing, DataLoader) and hasattr(thing, "_dataloader") else thing


def _place_batches(loader: Any, device: torch.device) -> None:
    kind = type(loader)

    def iterate(self: Any) -> Iterator[Any]:
        for batch in kind.__iter__(self):
            yield _on(device, batch)

    loader.__class__ = type(kind.__name__, (kind,), {"__iter__": iterate, "__module__": kind.__module__})


def _on(device: torch.device, item: Any) -> Any:
    if isinstance(item, torch.Tensor):
        return item.to(device)
    if isinstance(item, dict):
        return {key: _on(device, value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        moved = [_on(device, value) for value in item]
        return type(item)(*moved) if hasattr(item, "_fields") else type(item)(moved)
    return item
