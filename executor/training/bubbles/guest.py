"""A guest in the bubbles of another process' pipeline: before each layer it waits until that fits into a bubble.

Hooks on all modules of the process are the points at which it pauses: before a layer's forward pass, before its
backward pass, and before an optimizer's step. Between an optimizer's step and the next layer a script reads and
copies its batch; this is not held back.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..shrunk.roles import tensors
from .forecast import LayerTimes, may_begin
from .gate import Gate, GateError
from .owner import nothing

NAME = "COADAPT_BUBBLES"  # the variable that makes a process a guest: the name of the gate
MEMORY = "COADAPT_BUBBLES_GIB"  # what its group takes of the GPU
LOOK_S = 0.0005  # between looks at a bubble that is open longer than was expected
TRIES = 5  # of a layer that is longer than all bubbles, before it is refused


class BubbleGuest:
    """Holds back the layers of this process.

    Args:
        memory_gib: what the process takes of the GPU; None: not known.
        drain: waits until the GPU has done all that it was given.

    Raises: GateError, where the gate has no owner or another guest, or the memory that is left is too little.
    """

    def __init__(self, gate: Gate, memory_gib: float | None, drain: Callable[[], None] = nothing) -> None:
        self._gate, self._drain = gate, drain
        self._check_memory(memory_gib)
        gate.visit()
        self._times = LayerTimes()
        self._holds = False
        self._layer: Hashable = None  # that runs now
        self._began_s = 0.0
        self._too_long: dict[Hashable, int] = {}  # how often in turn a layer took longer than any bubble
        self._depth = 0  # of modules within each other
        self._hooks = [
            register_module_forward_pre_hook(self._before_layer),
            register_module_forward_hook(self._after_layer, always_call=True),
            register_optimizer_step_pre_hook(
                lambda optimizer, *_: self._pause(("step", type(optimizer).__name__))
            ),
            register_optimizer_step_post_hook(lambda *_: self.rest()),
        ]

    def rest(self) -> None:
        """Leave the GPU to its owner until the next layer."""
        self._ended()
        if self._holds:
            self._holds = False
            self._gate.release()

    def leave(self) -> None:
        """Be no guest any more."""
        self.rest()
        for hook in self._hooks:
            hook.remove()

    # --- points at which it pauses --------------------------------------------------------------------------

    def _before_layer(self, module: nn.Module, args: Any) -> None:
        self._depth += 1
        if _is_layer(module):
            self._pause(("forward", type(module).__name__, id(module)))

    def _after_layer(self, module: nn.Module, args: Any, output: Any) -> None:
        """Have the layer's backward pass held back: it begins when the gradient of its output is there."""
        self._depth -= 1
        if not torch.is_grad_enabled():
            if not self._depth:  # the end of an evaluated batch: no backward pass follows
                self.rest()
            return
        if not _is_layer(module):
            return
        layer = "backward", type(module).__name__, id(module)
        with torch._C.DisableTorchFunctionSubclass():
            for tensor in tensors(output):
                if tensor.requires_grad:
                    tensor.register_hook(lambda gradient: self._pause(layer))
                    return

    def _pause(self, layer: Hashable) -> None:
        """Wait until a layer fits into a bubble; what ran before it has ended then."""
        self._ended()
        while not self._may_begin(layer):
            if self._holds:
                self._holds = False
                self._gate.release()
                time.sleep(max(self._gate.closes_s - time.monotonic(), LOOK_S))
            self._holds = self._gate.take()  # waits while the owner computes
        self._layer, self._began_s = layer, time.monotonic()

    def _may_begin(self, layer: Hashable) -> bool:
        if not self._holds:
            return False
        if self._gate.owner is None:
            return True  # it has ended, so the GPU is free
        left_s = self._gate.closes_s - time.monotonic()
        return may_begin(self._times.expected_s(layer), left_s, self._gate.longest_s)

    def _ended(self) -> None:
        """Take down how long the layer took that ran up to now."""
        if self._layer is None:
            return
        self._drain()
        layer, self._layer = self._layer, None
        time_s, longest_s = time.monotonic() - self._began_s, self._gate.longest_s
        self._times.record(layer, time_s)
        tries = self._too_long[layer] = self._too_long.get(layer, 0) + 1 if time_s > longest_s > 0 else 0
        if tries >= TRIES and self._gate.owner is not None:
            self.leave()
            kind = layer[1] if isinstance(layer, tuple) else layer
            raise GateError(
                f"bubbles: a pass of a layer ({kind}) takes {1000 * time_s:.3g} ms, and no bubble of "
                f"{self._gate.name} is longer than {1000 * longest_s:.3g} ms; train fewer trials as one, or a "
                "narrower model"
            )

    def _check_memory(self, memory_gib: float | None) -> None:
        free_gib = self._gate.free_gib
        if memory_gib is not None and free_gib is not None and memory_gib > free_gib:
            raise GateError(
                f"bubbles: the guest takes {memory_gib:.3g} GiB, and the owner of {self._gate.name} leaves "
                f"{free_gib:.3g} GiB; train fewer trials as one, or use another stage"
            )


def of_environment() -> BubbleGuest | None:
    """Make this process a guest where its environment names a gate. Raises: GateError."""
    name = os.environ.get(NAME)
    if not name:
        return None
    text = os.environ.get(MEMORY)
    try:
        memory_gib = None if text is None else float(text)
    except ValueError:
        memory_gib = math.nan
    if memory_gib is not None and not 0 <= memory_gib < math.inf:
        raise GateError(f"bubbles: {MEMORY} is {text!r}; it is a number of GiB")
    gate, drain = Gate(name, make=False), nothing
    if torch.cuda.is_available():
        drain = torch.cuda.synchronize
        if gate.free_gib is not None:  # so that running out of memory ends the guest, never the owner
            total_gib = torch.cuda.get_device_properties(0).total_memory / 2**30
            torch.cuda.set_per_process_memory_fraction(min(gate.free_gib / total_gib, 1.0))
    found = BubbleGuest(gate, memory_gib, drain)
    print(f"coadapt: bubbles: layers of this process wait for bubbles of {name}", file=sys.stderr, flush=True)
    return found


def _is_layer(module: nn.Module) -> bool:
    return next(module.children(), None) is None
