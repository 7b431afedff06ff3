"""Finds recurrent layers whose hidden state goes on from batch to batch.

Such a state has a row for each sample. So a batch of another size, or a part of one, cannot go on with it. It
shows when a layer is given what it returned in an earlier batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

CARRIED = (
    "the hidden state of {} goes on from batch to batch and has a row for each sample, so that its batches are "
    "not divided; "
)
SAY_IT = 'say coadapt.prepare(…, loss="batch"), and every replica computes whole batches'
SEEN = "every replica computes whole batches"
_RECURRENT = (nn.RNNBase, nn.RNNCellBase)


class CarriedState:
    """Looks at the recurrent layers of some models until `stop`; calls `found(name)` when one goes on."""

    def __init__(self, models: Iterable[nn.Module], found: Callable[[str], None]) -> None:
        self._layers = {id(layer): layer for m in models for layer in m.modules() if isinstance(layer, _RECURRENT)}
        self._found = found
        self._earlier: list[Tensor] = []
        self._returned: list[Tensor] = []  # states of the running part
        self._handles: list[Any] = []
        if self._layers:
            self._handles = [
                register_module_forward_pre_hook(self._before),
                register_module_forward_hook(self._after),
            ]

    def begin_part(self) -> None:
        """Begin a part: what was returned until now belongs to an earlier one."""
        if self._returned:
            self._earlier, self._returned = self._returned, []

    def forget(self) -> None:
        """Forget all states, because the batch is given again, and so are the same states."""
        self._earlier, self._returned = [], []

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles, self._earlier, self._returned = [], [], []

    def _before(self, layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if id(layer) in self._layers and any(map(self._is_earlier, _tensors(inputs[1:]))):
            self.stop()
            self._found(type(layer).__name__)

    def _after(self, layer: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        if id(layer) in self._layers:
            state = output[1:] if isinstance(layer, nn.RNNBase) else output
            self._returned += [tensor.detach() for tensor in _tensors(state)]

    def _is_earlier(self, state: Tensor) -> bool:
        return any(state.shape == known.shape and torch.equal(state, known) for known in self._earlier)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
