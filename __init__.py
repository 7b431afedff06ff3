"""Coadapt: goodput-optimising training of many PyTorch jobs on one mixed-GPU Ray cluster.

    import coadapt

    model, optimizer, loader = coadapt.prepare(model, optimizer, loader)
    for epoch in coadapt.epochs(10):
        for inputs, targets in loader:
            ...
        coadapt.report(accuracy=accuracy)

The same script runs by itself (`python train.py`), under torchrun, and as a job of a Coadapt cluster.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client.client import Client, connect
    from .client.functions import submit
    from .executor.training.api import (
        batches,
        cached,
        combine,
        device,
        epochs,
        hyperparameters,
        is_main,
        lend_bubbles,
        output_dir,
        prepare,
        rank,
        report,
        shard_mesh,
        steps,
        weight,
        width,
        world_size,
    )

# What is offered, and where it is: imported when first used, since torch takes its time.
__all__ = [
    "Client",
    "batches",
    "cached",
    "combine",
    "connect",
    "device",
    "epochs",
    "hyperparameters",
    "is_main",
    "lend_bubbles",
    "output_dir",
    "prepare",
    "rank",
    "report",
    "shard_mesh",
    "steps",
    "submit",
    "weight",
    "width",
    "world_size",
]
_OFFERED = {
    **dict.fromkeys(__all__, ".executor.training.api"),
    **dict.fromkeys(("Client", "connect"), ".client.client"),
    "submit": ".client.functions",
}


def __getattr__(name: str) -> Any:
    if name not in _OFFERED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_OFFERED[name], __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_OFFERED})
