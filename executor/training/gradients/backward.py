"""Watches every backward of a script, however it is started."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor

_real: Any = None
_watching: Watcher | None = None
_inside = False


class Watcher(Protocol):
    def backward(
        self, losses: Sequence[Tensor], scales: Sequence[Tensor | None]
    ) -> AbstractContextManager[Sequence[Tensor | None]]:
        """Surround one backward; yield the gradients of `losses` that it starts with (None: 1)."""

    def taken(self, inputs: Sequence[Any]) -> None:
        """Note that the script takes gradients of `inputs` itself, as by `torch.autograd.grad`."""


def watch(watcher: Watcher | None) -> None:
    """Let `watcher` surround each backward of this process that does not run inside of another one."""
    global _real, _watching
    _watching = watcher
    if _real is None and watcher is not None:
        _real, torch.autograd.backward = torch.autograd.backward, _backward
        torch.autograd.grad = _grad_told(torch.autograd.grad)


def is_running() -> bool:
    """Return whether a backward is under way, as it is in a hook of a parameter."""
    return _inside


def _grad_told(real: Any) -> Any:
    @functools.wraps(real)
    def grad(outputs: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        if _watching is not None and not _inside:
            _watching.taken([inputs] if isinstance(inputs, Tensor) else list(inputs))
        return real(outputs, inputs, *args, **options)

    return grad


def _backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    global _inside
    rest = {"retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
    if _watching is None or _inside:
        _real(tensors, grad_tensors, grad_variables=grad_variables, **rest)
        return
    losses = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    given = grad_tensors if grad_tensors is not None else grad_variables
    scales = [None] * len(losses) if given is None else [given] if isinstance(given, Tensor) else list(given)
    _inside = True
    try:
        with _watching.backward(losses, scales) as weighted:
            _real(losses, list(weighted), **rest)
    finally:
        _inside = False
