"""What `import coadapt` offers a training script. One session per process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ...core.training_config import TrainingConfig
from ...core.trials import of_variable
from ..protocol import messages
from . import status_line
from .bubbles import guest, pipeline
from .bubbles.guest import BubbleGuest
from .bubbles.owner import BubbleOwner
from .caching import node_cache
from .caching.cached_read import CachedRead
from .caching.cached_read import check as check_read
from .collective.group import backend_for
from .data import counted_loops, loader_watch
from .data.alone import looks_alone
from .data.drawn import Batches
from .fused.errors import CannotFuse
from .fused.group import TrialGroup
from .fused.hyperparameters import Hyperparameters, chosen, trials_of_environment
from .losses.loss_kind import Kind
from .sessions import width_notes
from .sessions.channel import Channel
from .sessions.managed_session import ManagedSession
from .sessions.profile_session import ProfileSession
from .sessions.session import AloneSession, Session
from .sessions.torchrun_session import TorchrunSession
from .sessions.trials_session import TrialsSession
from .sharding.models import is_sharded
from .sharding.shards import TIMEOUT, Shards, of_environment
from .shrunk.shrink import shrink
from .shrunk.width import LEAST as LEAST_WIDTH
from .shrunk.width import width as narrow_width
from .state.prepared import Prepared, identify
from .tracking.forwarding import Trackers

P = ParamSpec("P")
R = TypeVar("R")

_session: Session | None = None
_channel: Channel | None = None
_trackers: Trackers | None = None
_guest: BubbleGuest | None = None


def use_channel(channel: Channel) -> None:
    """Let `channel` manage this process. `process.py` calls this before the script runs."""
    global _channel
    _channel = channel
    loader_watch.install()
    counted_loops.install()


LOSSES = {"auto": Kind.UNKNOWN, "mean": Kind.MEAN, "sum": Kind.SUM, "batch": Kind.BATCH}


def current() -> Session | None:
    return _session


def trackers() -> Trackers:
    """Return what hands metrics on to the trackers of this process's job."""
    global _trackers
    if _trackers is None:
        _trackers = Trackers.of_environment()
    return _trackers


def is_managed() -> bool:
    return _channel is not None


def use_session(session: Session) -> None:
    """Let a session answer the script that gave `prepare` nothing."""
    global _session
    _session = session


def prepare(*objects: Any, loss: str = "auto") -> tuple[Any, ...]:
    """Make a training script elastic. Returns the given objects in the same order; they stay what they are.

    Give it everything of the run that has state, in one call. That is models, optimizers and the training
    DataLoader, or `coadapt.batches(…)`. Where the script has them, it is LR schedulers, a GradScaler, averages
    and teachers, too. So is any object with `state_dict` and `load_state_dict` that a checkpoint should hold.
    The loader's `batch_size` is the total one. `loss` says what losses are over the samples of a batch.
    It is "mean", "sum", "batch" where only the whole batch gives their gradient, or "auto", which looks. Losses
    with negatives of the batch are an example of "batch".

    Raises ValueError or TypeError, in one sentence, for what cannot be trained; RuntimeError when called twice, or
    where `COADAPT_BUBBLES` names bubbles that nobody lends.
    """
    global _session, _guest
    if _session is not None:
        raise RuntimeError("prepare: called twice; give everything to one call")
    if loss not in LOSSES:
        raise ValueError(f"prepare: loss {loss!r} is none of {', '.join(LOSSES)}")
    kind = LOSSES[loss]
    prepared = identify(objects, _shards(objects))
    of_group = _channel is not None and messages.TRIALS in os.environ
    looks = width_notes.begin(prepared) if of_group else None
    shrink(prepared.modules, prepared.companions, prepared.optimizers, prepared.loader)
    _guest = guest.of_environment()
    if _channel is not None and of_group:
        _session = _group_of_job(prepared, _channel, width_notes.end(looks))
        return _session.objects
    if len(trials := trials_of_environment()) > 1:
        _session = _as_one(prepared, len(trials))
        return _session.objects
    session: Session
    if _channel is not None:
        session = _managed(prepared, _channel, kind)
    elif (
        dist.is_initialized() or "TORCHELASTIC_RUN_ID" in os.environ or int(os.environ.get("WORLD_SIZE", "1")) > 1
    ):
        session = TorchrunSession(prepared, kind)
    else:
        session = AloneSession(prepared)
    _session = session
    return session.objects


def _group_of_job(prepared: Prepared, channel: Channel, notes: Sequence[str]) -> Session:
    """Return the session of a group of trials that is a job. Raises: CannotFuse, for what cannot train as one."""
    global _session
    config = TrainingConfig.model_validate_json(os.environ.get(messages.TRAINING_JSON, "{}"))
    trials, sources = of_variable(os.environ[messages.TRIALS]), json.loads(os.environ[messages.TRIAL_SOURCES])
    session = TrialsSession(prepared, config, channel, trials, sources, trackers(), notes)
    _session = session  # a process that leaves before it was let in is known, too
    session.start()
    return session


def _as_one(prepared: Prepared, trials: int) -> Session:
    """Return the session of a group of trials. Raises: CannotFuse, for what cannot be trained as one."""
    if _channel is not None or dist.is_initialized() or prepared.scalers:
        raise CannotFuse("prepare: a group of trials trains in one process of its own, without a GradScaler")
    modules = [*prepared.modules, *prepared.companions]
    TrialGroup(modules, prepared.optimizers, prepared.schedulers, trials)
    return AloneSession(prepared)


def hyperparameters(**defaults: Any) -> Hyperparameters:
    """Return what a study may set, and else these defaults: `hp = coadapt.hyperparameters(lr=0.1)`, then `hp.lr`.

    Call it once, before the optimizer is made. In a group of trials a number stands for those of all of them.

    Raises: ValueError, in one sentence, if the study sets a value that is not named here.
    """
    return chosen(defaults, trials_of_environment())


def width(wide: int, least: int = LEAST_WIDTH) -> int:
    """Return `wide`, or its part in a narrow model that a study trains: `nn.Linear(64, coadapt.width(256))`.

    A script that builds its model of such widths is narrowed by them, and else by rules of its layers. Widths may
    be added, multiplied and divided. `least` is the narrowest that is accepted; numbers of heads may be small.

    Raises: ValueError, in one sentence, where it does not divide or gets too narrow.
    """
    return narrow_width(wide, least)


def shard_mesh() -> DeviceMesh:
    """Return the mesh over which a model is sharded: `fully_shard(model, mesh=coadapt.shard_mesh())`.

    As a job these are the processes of one replica, under torchrun all of its processes, and else this one.
    """
    where = device()
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) > 1 or messages.SHARDS in os.environ:
            dist.init_process_group(backend_for(where), timeout=TIMEOUT)
        else:
            dist.init_process_group(backend_for(where), store=dist.HashStore(), rank=0, world_size=1)
    return init_device_mesh(where.type, (dist.get_world_size(),), mesh_dim_names=("shard",))


def _shards(objects: Sequence[Any]) -> Shards | None:
    """Return the processes of this replica where it is several: as a job, or else under torchrun."""
    if _channel is not None:
        return of_environment()
    modules = [one for one in objects if isinstance(one, torch.nn.Module)]
    if not dist.is_initialized() or not is_sharded(modules):
        return None
    return Shards(dist.get_rank(), dist.get_world_size())


def _managed(prepared: Prepared, channel: Channel, loss: Kind) -> Session:
    config = TrainingConfig.model_validate_json(os.environ.get(messages.TRAINING_JSON, "{}"))
    if os.environ.get(messages.MODE) == "profile":
        return ProfileSession(prepared, config, channel, loss)
    global _session
    session = ManagedSession(prepared, config, channel, loss, trackers())
    _session = session  # a process that leaves before it joined is known, too
    session.start()
    return session


def batches(draw: Callable[[], Any] | Iterable[Any], batch_size: int | None = None) -> Batches:
    """Return training batches without a DataLoader, which `prepare` takes in its place.

    `draw` is one of three. It may be a function without arguments that returns a batch. It may be an iterable of
    batches, or of indices, `batch_size` of which make a batch. Or it is a generator function, which is called
    for each loop.
    Each replica gets its part of a batch: of every tensor, array and list along the first dimension. Loop over
    what this returns, or take `next(…)`.
    """
    return Batches(draw, batch_size)


def cached(read: Callable[P, R], name: str = "") -> Callable[P, R]:
    """Return a read function whose answers are kept in the job's memory, as far as that has room for them.

    `read(key)` returns the sample of a key, and the same one each time; random changes come after it. In a job the
    first samples stay in shared memory of the node, for all loader workers and replicas there. A script that runs
    by itself gets `read` as it is. Give each of several reads of the same function a `name`.

    Raises TypeError, in one sentence, for what cannot be called; ValueError where two answers differ.
    """
    check_read(read)
    cache = node_cache.here()
    if cache is None:
        return read
    cache.hold()
    return CachedRead(read, cache, name)


def epochs(count: int) -> Iterator[int]:
    """Iterate over the epochs still to do, of `count`: `for epoch in coadapt.epochs(10)`. Call `prepare` first."""
    return counted_loops.known_as_numbers(_prepared_session("epochs").epochs(count))


def steps(count: int) -> Iterator[int]:
    """Iterate over the optimizer steps still to do, of `count`, for loops without epochs. Call `prepare` first."""
    return counted_loops.known_as_numbers(_prepared_session("steps").steps(count))


def report(*, combine: Mapping[str, str] | None = None, **metrics: Any) -> None:
    """Report metrics of the running epoch. They are combined over replicas at its end.

    A job with `elastic: false` or `sizes` calls it without `prepare`, also with how far it is: `step` of `steps`,
    `epoch` of `epochs`, `samples` or `fraction`. By hand such a program tells nobody.

    A target in the job file ends the training. By default a metric is a mean over samples, and whole numbers
    that differ between replicas are added up.
    `combine` says otherwise by name: "mean", "sum", "min", "max" or "last" (that of replica 0).
    """
    if _session is None and _channel is None:
        # By hand, and on other nodes than the first, nobody listens.
        if path := os.environ.get(messages.STATUS_FILE):
            status_line.write(path, metrics)
            if os.environ.get("RANK", "0") == "0":
                trackers().tell(metrics, metrics.get("step"))
        return
    if _guest is not None:
        _guest.rest()
    _prepared_session("report").report(metrics, dict(combine or {}))


def lend_bubbles(schedule: Any, name: str, free_gib: float | None = None) -> BubbleOwner:
    """Lend the idle time of a pipeline's stage to trials that another process of this machine trains.

    Call it after the schedule is made, in each process of the pipeline. The other process is started with
    `COADAPT_BUBBLES=name`. Its layers run while this stage waits for others, and never beside its passes.

    Args:
        schedule: of `torch.distributed.pipelining`, such as `Schedule1F1B`.
        name: any word for this process' GPU, the same for both.
        free_gib: memory of the GPU that is left for the guest; None: what CUDA has free, less a tenth of the GPU.

    Returns what tells for how long bubbles were lent (`lent_s`), and the pipeline waited for guests (`late_s`).

    Raises TypeError for another kind of schedule, RuntimeError where another process lends under this name.
    """
    return pipeline.lend(schedule, name, free_gib)


def combine(value: Any, how: str = "mean") -> Any:
    """Return a replica's value, combined over all of them now: "mean", "sum", "min", "max" or "last".

    It is meant for decisions by a value of the training data. Every replica has to call it.
    """
    return _prepared_session("combine").combine(value, how)


def weight(items: Any) -> None:
    """Say before `backward` that the loss is a mean over `items` of this batch, such as its tokens.

    Raises ValueError for 0 or less.
    """
    _prepared_session("weight").weigh(items)


def device() -> torch.device:
    """Return the device of this process: one GPU per process, or the CPU."""
    if os.environ.get(messages.PACE_JSON) or not torch.cuda.is_available():
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    chosen = torch.device("cuda", local_rank % torch.cuda.device_count())
    torch.cuda.set_device(chosen)
    return chosen


def output_dir() -> Path:
    """Return the folder for what the script leaves its user.

    It is kept with the job's checkpoints. A script that runs by itself gets the current folder.
    """
    return Path(os.environ.get(messages.OUTPUT_DIR) or ".").absolute()


def rank() -> int:
    """Return this process's place in the group; 0 when alone."""
    if looks_alone():
        return 0
    return _session.rank if _session is not None else int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Return the number of processes that train together now; it may change between two steps."""
    if looks_alone():
        return 1
    return _session.world_size if _session is not None else int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Return whether this process is the one that logs and writes."""
    return rank() == 0


def _prepared_session(name: str) -> Session:
    if _session is None:
        raise RuntimeError(f"{name}: call coadapt.prepare(model, optimizer, loader) first")
    return _session
