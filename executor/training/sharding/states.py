"""States of sharded models: in parts for other replicas, and whole ones cut for those that load.

Replicas hand each other what they hold: shard by shard, without making it whole.
Whole tensors are in checkpoints of unsharded jobs, and in those of earlier versions.
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
Path = tuple[Any, ...]  # keys, from the outermost on


@dataclass(frozen=True)
class Part:
    """What one process holds of a sharded tensor, as it travels to the same place of another replica."""

    local: Tensor
    mesh: Any
    placements: tuple[Any, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def in_parts(state: Any) -> Any:
    """Return a state with each sharded tensor replaced by what this process holds of it."""

    def part(tensor: Tensor, _: Path) -> Any:
        if not isinstance(tensor, DTensor):
            return tensor
        key = key_of(tensor.device_mesh)
        return Part(tensor._local_tensor, key, tensor.placements, tuple(tensor.shape), tensor.stride())

    return changed(state, Tensor, part)


def from_parts(state: Any, meshes: Meshes) -> Any:
    """Return the state that another replica sent in parts, on this one's meshes. Raises ValueError without."""

    def tensor(part: Part, _: Path) -> Any:
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

    return changed(state, Part, tensor)


def matched(own: Any, state: Any, fit: Callable[[Any, Any], Any]) -> Any:
    """Return a state with each tensor, and what stands for one, as `fit` makes it of `own`'s at the same place.

    `fit` is given None where `own` has no such place.
    """
    kind = type(state)
    if kind in (dict, OrderedDict):
        held = own if isinstance(own, Mapping) else {}
        return kind((key, matched(held.get(key), value, fit)) for key, value in state.items())
    if kind in (list, tuple):
        places = own if isinstance(own, list | tuple) and len(own) == len(state) else [None] * len(state)
        return kind(matched(mine, value, fit) for mine, value in zip(places, state, strict=True))
    return fit(own, state)


def matched_optimizer(
    optimizer: torch.optim.Optimizer, state: dict[str, Any], fit: Callable[[Any, Any], Any]
) -> Any:
    """Do so with an optimizer's state, in which things have the shape of the parameter that they are of."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    of_number = dict(zip(numbers, parameters, strict=False))
    values = {
        number: {name: matched(of_number.get(number), value, fit) for name, value in kept.items()}
        for number, kept in state["state"].items()
    }
    return {**state, "state": values}


def cut(own: Any, value: Any) -> Any:
    """Return a whole tensor, of which each process has the same, cut as `own` is; anything else as it is."""
    fits = isinstance(own, DTensor) and isinstance(value, Tensor) and not isinstance(value, DTensor)
    if not fits or own.shape != value.shape:
        return value
    placed = value.detach().to(own.device)
    with torch.no_grad():
        return distribute_tensor(placed, own.device_mesh, own.placements, src_data_rank=None)


def key_of(mesh: DeviceMesh) -> Any:
    """Return what the same mesh has in common in all replicas."""
    return tuple(mesh.mesh.shape), tuple(mesh.mesh.flatten().tolist()), mesh.mesh_dim_names


def meshes_of(parameters: Sequence[Tensor]) -> Meshes:
    """Return the meshes over which parameters are sharded, by what they have in common in all replicas."""
    found = {id(p.device_mesh): p.device_mesh for p in parameters if isinstance(p, DTensor)}
    return {key_of(mesh): mesh for mesh in found.values()}


def changed(value: Any, kind: type, change: Callable[[Any, Path], Any], path: Path = ()) -> Any:
    """Return a state in which each value of a kind is what `change` makes of it and the keys that lead to it."""
    if isinstance(value, kind):
        return change(value, path)
    if type(value) in (dict, OrderedDict):
        return type(value)((key, changed(item, kind, change, (*path, key))) for key, item in value.items())
    if type(value) in (list, tuple):
        return type(value)(changed(item, kind, change, (*path, i)) for i, item in enumerate(value))
    return value
