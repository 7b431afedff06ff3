"""Elastic training with the `Trainer` of Hugging Face's transformers.

    trainer = Trainer(...)
    trainer.add_callback(CoadaptCallback(trainer))
    trainer.train()

In a job the callback trains by a loop of its own. It calls what the trainer's loop calls for a batch and
between batches, so that subclasses, callbacks, logs, evaluation and saving are as before. Anywhere else the
callback does nothing.
"""
# ruff: noqa: E402  # what is missing is told before it is imported

from __future__ import annotations

from . import versions

versions.require("transformers")
versions.require("accelerate")

import time
from typing import Any

import torch
from accelerate.data_loader import SeedableRandomSampler
from accelerate.optimizer import patch_optimizer_step
from torch.utils.data import DataLoader, IterableDataset, RandomSampler
from transformers import Trainer, TrainerCallback
from transformers.optimization import GreedyLR
from transformers.trainer_utils import TrainOutput

from ..executor.training import api, inside
from . import accelerate_state
from .step_counter import StepCounter
from .trainer_progress import TrainerProgress

# Of what a trainer logs, this is no measure of the model.
_NO_METRICS = ("epoch", "total_flos", "num_input_tokens_seen")
_NO_METRICS_END = ("_runtime", "_per_second")


class CoadaptCallback(TrainerCallback):
    """Let a trainer train elastically in a job, and report what it logs.

    Raises ValueError, in one sentence, for a way to train that a job cannot follow.
    """

    def __init__(self, trainer: Trainer) -> None:
        if not isinstance(trainer, Trainer):
            raise TypeError(f"CoadaptCallback: {type(trainer).__name__} is no transformers.Trainer")
        if inside.in_job():
            _check(trainer)
            accelerate_state.be_one_process()
            trainer._inner_training_loop = _Loop(trainer).run

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **others: Any) -> None:
        if inside.in_job() and api.current() is not None:
            api.report(**{name: value for name, value in (logs or {}).items() if _is_metric(name, value)})


def _is_metric(name: str, value: Any) -> bool:
    return isinstance(value, int | float) and name not in _NO_METRICS and not name.endswith(_NO_METRICS_END)


def _check(trainer: Trainer) -> None:
    """Raise ValueError for what a job cannot follow."""
    args = trainer.args
    refused = {
        "deepspeed": trainer.is_deepspeed_enabled,
        "fsdp": trainer.is_fsdp_enabled,
        "auto_find_batch_size": args.auto_find_batch_size,
        "model sharding": trainer.is_distributed_loading_by_transformers,
        "parallelism_config": args.parallelism_config is not None,
    }
    for name, is_set in refused.items():
        if is_set:
            raise ValueError(
                f"CoadaptCallback: {name} is set, and a job divides batches between whole copies of the model; "
                "leave it out, or submit the script as a command with sizes"
            )


class _Loop:
    """Train as `Trainer._inner_training_loop` does, in the job's batches and epochs."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def run(
        self,
        batch_size: int | None = None,
        args: Any = None,
        resume_from_checkpoint: str | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> TrainOutput:
        trainer = self._trainer
        args = trainer.args
        if resume_from_checkpoint is not None:
            raise ValueError(
                f"train: resume_from_checkpoint={resume_from_checkpoint!r}; a job goes on by itself, leave it out"
            )
        trainer.accelerator.free_memory()
        self._accumulated = args.gradient_accumulation_steps
        loader = _loader_of_updates(trainer)
        epochs, updates, _, samples, _, batches, most_steps = trainer.set_initial_training_values(args, loader)
        trainer._init_training_state(most_steps, updates, epochs, None, trial)
        model, _ = trainer._prepare_for_training(most_steps, loader, None)
        self._micro_batches = _micro_batches(loader, batches, trainer._train_batch_size)
        self._saves_once()
        self._ignored = ignore_keys_for_eval
        # What ends by itself is not broken off: a job says of the latter that the script left its loop.
        self._ends_by_itself = args.max_steps <= 0 and float(args.num_train_epochs).is_integer()
        self._counter = counter = StepCounter(_inner(trainer.optimizer))
        self._progress = progress = TrainerProgress(trainer)
        scaler = trainer.accelerator.scaler
        api.prepare(
            model,
            _inner(trainer.optimizer),
            loader,
            trainer.lr_scheduler,
            counter,
            progress,
            *([] if scaler is None else [scaler]),
        )
        if scaler is not None:
            _patch_anew(trainer.optimizer)
        self._follow_rank()
        self._began_s = time.time()
        progress.begin()
        model.zero_grad()
        trainer.control = trainer.callback_handler.on_train_begin(args, trainer.state, trainer.control)
        if args.eval_on_start:
            trainer._evaluate(trial, ignore_keys_for_eval, skip_scheduler=True)
        for epoch in api.epochs(min(epochs, 1 << 31)):
            if self._epoch(model, int(epoch), loader, batches):
                break
        self._follow_rank()
        progress.put_loss()
        return trainer._finalize_training(trial, samples, self._began_s)

    def _epoch(self, model: Any, epoch: int, loader: Any, batches: int) -> bool:
        """Train for one pass over the data; return whether the training is to end."""
        trainer = self._trainer
        handler, args = trainer.callback_handler, trainer.args
        trainer.control = handler.on_epoch_begin(args, trainer.state, trainer.control)
        set_epoch = getattr(getattr(loader, "sampler", None), "set_epoch", None)
        if set_epoch is not None:
            set_epoch(inside.pass_number())
        norm = rate = None
        for inputs in loader:
            self._follow_rank()
            trainer.accelerator.gradient_state._set_sync_gradients(True)
            if inside.is_last_pass():
                trainer.control = handler.on_step_begin(args, trainer.state, trainer.control)
            norm, rate = self._batch(model, inputs)
            number = inside.batch_number()
            self._end_steps(model, epoch, min(number * self._accumulated / self._micro_batches, 1.0), norm, rate)
            if self._is_to_end and inside.is_last_pass() and number < batches:
                break
        trainer.control = handler.on_epoch_end(args, trainer.state, trainer.control)
        self._between(model, epoch, norm, rate)
        return self._stops

    def _batch(self, model: Any, inputs: Any) -> tuple[Any, float]:
        """Train on a part of a batch, or on all of it; return the norm of its gradient and the learning rate."""
        trainer, args = self._trainer, self._trainer.args
        trainer.current_gradient_accumulation_steps = 1
        items = trainer._get_num_items_in_batch([inputs], args.device)
        if items is not None:
            api.weight(items)
        samples = _length(inputs)
        loss = trainer.training_step(model, inputs, items)
        self._progress.add(loss, samples if items is None else float(items))
        trainer.current_flos += float(trainer.floating_point_ops(inputs))
        trainer._track_num_input_tokens(inputs)
        norm = trainer._clip_grad_norm(model) if args.max_grad_norm > 0 else None
        norm = trainer._get_grad_norm(model, grad_norm=norm)
        trainer.control = trainer.callback_handler.on_pre_optimizer_step(args, trainer.state, trainer.control)
        trainer.optimizer.step()
        trainer.control = trainer.callback_handler.on_optimizer_step(args, trainer.state, trainer.control)
        rate = trainer._get_learning_rate()
        plateau = isinstance(trainer.lr_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau | GreedyLR)
        if not (plateau or trainer.accelerator.optimizer_step_was_skipped):
            trainer.lr_scheduler.step()
        self._counter.step()
        model.zero_grad()
        return norm, rate

    def _end_steps(self, model: Any, epoch: int, part: float, norm: Any, rate: float) -> None:
        """Do what follows each of the steps that were just made: none, one, or several that were put together."""
        trainer = self._trainer
        while trainer.state.global_step < self._counter.count:
            trainer.state.global_step += 1
            trainer.state.epoch = epoch + part
            trainer.control = trainer.callback_handler.on_step_end(trainer.args, trainer.state, trainer.control)
            self._between(model, epoch, norm, rate)

    def _between(self, model: Any, epoch: int, norm: Any, rate: Any) -> None:
        """Log, evaluate and save, where it is time."""
        trainer = self._trainer
        if trainer.control.should_log and trainer.state.global_step > trainer._globalstep_last_logged:
            self._progress.put_loss()
        trainer._maybe_log_save_evaluate(
            trainer._tr_loss, norm, model, None, epoch, self._ignored, self._began_s, learning_rate=rate
        )

    @property
    def _is_to_end(self) -> bool:
        return self._trainer.control.should_epoch_stop or self._stops

    @property
    def _stops(self) -> bool:
        state = self._trainer.state
        at_the_end = self._ends_by_itself and state.global_step >= state.max_steps
        return self._trainer.control.should_training_stop and not at_the_end

    def _follow_rank(self) -> None:
        accelerate_state.follow_rank()
        state = self._trainer.state
        state.is_world_process_zero = state.is_local_process_zero = api.is_main()

    def _saves_once(self) -> None:
        """Let one replica save; the others note where."""
        trainer = self._trainer
        save = type(trainer)._save_checkpoint

        def save_once(model: Any, trial: Any) -> None:
            state = trainer.state
            if api.is_main():
                save(trainer, model, trial)
            elif state.best_global_step:
                state.best_model_checkpoint = (
                    f"{trainer._get_output_dir(trial)}/checkpoint-{state.best_global_step}"
                )

        trainer._save_checkpoint = save_once


def _loader_of_updates(trainer: Trainer) -> Any:
    """Return the loader whose batches make one step each, as torch has it.

    Batches that are accumulated are one batch to a job: it decides itself how many passes that takes.
    """
    args, accelerator = trainer.args, trainer.accelerator
    size, trainer._train_batch_size = (
        trainer._train_batch_size,
        (trainer._train_batch_size * args.gradient_accumulation_steps),
    )
    prepare, accelerator.prepare = accelerator.prepare, lambda loader: loader
    try:
        loader = trainer.get_train_dataloader()
    finally:
        trainer._train_batch_size = size
        accelerator.prepare = prepare
    if not isinstance(loader, DataLoader):
        raise TypeError(f"get_train_dataloader: a {type(loader).__name__}; a job needs torch's DataLoader")
    accumulates = args.gradient_accumulation_steps > 1
    if accumulates and loader.batch_size != size * args.gradient_accumulation_steps:
        raise ValueError(
            f"gradient_accumulation_steps: {args.gradient_accumulation_steps} with a loader of the script's own; "
            "make its batches as much larger, and leave it out"
        )
    args.gradient_accumulation_steps = 1
    return _with_seeded_order(loader, accelerator)


def _with_seeded_order(loader: DataLoader[Any], accelerator: Any) -> DataLoader[Any]:
    """Return the loader in the order that Accelerate would give it."""
    sampler = loader.sampler
    plain = type(sampler) is RandomSampler and not isinstance(loader.dataset, IterableDataset)
    if not (plain and accelerator.use_seedable_sampler and loader.batch_size is not None):
        return loader
    assert isinstance(sampler, RandomSampler)
    seeded = SeedableRandomSampler(
        data_source=sampler.data_source,
        replacement=sampler.replacement,
        num_samples=sampler._num_samples,
        generator=sampler.generator,
        data_seed=accelerator.dataloader_config.data_seed,
    )
    if seeded.generator is None:  # it would make one when it is asked, and a newcomer has to have it before
        seeded.generator = torch.Generator().manual_seed(seeded.initial_seed)
    workers: dict[str, Any] = (
        {
            "multiprocessing_context": loader.multiprocessing_context,
            "prefetch_factor": loader.prefetch_factor,
            "persistent_workers": loader.persistent_workers,
        }
        if loader.num_workers
        else {}
    )
    return DataLoader(
        loader.dataset,
        loader.batch_size,
        sampler=seeded,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        drop_last=loader.drop_last,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        **workers,
    )


def _micro_batches(loader: Any, batches: int, size: int) -> int:
    """Return the batches of a pass as the trainer would count them, of `size` samples each."""
    if loader.batch_size is None or isinstance(loader.dataset, IterableDataset):
        return batches
    samples = len(loader.sampler)
    return batches * (loader.batch_size // size) if loader.drop_last else -(-samples // size)


def _inner(optimizer: Any) -> torch.optim.Optimizer:
    """Return torch's optimizer of Accelerate's."""
    return optimizer.optimizer


def _patch_anew(optimizer: Any) -> None:
    """Let Accelerate's optimizer call the step that `prepare` has put in place."""
    inner = optimizer.optimizer
    optimizer._optimizer_original_step_method = inner.step
    optimizer._optimizer_patched_step_method = patch_optimizer_step(optimizer, inner.step)


def _length(inputs: Any) -> int:
    """Return how many samples a batch has."""
    values = inputs.values() if hasattr(inputs, "values") else inputs
    return next((len(value) for value in values if isinstance(value, torch.Tensor) and value.ndim), 1)
