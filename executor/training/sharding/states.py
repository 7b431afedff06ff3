"""States of sharded models: whole for checkpoints, in parts for other replicas, and cut anew for those that load.

A checkpoint holds whole tensors, as that of an unsharded model does. So it fits any number of processes of a
replica. Replicas hand each other what they hold: shard by shard, without making it whole.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor

Meshes = Mapping[Any, DeviceMesh]


@dataclass(frozen=True)
class Part:
    """What one process holds of a sharded tensor, as it travels to the same place of another replica."""

    local: Tensor
    mesh: Any
    placements: tuple[Any, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def gathered(state: Any, keeps: bool) -> Any:
    """Return a state with whole tensors on the CPU. All processes of a replica call this; one `keeps` it."""

    def whole(tensor: Tensor) -> Any:
        if not isinstance(tensor, DTensor):
            return tensor
        with torch.no_grad():
            full = tensor.full_tensor()
        return full.cpu() if keeps else None

    return _changed(state, Tensor, whole)


def in_parts(state: Any) -> Any:
    """Return a state with each sharded tensor replaced by what this process holds of it."""

    def part(tensor: Tensor) -> Any:
        if not isinstance(tensor, DTensor):
            return tensor
        key = key_of(tensor.device_mesh)
        return Part(tensor._local_tensor, key, tensor.placements, tuple(tensor.shape), tensor.stride())

    return _changed(state, Tensor, part)


def from_parts(state: Any, meshes: Meshes) -> Any:
    """Return the state that another replica sent in parts, on this one's meshes. Raises ValueError without."""

    def tensor(part: Part) -> Any:
        if part.mesh not in meshes:
            raise ValueError("checkpoint: does not fit the script; its model is sharded over another mesh")
        return DTensor.from_local(
            part.local,
            meshes[part.mesh],
            part.placements,
            run_check=False,
            shape=torch.Size(part.shape),
            stride=part.stride,
        )

    return _changed(state, Part, tensor)


def cut_as(own: Any, state: Any) -> Any:
    """Return a state with whole tensors cut as the tensors at the same places of `own` are."""
    if isinstance(state, Tensor):
        fits = isinstance(own, DTensor) and not isinstance(state, DTensor) and own.shape == state.shape
        return cut(own, state) if fits else state
    if isinstance(state, Mapping) and isinstance(own, Mapping):
        changed = {key: cut_as(own.get(key), value) for key, value in state.items()}
        return OrderedDict(changed) if isinstance(state, OrderedDict) else changed
    if isinstance(state, list | tuple) and isinstance(own, list | tuple) and len(own) == len(state):
        return type(state)(cut_as(mine, value) for mine, value in zip(own, state, strict=True))
    return state


def cut(own: DTensor, whole: Tensor) -> Tensor:
    """Return a whole tensor, of which each process has the same, cut as `own` is."""
    placed = whole.detach().to(own.device)
    with torch.no_grad():
        return distribute_tensor(placed, own.device_mesh, own.placements, src_data_rank=None)


def cut_optimizer_state(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """Return an optimizer's state with what has the shape of a sharded parameter cut as that is."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    of_number = dict(zip(numbers, parameters, strict=False))
    values = {
        number: {name: cut_as(of_number.get(number), value) for name, value in kept.items()}
        for number, kept in state["state"].items()
    }
    return {**state, "state": values}


def key_of(mesh: DeviceMesh) -> Any:
    """Return what the same mesh has in common in all replicas."""
    return tuple(mesh.mesh.shape), tuple(mesh.mesh.flatten().tolist()), mesh.mesh_dim_names


def meshes_of(parameters: Sequence[Tensor]) -> Meshes:
    """Return the meshes over which parameters are sharded, by what they have in common in all replicas."""
    found = {id(p.device_mesh): p.device_mesh for p in parameters if isinstance(p, DTensor)}
    return {key_of(mesh): mesh for mesh in found.values()}


def _changed(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, kind):
        return change(value)
    if type(value) in (dict, OrderedDict):
        return type(value)((key, _changed(item, kind, change)) for key, item in value.items())
    if type(value) in (list, tuple):
        return type(value)(_changed(item, kind, change) for item in value)
    return value
