"""The part of a sharded tensor that this process holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.placement_types import Placement


def local(tensor: Tensor) -> Tensor:
    """Return what this process holds of a tensor: its own memory, and all of a tensor that is not sharded."""
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def locals_of(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return what this process holds of each tensor."""
    return [local(tensor) for tensor in tensors]


def like(tensor: Tensor, part: Tensor) -> Tensor:
    """Return `part` as what this process holds of something that is sharded as `tensor` is."""
    if not isinstance(tensor, DTensor):
        return part
    return DTensor.from_local(
        part, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def is_sharded(tensor: Tensor) -> bool:
    return isinstance(tensor, DTensor)


def holders(tensor: Tensor, processes: int) -> int:
    """Return how many of a replica's processes hold the same part of a tensor."""
    if not isinstance(tensor, DTensor):
        return processes
    mesh = tensor.device_mesh
    parts = math.prod(mesh.size(dim) for dim, placement in enumerate(tensor.placements) if is_cut(placement))
    return processes // parts


def is_cut(placement: Placement) -> bool:
    """Return whether processes hold different pieces. FSDP's cuts of tensor parallelism's are no `Shard`s."""
    return not (placement.is_replicate() or placement.is_partial())
