"""What `import coadapt` offers a training script. One session per process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from . import protocol
from .channel import Channel
from .config import TrainingConfig
from .managed_session import ManagedSession
from .prepared import Prepared, identify
from .profile_session import ProfileSession
from .session import AloneSession, Session, TorchrunSession

_session: Session | None = None
_channel: Channel | None = None


def use_channel(channel: Channel) -> None:
    """Called by `executor.process` before the script runs: this process is managed."""
    global _channel
    _channel = channel


def current() -> Session | None:
    return _session


def prepare(*objects: Any) -> tuple[Any, ...]:
    """Make a training script elastic. Returns the given objects, adapted, in the same order.

    Give it the model, the optimizer(s), the training DataLoader, and, where the script has them, LR schedulers,
    a GradScaler and any object with `state_dict` and `load_state_dict` that a checkpoint should hold. Losses are
    taken for means over the samples of a batch. The loader's `batch_size` is the total one.

    Raises ValueError or TypeError, in one sentence, for what cannot be trained; RuntimeError when called twice.
    """
    global _session
    if _session is not None:
        raise RuntimeError("prepare: called twice; give everything to one call")
    prepared = identify(objects)
    session: Session
    if _channel is not None:
        session = _managed(prepared, _channel)
    elif (
        dist.is_initialized() or "TORCHELASTIC_RUN_ID" in os.environ or int(os.environ.get("WORLD_SIZE", "1")) > 1
    ):
        session = TorchrunSession(prepared)
    else:
        session = AloneSession(prepared)
    _session = session
    return session.objects


def _managed(prepared: Prepared, channel: Channel) -> Session:
    config = TrainingConfig.model_validate_json(os.environ.get(protocol.TRAINING_JSON, "{}"))
    if os.environ.get(protocol.MODE) == "profile":
        return ProfileSession(prepared, config, channel)
    global _session
    session = ManagedSession(prepared, config, channel)
    _session = session  # a process that leaves before it joined is known, too
    session.start()
    return session


def epochs(count: int) -> Iterator[int]:
    """The epochs still to do, of `count`: `for epoch in coadapt.epochs(10)`. Call `prepare` first."""
    return _prepared_session("epochs").epochs(count)


def report(**metrics: float) -> None:
    """Metrics of the running epoch; rank 0's count. A target in the job's configuration ends the training."""
    _prepared_session("report").report({name: float(value) for name, value in metrics.items()})


def device() -> torch.device:
    """The device of this process: one GPU per process, or the CPU."""
    if os.environ.get(protocol.PACE_JSON) or not torch.cuda.is_available():
        return torch.device("cpu")
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    chosen = torch.device("cuda", local_rank % torch.cuda.device_count())
    torch.cuda.set_device(chosen)
    return chosen


def output_dir() -> Path:
    """Folder for what the script leaves its user: kept with the job's checkpoints; alone, the current folder."""
    return Path(os.environ.get(protocol.OUTPUT_DIR) or ".").absolute()


def rank() -> int:
    """This process's place in the group; 0 when alone."""
    return _session.rank if _session is not None else int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Processes that train together now; it may change between two steps."""
    return _session.world_size if _session is not None else int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Whether this process is the one that logs and writes."""
    return rank() == 0


def _prepared_session(name: str) -> Session:
    if _session is None:
        raise RuntimeError(f"{name}: call coadapt.prepare(model, optimizer, loader) first")
    return _session
