"""What a script's sharded models are, and what a replica of them may be."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from .shards import Shards


def is_sharded(modules: Sequence[nn.Module]) -> bool:
    return any(isinstance(p, DTensor) for module in modules for p in module.parameters())


def check_sharded(modules: Sequence[nn.Module], shards: Shards | None) -> None:
    """Check that models are sharded over the processes of a replica. Raises ValueError, one sentence."""
    named = [(name, p) for module in modules for name, p in module.named_parameters()]
    first = next(((name, p) for name, p in named if isinstance(p, DTensor)), None)
    if first is None:
        if shards is not None and shards.count > 1:
            raise ValueError(
                f"prepare: the model is not sharded, but the job's replicas are {shards.count} processes; call "
                "fully_shard(model) before prepare, or leave out resources.processes_per_replica"
            )
        return
    if shards is None:
        raise ValueError(
            f"prepare: {first[0]} is sharded (fully_shard), but the job's replicas are one process each; set "
            "resources.gpus_per_replica to the GPUs of a replica, and resources.processes_per_replica: gpu"
        )
    for name, parameter in named:
        if not isinstance(parameter, DTensor):
            raise ValueError(
                f"prepare: {name} is not sharded, while {first[0]} is; call fully_shard on the whole model, too"
            )
        if shards.count % (size := parameter.device_mesh.size()):
            raise ValueError(
                f"prepare: {name} is sharded over {size} processes, which do not divide the {shards.count} of a "
                "replica; use fully_shard(model), or mesh=coadapt.shard_mesh()"
            )


def take_place(modules: Sequence[nn.Module], shards: Shards) -> None:
    """Let a process know its part of a batch, which is its place on the mesh over which FSDP averages gradients.

    Raises ValueError where models are sharded, and not by `fully_shard`.
    """
    groups = [
        group
        for module in modules
        for child in module.modules()
        if isinstance(child, FSDPModule)
        for group in child._get_fsdp_state()._fsdp_param_groups
    ]
    if not groups:
        raise ValueError("prepare: the model is sharded, but not by fully_shard; call that on it, too")
    mesh = groups[0].mesh_info.mesh
    place = mesh.mesh.flatten().tolist().index(shards.index)
    shards.take_place(place, mesh.size())


def add_up_gradients(modules: Sequence[nn.Module]) -> None:
    """Let FSDP add gradients up over its mesh, without a mean: each part is weighted by its samples before."""
    for module in modules:
        for child in module.modules():
            if isinstance(child, FSDPModule):
                child.set_gradient_divide_factor(1.0)
                child.set_force_sum_reduction_for_comms(True)


@torch.no_grad()
def copy_once(parameters: Sequence[Tensor]) -> None:
    """Copy parameters onto themselves: the first copy of each shape takes DTensor tens of milliseconds.

    So it is over before others wait for this process to take its state over.
    """
    for parameter in parameters:
        parameter.copy_(parameter.detach())


def parameters_of(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Return a sharded model's parameters by name, to be kept: at times FSDP shows whole ones in their place."""
    for child in module.modules():
        if isinstance(child, FSDPModule):
            child.reshard()
    return list(module.named_parameters())
