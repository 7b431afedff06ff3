"""What a script hands to `prepare`, told apart by type."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from ..data.alone import seen_alone
from ..data.batches import length_of
from ..data.drawn import Batches
from ..data.elastic_loader import plain_copy
from ..sharding.models import check_sharded, parameters_of
from ..sharding.shards import Shards
from ..variables import script_random
from ..variables.rng import RandomState

# With batches this small, statistics over a batch make another model (Wu & He, ECCV'18, figure 5).
LEAST_BATCH_NORM = 16


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any: ...


@dataclass
class Prepared:
    """The parts of a training script. `objects` are what was given, in order.

    `modules` have parameters that some optimizer trains. `companions` have none: a teacher, an average, a fixed
    encoder.
    `loader` is the training loader as it was given; the script's own object becomes another.
    """

    objects: Sequence[Any]
    modules: list[nn.Module]
    companions: list[nn.Module]
    loader: Any
    optimizers: list[torch.optim.Optimizer] = field(default_factory=list)
    schedulers: list[Any] = field(default_factory=list)
    scalers: list[torch.amp.GradScaler] = field(default_factory=list)
    users: list[Stateful] = field(default_factory=list)
    shards: Shards | None = None  # the processes of this replica, where its models are sharded

    def __post_init__(self) -> None:
        sharded = self.modules if self.shards is not None else []
        self._parameters_of = {id(module): parameters_of(module) for module in sharded}

    @property
    def device(self) -> torch.device:
        """The device of the model; a GPU always has its index."""
        device = next((parameter.device for parameter in self.parameters()), torch.device("cpu"))
        if device.type == "cuda" and device.index is None:
            return torch.device("cuda", torch.cuda.current_device())
        return device

    @property
    def batch_size(self) -> int:
        """Samples of one global batch as the script asks for: of all its replicas where it shards by itself."""
        if isinstance(self.loader, Batches):
            return self.loader.batch_size
        if self.loader.batch_size is None:
            return self._first_batch_size
        each: int = self.loader.batch_size
        sampler = self.loader.sampler
        return each * sampler.num_replicas if isinstance(sampler, DistributedSampler) else each

    @functools.cached_property
    def _first_batch_size(self) -> int:
        """The batch size of a loader whose batches come from a batch sampler, or ready-made from the data set."""
        loader = self.loader
        with RandomState(0).borrowed(), seen_alone():
            if loader.batch_sampler is not None:
                state = script_random.capture(loader.batch_sampler)
                first = next(iter(loader.batch_sampler), None)
                script_random.restore(loader.batch_sampler, state)
                return len(first) if first else 1
            items = (
                iter(loader.dataset) if isinstance(loader.dataset, IterableDataset) else iter([loader.dataset[0]])
            )
            first = next(items, None)
        return 1 if first is None else length_of(first)

    @property
    def least_local_bsz(self) -> int:
        """The least samples of a replica's batch: more than one only for statistics over the batch."""
        norms = nn.modules.batchnorm._BatchNorm
        synced = nn.SyncBatchNorm
        found = any(
            isinstance(child, norms) and not isinstance(child, synced) and child.training
            for module in self.modules
            for child in module.modules()
        )
        return min(LEAST_BATCH_NORM, self.batch_size) if found else 1

    @property
    def loss_scale(self) -> float:
        """The factor by which the script's GradScaler multiplies its losses now; 1 where it has none."""
        return float(self.scalers[0].get_scale()) if self.scalers else 1.0

    def parameters(self) -> list[Tensor]:
        """Return all that is trained, in the same order everywhere: of the models, then of optimizers alone."""
        found: dict[Tensor, None] = {}
        for module in self.modules:
            found.update(dict.fromkeys(parameter for _, parameter in self._own(module)))
        for parameter in self._held():
            found.setdefault(parameter)
        return list(found)

    def name_of(self, parameter: Tensor) -> str:
        """Return a parameter's name in its model, for people."""
        for module in self.modules:
            for name, own in self._own(module):
                if own is parameter:
                    return f"{type(module).__name__}.{name}"
        return f"a parameter of shape {tuple(parameter.shape)}"

    def strays(self) -> list[Tensor]:
        """Return parameters that some optimizer holds and no given model has."""
        own = {parameter for module in self.modules for _, parameter in self._own(module)}
        return list(dict.fromkeys(parameter for parameter in self._held() if parameter not in own))

    def held_count(self) -> int:
        """Return how many parameters optimizers hold: a cheap sign that some were added."""
        return sum(len(group["params"]) for optimizer in self.optimizers for group in optimizer.param_groups)

    def _own(self, module: nn.Module) -> Iterable[tuple[str, Tensor]]:
        known = self._parameters_of.get(id(module))
        return module.named_parameters() if known is None else known

    def _held(self) -> Iterator[Tensor]:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                yield from group["params"]

    def buffers(self) -> list[Tensor]:
        """Return running statistics and the like of the models that are trained."""
        return [buffer for module in self.modules for buffer in module.buffers() if buffer.numel()]

    def things(self) -> dict[str, Any]:
        """Return, by name, the things whose plain attributes a script changes while it trains."""
        found: dict[str, Any] = {
            f"model {i}": module for i, module in enumerate([*self.modules, *self.companions])
        }
        for name in ("dataset", "sampler", "batch_sampler", "collate_fn"):
            thing = getattr(self.loader, name, None)
            if thing is not None:
                found[name] = thing
        return found

    def makers(self) -> list[Any]:
        """Return what puts batches together: what they are drawn by, and the loader's `collate_fn`."""
        draw = getattr(self.loader, "draw", None)
        return [draw, getattr(draw, "make", None), getattr(self.loader, "collate_fn", None)]

    def ordering_generators(self) -> set[int]:
        """Return ids of the random generators that decide which samples come next, and are kept with these."""
        if isinstance(self.loader, Batches):
            return script_random.generators_of([self.loader.draw])
        samplers = [getattr(self.loader, name, None) for name in ("sampler", "batch_sampler")]
        own = [sampler for sampler in samplers if not type(sampler).__module__.startswith("torch.")]
        held = [getattr(thing, "generator", None) for thing in (self.loader, *samplers)]
        return script_random.generators_of(own) | {id(generator) for generator in held if generator is not None}

    def reading_generators(self) -> set[int]:
        """Return ids of all random generators that are drawn from while data are read."""
        return self.ordering_generators() | script_random.generators_of([self.loader, *self.things().values()])

    def fingerprint(self) -> str:
        """Return what makes two jobs the same for the scheduler: module structure and parameter shapes."""
        parts: list[str] = []
        for module in self.modules:
            parts += [f"{name}:{type(child).__qualname__}" for name, child in module.named_modules()]
            parts += [f"{name}:{tuple(p.shape)}:{p.dtype}" for name, p in self._own(module)]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def identify(objects: Sequence[Any], shards: Shards | None = None) -> Prepared:
    """Tell the given objects apart. Raises ValueError or TypeError, one sentence, for what cannot be trained.

    `shards`: the processes of this replica, where it is several.
    """
    given: list[nn.Module] = []
    loaders: list[Any] = []
    optimizers: list[torch.optim.Optimizer] = []
    schedulers: list[Any] = []
    scalers: list[torch.amp.GradScaler] = []
    users: list[Stateful] = []
    for place, item in enumerate(objects, 1):
        if isinstance(item, nn.Module):
            given.append(item)
        elif isinstance(item, torch.optim.Optimizer):
            optimizers.append(item)
        elif isinstance(item, DataLoader | Batches):
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
                "coadapt.batches(…), LR scheduler, GradScaler or an object with state_dict and load_state_dict "
                "is accepted; a plain object that is a variable of the script needs not be given"
            )
    _check_counts(given, loaders, optimizers)
    modules = [module.module if isinstance(module, DistributedDataParallel) else module for module in given]
    held = {p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    trained = [module for module in modules if any(parameter in held for parameter in module.parameters())]
    for module in modules:
        _check_model(module)
    check_sharded(modules, shards)
    trains = any(parameter.requires_grad for parameter in held)
    if not trains or (not trained and any(p.requires_grad for module in modules for p in module.parameters())):
        name = type(modules[0]).__name__
        raise ValueError(f"prepare: the model {name} has no parameter that requires a gradient and is optimized")
    for optimizer in optimizers:
        _check_optimizer(optimizer)
    return Prepared(
        objects,
        trained or modules[:1],
        [module for module in modules if module not in trained] if trained else modules[1:],
        plain_copy(loaders[0]),
        optimizers,
        schedulers,
        scalers,
        users,
        shards,
    )


def rest_ddp(module: DistributedDataParallel) -> None:
    """Let a script's own DDP object run its module and nothing else, since the session combines gradients.

    It stays an instance of its class, with `module`, `no_sync` and the names of its state.
    """
    kind = type(module)

    def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)

    def no_sync(self: Any) -> Any:
        return nullcontext()

    members = {"forward": forward, "no_sync": no_sync, "__module__": kind.__module__}
    module.__class__ = type(kind.__name__, (kind,), members)


def _check_counts(models: list[nn.Module], loaders: list[Any], optimizers: list[Any]) -> None:
    if not models:
        raise ValueError("prepare: 0 models given, at least one is needed")
    if len(loaders) != 1:
        raise ValueError(
            f"prepare: {len(loaders)} DataLoaders given, exactly one is needed, with the model and optimizers in "
            "one call: that of the training data; a loop that draws its batches gives coadapt.batches(function)"
        )
    if not optimizers:
        raise ValueError("prepare: no optimizer given, at least one is needed")


def _check_model(module: nn.Module) -> None:
    for name, parameter in module.named_parameters():
        if isinstance(parameter, nn.parameter.UninitializedParameter):
            raise ValueError(
                f"prepare: {name} has no shape yet; run a lazy module once, on a batch, before prepare"
            )
    for name, child in module.named_modules():
        if isinstance(child, nn.Embedding | nn.EmbeddingBag) and child.sparse:
            raise ValueError(
                f"prepare: {name} has sparse=True; sparse gradients are not supported, use sparse=False"
            )


def _check_optimizer(optimizer: torch.optim.Optimizer) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError(
            "prepare: LBFGS evaluates the loss several times per step, and replicas would search along different "
            "lines; use another optimizer"
        )
