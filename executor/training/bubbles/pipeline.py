"""Bubbles of PyTorch's pipelines (`torch.distributed.pipelining`): all of an iteration in which no pass runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .gate import Gate
from .owner import BubbleOwner, nothing

PASSES = ("forward_one_chunk", "backward_one_chunk", "backward_weight_one_chunk")


def lend(schedule: Any, name: str, free_gib: float | None = None) -> BubbleOwner:
    """Lend the bubbles of this process' stages to a guest.

    Args:
        schedule: of `torch.distributed.pipelining`, such as `Schedule1F1B`; its `step` is an iteration.
        name: of the GPU's gate, which the guest gives as `COADAPT_BUBBLES`.
        free_gib: memory that is left for the guest; None: what CUDA has free, less a tenth of the GPU.

    What a script computes between two iterations, such as its optimizer's step, is never lent.
    """
    stages = getattr(schedule, "_stages", None) or [getattr(schedule, "_stage", None)]
    if not hasattr(schedule, "step") or not all(hasattr(stage, PASSES[0]) for stage in stages):
        kind = type(schedule).__name__
        raise TypeError(
            f"lend_bubbles: {kind} is no schedule of torch.distributed.pipelining, such as Schedule1F1B"
        )
    drain = nothing
    if any(torch.device(stage.device).type == "cuda" for stage in stages):
        drain = torch.cuda.synchronize  # so that a bubble begins when kernels end, not when they were launched
        if free_gib is None:
            free, total = torch.cuda.mem_get_info()
            free_gib = max(free - total / 10, 0) / 2**30
    owner = BubbleOwner(Gate(name), free_gib, drain)
    for stage in stages:
        for pass_name in PASSES:
            if hasattr(stage, pass_name):
                setattr(stage, pass_name, _computing(owner, getattr(stage, pass_name), drain))
    if getattr(schedule, "_loss_fn", None) is not None:
        schedule._loss_fn = _computing(owner, schedule._loss_fn, nothing)
    schedule.step = _iteration(owner, schedule.step)
    return owner


def _computing(owner: BubbleOwner, run: Callable[..., Any], drain: Callable[[], None]) -> Callable[..., Any]:
    def computing(*args: Any, **kwargs: Any) -> Any:
        drain()  # the pass waits for what another stage sends, so the bubble lasts until that is there
        with owner.computes():
            return run(*args, **kwargs)

    return computing


def _iteration(owner: BubbleOwner, run: Callable[..., Any]) -> Callable[..., Any]:
    def iteration(*args: Any, **kwargs: Any) -> Any:
        with owner.iteration():
            return run(*args, **kwargs)

    return iteration
