"""Everything a training run is made of, as one dictionary that does not depend on the number of replicas.

The same dictionary goes into checkpoints and, over the process group, to newcomers.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from .gradient_noise import GradientNoise
from .group import Group
from .rng import capture_rng, restore_rng

FORMAT = 1


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any], /) -> Any: ...


@dataclass
class Position:
    """How far the training is. Compared by `key`, later is larger.

    `loop` counts finished passes over the loader within `epoch`, `offset` the samples of the running one.
    """

    epoch: int = 0
    loop: int = 0
    offset: int = 0
    iterations: int = 0  # global batches, also those whose step a GradScaler skipped
    steps: int = 0  # optimizer steps
    samples: int = 0
    progress_samples: float = 0.0
    target_reached: bool = False
    # Advances owed to each per-iteration LR scheduler: steps of the initial batch size done, minus those made.
    schedule_credit: list[float] = field(default_factory=list)

    @property
    def key(self) -> tuple[int, int, int]:
        return self.epoch, self.loop, self.offset

    def load(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)


@dataclass
class TrainingState:
    """What `prepare` was given and what the session counts, by reference."""

    module: nn.Module
    optimizers: Sequence[torch.optim.Optimizer]
    schedulers: Sequence[Stateful]
    scalers: Sequence[Stateful]
    users: Sequence[Stateful]
    noise: GradientNoise
    position: Position

    def capture(self) -> dict[str, Any]:
        """The state now; its tensors are the live ones."""
        return {
            "format": FORMAT,
            "model": self.module.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "schedulers": [scheduler.state_dict() for scheduler in self.schedulers],
            "scalers": [scaler.state_dict() for scaler in self.scalers],
            "users": [user.state_dict() for user in self.users],
            "noise": self.noise.state_dict(),
            "position": asdict(self.position),
            "rng": capture_rng(),
        }

    def apply(self, state: dict[str, Any], rank: int) -> None:
        """Continue from `state`. Rank 0 also continues its random numbers; the others get their own.

        Raises ValueError when the state belongs to another script.
        """
        if state.get("format") != FORMAT:
            raise ValueError(f"checkpoint: format {state.get('format')!r} is unknown; this version reads {FORMAT}")
        for kind, mine in self._by_kind().items():
            if len(state[kind]) != len(mine):
                raise ValueError(
                    f"checkpoint: holds {len(state[kind])} {kind}, the script prepares {len(mine)}; "
                    "a changed script needs a new checkpoint folder"
                )
        try:
            self.module.load_state_dict(state["model"])
        except RuntimeError as error:
            raise ValueError(f"checkpoint: does not fit the model; {' '.join(str(error).split())}") from None
        for kind, mine in self._by_kind().items():
            for target, part in zip(mine, state[kind], strict=True):
                target.load_state_dict(part)
        self.noise.load_state_dict(state["noise"])
        self.position.load(state["position"])
        if rank == 0:
            restore_rng(state["rng"])
        else:
            diversify(self.position.iterations, rank)

    def _by_kind(self) -> dict[str, Sequence[Stateful]]:
        return {
            "optimizers": self.optimizers,
            "schedulers": self.schedulers,
            "scalers": self.scalers,
            "users": self.users,
        }


def diversify(seed: int, rank: int) -> None:
    """Random numbers of a rank's own, so that replicas do not drop out the same units."""
    torch.manual_seed(hash((seed, rank, 0x5EED)) % 2**63)


def broadcast_state(group: Group, state: dict[str, Any] | None, source: int) -> dict[str, Any]:
    """The state of rank `source` on every rank; the others pass None.

    The structure travels pickled, the tensors as they are: those on a GPU from GPU to GPU.
    """
    if state is not None:
        skeleton, tensors = _take_out_tensors(state, group.device)
        group.broadcast_ints([len(skeleton)], source)
        group.broadcast_tensors([torch.frombuffer(bytearray(skeleton), dtype=torch.uint8)], source)
        group.broadcast_tensors(tensors, source)
        return state
    (length,) = group.broadcast_ints([0], source)
    buffer = torch.empty(length, dtype=torch.uint8)
    group.broadcast_tensors([buffer], source)
    received: list[Tensor] = []
    result = _Reader(io.BytesIO(buffer.numpy().tobytes()), received, group.device).load()
    group.broadcast_tensors(received, source)
    return result


class _Writer(pickle.Pickler):
    """Pickles the structure and puts tensors aside; `device`, this rank's, may have another name on the others."""

    def __init__(self, file: io.BytesIO, device: torch.device) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.tensors: list[Tensor] = []
        self._device = device

    def persistent_id(self, obj: Any) -> Any:
        if type(obj) in (Tensor, nn.Parameter) and obj.layout is torch.strided and not obj.is_quantized:
            self.tensors.append(obj.detach())
            return obj.dtype, tuple(obj.shape), None if obj.device == self._device else str(obj.device)
        return None


class _Reader(pickle.Unpickler):
    """Puts an empty tensor where each one will arrive."""

    def __init__(self, file: io.BytesIO, tensors: list[Tensor], device: torch.device) -> None:
        super().__init__(file)
        self._tensors = tensors
        self._device = device

    def persistent_load(self, pid: Any) -> Tensor:
        dtype, shape, elsewhere = pid
        tensor = torch.empty(shape, dtype=dtype, device=elsewhere or self._device)
        self._tensors.append(tensor)
        return tensor


def _take_out_tensors(state: dict[str, Any], device: torch.device) -> tuple[bytes, list[Tensor]]:
    file = io.BytesIO()
    writer = _Writer(file, device)
    writer.dump(state)
    return file.getvalue(), writer.tensors


def buffers_of(module: nn.Module) -> list[Tensor]:
    return [buffer for buffer in module.buffers() if buffer.numel()]


def fingerprint_parts(module: nn.Module) -> Iterable[str]:
    """What makes two models the same for the scheduler: module structure and parameter shapes."""
    for name, child in module.named_modules():
        yield f"{name}:{type(child).__qualname__}"
    for name, parameter in module.named_parameters():
        yield f"{name}:{tuple(parameter.shape)}:{parameter.dtype}"
