"""What stands for a sharded tensor in the one file of a checkpoint, while its shards lie in files of their own.

Who loads it makes room first: a sharded tensor as this process's model is sharded, or a whole one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.distributed.tensor as dtensor
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

from .local import is_cut, local
from .local import like as sharded_like
from .states import Path, changed


@dataclass(frozen=True)
class Stored:
    """A sharded tensor that is stored under `name`.

    like: number of a parameter that is sharded alike, and of the same shape if there is one; -1 without.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    like: int


def taken_out(state: Any, parameters: Sequence[Tensor]) -> tuple[Any, dict[str, DTensor]]:
    """Return a state without its sharded tensors, and these by name. All processes of a replica call this.

    A tensor that each process has whole stays in the state.
    """
    taken: dict[str, DTensor] = {}

    @torch.no_grad()
    def take(tensor: Tensor, path: Path) -> Any:
        if not isinstance(tensor, DTensor):
            return tensor
        if not any(map(is_cut, tensor.placements)):
            held = local(tensor)
            there = held.to(tensor.device_mesh.device_type)  # a copy may be elsewhere, where nothing is summed
            return cast(DTensor, sharded_like(tensor, there)).full_tensor().to(held.device)
        if any(placement.is_partial() for placement in tensor.placements):
            summed = [Replicate() if placement.is_partial() else placement for placement in tensor.placements]
            tensor = tensor.redistribute(placements=summed)
        name = ".".join(map(str, path))
        while name in taken:  # keys may have dots
            name += "'"
        taken[name] = cast(DTensor, tensor.detach())
        return Stored(name, tuple(tensor.shape), tensor.dtype, _alike(tensor, parameters))

    return changed(state, Tensor, take), taken


def room_for(stored: Stored, own: Any, parameters: Sequence[Tensor]) -> Tensor:
    """Return an empty tensor for a stored one, cut and placed as `own` is, or else as a parameter like it."""
    like = own if isinstance(own, Tensor) and own.shape == stored.shape else None
    if like is None and 0 <= stored.like < len(parameters):
        like = parameters[stored.like]
    if not isinstance(like, DTensor):
        return torch.empty(stored.shape, dtype=stored.dtype, device=None if like is None else like.device)
    if like.shape == stored.shape:
        return sharded_like(like, torch.empty_like(like._local_tensor, dtype=stored.dtype, requires_grad=False))
    fits = like.ndim == len(stored.shape)
    placements = like.placements if fits else [Replicate()] * like.device_mesh.ndim
    return dtensor.empty(stored.shape, dtype=stored.dtype, device_mesh=like.device_mesh, placements=placements)


def _alike(tensor: DTensor, parameters: Sequence[Tensor]) -> int:
    """Return the number of a parameter that is sharded as a tensor is, best of one of its shape; -1 without."""
    layout = tensor.device_mesh, tensor.placements
    alike = [
        i for i, p in enumerate(parameters) if isinstance(p, DTensor) and (p.device_mesh, p.placements) == layout
    ]
    return next((i for i in alike if parameters[i].shape == tensor.shape), alike[0] if alike else -1)
