"""Elastic training with Lightning.

    from coadapt.integrations.lightning import strategy

    trainer = Trainer(max_epochs=10, strategy=strategy())

In a job the strategy runs the loops over epochs and batches. All that happens for a batch and between epochs is
Lightning's own, so that modules, callbacks, loggers and checkpoints are as before.
"""
# ruff: noqa: E402  # what is missing is told before it is imported

from __future__ import annotations

from . import versions

versions.require("lightning")

import copy
import math
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loops.loop import _Loop
from lightning.pytorch.strategies import SingleDeviceStrategy, Strategy
from lightning.pytorch.trainer.states import TrainerFn
from lightning.pytorch.utilities.rank_zero import rank_zero_only
from torch.utils.data import DataLoader

from ..executor.training import api, inside

_WAYS = {"sum": "sum", "max": "max", "min": "min"}


def strategy(otherwise: str | Strategy = "auto") -> str | Strategy:
    """Return the strategy of a job inside of one, and `otherwise` outside."""
    return CoadaptStrategy() if inside.in_job() else otherwise


class CoadaptStrategy(SingleDeviceStrategy):
    """Train as one replica of a job: to Lightning, each process is alone, and one of them logs and saves.

    Raises ValueError, in one sentence, for a way to train that a job cannot follow.
    """

    strategy_name = "coadapt"

    def __init__(self) -> None:
        super().__init__(device=api.device())
        self._generators: list[tuple[torch.Generator, torch.Tensor]] = []

    def setup(self, trainer: Trainer) -> None:
        super().setup(trainer)
        if trainer.state.fn == TrainerFn.FITTING:
            trainer.fit_loop.run = _Fit(trainer, self).run

    @property
    def is_global_zero(self) -> bool:
        return api.is_main()

    def follow_rank(self) -> None:
        """Tell Lightning which replica this is; it may have become another one."""
        self.global_rank = self.local_rank = rank_zero_only.rank = api.rank()

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """Return a value of all replicas, as for what is logged with `sync_dist=True`."""
        if not isinstance(tensor, torch.Tensor) or api.current() is None or api.world_size() == 1:
            return tensor
        how = _WAYS.get(str(reduce_op).rpartition(".")[2].lower(), "mean")
        if how in ("max", "min"):
            combined = torch.tensor(api.combine(tensor.item(), how))
        else:
            combined = api.combine(tensor.detach().cpu(), "sum")
        return (combined / api.world_size() if how == "mean" else combined).to(tensor.device)

    def process_dataloader(self, dataloader: object) -> object:
        """Remember what the loader draws by: Lightning begins to read it, and a job reads it anew."""
        held = [getattr(dataloader, name, None) for name in ("sampler", "batch_sampler")]
        found = [getattr(one, "generator", None) for one in (dataloader, *held)]
        states = [(one, one.get_state()) for one in (*found, torch.default_generator) if one is not None]
        self._generators = states[::-1] + self._generators
        return dataloader

    def draw_anew(self) -> None:
        """Put generators back to where they were before loaders were read; the earliest state is the last."""
        for generator, state in self._generators:
            generator.set_state(state)
        self._generators = []


class _Fit:
    """Run Lightning's loops over epochs and batches in the job's epochs and batches."""

    def __init__(self, trainer: Trainer, strategy: CoadaptStrategy) -> None:
        self._trainer, self._strategy = trainer, strategy

    def run(self) -> None:
        trainer, loop = self._trainer, self._trainer.fit_loop
        if loop.restarting:
            raise ValueError("fit: ckpt_path is set; a job goes on by itself, so leave it out")
        self._strategy._generators = []
        loop.setup_data()
        if loop.skip:
            return
        loader, epochs = self._loader(), self._epochs()
        loop.reset()
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        api.prepare(
            self._strategy.model,
            *self._strategy.optimizers,
            loader,
            *(config.scheduler for config in self._strategy.lr_scheduler_configs),
            FitProgress(trainer),
            *([] if scaler is None else [scaler]),
        )
        self._strategy.follow_rank()
        loop.on_run_start()
        for _ in api.epochs(epochs):
            self._strategy.follow_rank()
            loop.on_advance_start()
            self._epoch(loader)
            loop.on_advance_end()
            loop.on_iteration_done()
            api.report(**_numbers(trainer.callback_metrics))
            if self._stops:
                break
        self._strategy.follow_rank()
        loop.on_run_end()

    def _loader(self) -> Any:
        """Return the one training loader. Raises ValueError where there is none that a job can divide."""
        loop = self._trainer.fit_loop
        assert loop._combined_loader is not None
        loaders = loop._combined_loader.flattened
        if loop._data_fetcher is not None:
            loop._data_fetcher.reset()
        self._strategy.draw_anew()
        if len(loaders) != 1 or not isinstance(loaders[0], DataLoader):
            raise ValueError(f"train_dataloaders: {len(loaders)} are given; a job needs exactly one DataLoader")
        if math.isinf(loop.max_batches):
            raise ValueError("train_dataloaders: a job needs a DataLoader that has a length")
        if self._trainer.reload_dataloaders_every_n_epochs:
            raise ValueError("reload_dataloaders_every_n_epochs: a job keeps its DataLoader; leave it out")
        return loaders[0]

    def _epochs(self) -> int:
        loop = self._trainer.fit_loop
        if loop.max_epochs is not None and loop.max_epochs > 0:
            return int(loop.max_epochs)
        if loop.max_steps > 0:
            updates = math.ceil(loop.max_batches / self._trainer.accumulate_grad_batches)
            return math.ceil(loop.max_steps / updates)
        raise ValueError("Trainer: neither max_epochs nor max_steps is set; a job has to know when it ends")

    def _epoch(self, loader: Any) -> None:
        trainer, loop = self._trainer, self._trainer.fit_loop.epoch_loop
        loop.reset()
        fetcher = _Fetcher()
        loop.on_run_start(fetcher)
        batches = len(loader)
        for batch in loader:
            self._strategy.follow_rank()
            if not inside.is_last_pass():
                self._pass(batch)
                continue
            number = inside.batch_number()
            fetcher.put(batch, number - 1, number >= trainer.num_training_batches)
            try:
                loop.advance(fetcher)
                loop.on_advance_end(fetcher)
            except StopIteration:
                break
            finally:
                loop.on_iteration_done()
            if loop.done and number < batches:
                break

    def _pass(self, batch: Any) -> None:
        """Train on a part of a batch that has further ones: only its gradients and what it logs count."""
        trainer, loop = self._trainer, self._trainer.fit_loop.epoch_loop
        module, number = trainer.lightning_module, inside.batch_number() - 1
        before = copy.deepcopy(loop.state_dict())
        batch = trainer.precision_plugin.convert_input(batch)
        batch = module._on_before_batch_transfer(batch, dataloader_idx=0)
        batch = self._strategy.batch_to_device(batch, dataloader_idx=0)
        loop.batch_progress.increment_ready()
        loop.batch_progress.is_last_batch = number + 1 >= trainer.num_training_batches
        trainer._logger_connector.on_batch_start(batch)
        arguments = loop._build_kwargs(OrderedDict(), batch, number)
        if module.automatic_optimization:
            loop.automatic_optimization.run(trainer.optimizers[0], number, arguments)
        else:
            loop.manual_optimization.run(arguments)
        loop.update_lr_schedulers("step", update_plateau_schedulers=False)
        _put(loop, before)

    @property
    def _stops(self) -> bool:
        trainer, loop = self._trainer, self._trainer.fit_loop
        if trainer.should_stop and loop._can_stop_early:
            return True
        return 0 < loop.max_steps <= loop.epoch_loop.global_step


class _Fetcher:
    """Hand Lightning the batch that the job has given."""

    def __init__(self) -> None:
        self.fetched = 0
        self.done = False
        self._start_profiler: Callable[[], None]
        self._stop_profiler: Callable[[], None]
        self._given: tuple[Any, int, int] = (None, 0, 0)

    def put(self, batch: Any, number: int, last: bool) -> None:
        self._given, self.done = (batch, number, 0), last
        self.fetched += 1

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> tuple[Any, int, int]:
        return self._given


class FitProgress:
    """What Lightning's loops and callbacks count and remember, so that they go on in another process."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def state_dict(self) -> dict[str, Any]:
        trainer = self._trainer
        return {
            "loop": trainer.fit_loop.state_dict(),
            "callbacks": {one.state_key: one.state_dict() for one in self._callbacks()},
            "stop": trainer.should_stop,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        trainer = self._trainer
        _put(trainer.fit_loop, copy.deepcopy(state["loop"]))
        trainer.should_stop = state["stop"]
        for one in self._callbacks():
            kept = state["callbacks"].get(one.state_key)
            if kept:
                one.load_state_dict(copy.deepcopy(kept))

    def _callbacks(self) -> list[Any]:
        return [one for one in self._trainer.callbacks if one.state_dict()]


def _put(loop: _Loop, state: dict[str, Any]) -> None:
    """Put back what a loop has counted; it goes on from there, and is not started again."""
    loop.load_state_dict(state)
    _as_running(loop)


def _as_running(loop: _Loop) -> None:
    loop._restarting = loop._loaded_from_state_dict = loop._resuming_from_checkpoint = False
    for inner in vars(loop).values():
        if isinstance(inner, _Loop):
            _as_running(inner)


def _numbers(metrics: Any) -> dict[str, Any]:
    return {name: float(value) for name, value in metrics.items() if torch.as_tensor(value).numel() == 1}
