"""What a training process does before it waits for a group."""

from __future__ import annotations

import torch
import torch.distributed as dist

from ...protocol import messages
from ..collective.group import backend_for, leave_group
from ..gradients.gradient_noise import is_adam_type
from ..state.prepared import Prepared
from ..variables.rng import RandomState


def ready(prepared: Prepared, script_batch: int, dataset_size: int | None, has_state: bool) -> messages.Ready:
    """Return what the executor is told of the script once it has called `prepare`."""
    return messages.Ready(
        fingerprint=prepared.fingerprint(),
        initial_batch_size=script_batch,
        parameters=sum(parameter.numel() for parameter in prepared.parameters()),
        dataset_size=dataset_size,
        optimizer=type(prepared.optimizers[0]).__name__,
        adam_type=is_adam_type(prepared.optimizers[0]),
        has_state=has_state,
        least_local_bsz=prepared.least_local_bsz,
    )


def warm_up(device: torch.device) -> None:
    """Pay for torch's lazy imports and the device's context before the others wait for this process."""
    leave_group()
    dist.init_process_group(backend_for(device), store=dist.HashStore(), rank=0, world_size=1)
    with RandomState(0).borrowed():  # so that the script draws next what it would draw alone
        layer = torch.nn.Linear(1, 1)
    layer.to(device)(torch.zeros(1, 1, device=device)).sum().backward()
    dist.all_reduce(torch.zeros(1, device=device))
    leave_group()
