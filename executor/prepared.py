"""What a script hands to `prepare`, told apart by type."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, DistributedSampler

from .model import DdpOptions
from .training_state import Stateful, fingerprint_parts


@dataclass
class Prepared:
    """The parts of a training script. `objects` are what was given, in order."""

    objects: Sequence[Any]
    module: nn.Module
    ddp: DdpOptions
    loader: DataLoader[Any]
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    schedulers: list[Any] = field(default_factory=list)
    scalers: list[torch.amp.GradScaler] = field(default_factory=list)
    users: list[Stateful] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        """Where the model is; a GPU always with its index."""
        device = next((parameter.device for parameter in self.module.parameters()), torch.device("cpu"))
        if device.type == "cuda" and device.index is None:
            return torch.device("cuda", torch.cuda.current_device())
        return device

    @property
    def batch_size(self) -> int:
        """Samples of one global batch as the script asks for: of all its replicas where it shards by itself."""
        each = self.loader.batch_size or 1
        sampler = self.loader.sampler
        return each * sampler.num_replicas if isinstance(sampler, DistributedSampler) else each

    def fingerprint(self) -> str:
        return hashlib.sha256("\n".join(fingerprint_parts(self.module)).encode()).hexdigest()[:16]


def identify(objects: Sequence[Any]) -> Prepared:
    """Tell model, optimizers, loader, LR schedulers, gradient scalers and user state apart.

    Raises ValueError, in one sentence, for what cannot be trained: no or several models or loaders, no optimizer,
    `LBFGS`, a loader without `batch_size`, an optimizer of other parameters, sparse embeddings; and
    TypeError for an object that is none of these.
    """
    modules: list[nn.Module] = []
    loaders: list[DataLoader[Any]] = []
    optimizers: list[torch.optim.Optimizer] = []
    schedulers: list[Any] = []
    scalers: list[torch.amp.GradScaler] = []
    users: list[Stateful] = []
    for place, item in enumerate(objects, 1):
        if isinstance(item, nn.Module):
            modules.append(item)
        elif isinstance(item, torch.optim.Optimizer):
            optimizers.append(item)
        elif isinstance(item, DataLoader):
            loaders.append(item)
        elif isinstance(item, LRScheduler):
            schedulers.append(item)
        elif isinstance(item, torch.amp.GradScaler):
            scalers.append(item)
        elif callable(getattr(item, "state_dict", None)) and callable(getattr(item, "load_state_dict", None)):
            users.append(item)
        else:
            raise TypeError(
                f"prepare: argument {place} is a {type(item).__name__}; a model, optimizer, DataLoader, "
                "LR scheduler, GradScaler or an object with state_dict and load_state_dict is accepted"
            )
    if len(modules) != 1:
        raise ValueError(f"prepare: {len(modules)} models given, exactly one is needed")
    if len(loaders) != 1:
        raise ValueError(
            f"prepare: {len(loaders)} DataLoaders given, exactly one is needed: the one of the training data"
        )
    if not optimizers:
        raise ValueError("prepare: no optimizer given, at least one is needed")
    given = modules[0]
    parallel = given if isinstance(given, DistributedDataParallel) else None
    module: nn.Module = given if parallel is None else parallel.module
    _check_loader(loaders[0])
    _check_model(module)
    for optimizer in optimizers:
        _check_optimizer(optimizer, module)
    ddp = DdpOptions() if parallel is None else DdpOptions.of(parallel)
    return Prepared(objects, module, ddp, loaders[0], optimizers, schedulers, scalers, users)


def _check_loader(loader: DataLoader[Any]) -> None:
    if loader.batch_size is None:
        raise ValueError(
            "prepare: the DataLoader's batch_size is None; give it a batch_size instead of a batch_sampler or of "
            "batching in the dataset"
        )


def _check_model(module: nn.Module) -> None:
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ValueError(f"prepare: the model {type(module).__name__} has no parameter that requires a gradient")
    for name, child in module.named_modules():
        if isinstance(child, nn.Embedding | nn.EmbeddingBag) and child.sparse:
            raise ValueError(
                f"prepare: {name} has sparse=True; sparse gradients are not supported, use sparse=False"
            )


def _check_optimizer(optimizer: torch.optim.Optimizer, module: nn.Module) -> None:
    kind = type(optimizer).__name__
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "prepare: LBFGS evaluates the loss several times per step; use an optimizer without closure"
        )
    own = set(module.parameters())
    for group in optimizer.param_groups:
        if not set(group["params"]) <= own:
            raise ValueError(
                f"prepare: {kind} holds parameters that are not the model's; make it of model.parameters()"
            )
