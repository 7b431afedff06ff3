"""The parameters whose gradients are combined, by number."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn


class ParameterList:
    """Numbers parameters alike on all replicas; a parameter that is added later gets the last number."""

    def __init__(self, parameters: Callable[[], Sequence[Tensor]]) -> None:
        self.now = parameters
        self.all: Sequence[Tensor] = ()
        self.number: dict[Tensor, int] = {}
        self._combined: dict[int, weakref.ref[Tensor]] = {}  # by number: the gradient that was combined last

    def refresh(self) -> list[Tensor]:
        """Look at the parameters again; return those that were added."""
        known, self.all = self.number, list(self.now())
        self.number = {parameter: i for i, parameter in enumerate(self.all)}
        return [parameter for parameter in self.all if parameter not in known]

    @property
    def gradients(self) -> dict[int, Tensor]:
        """The gradients that are there, by number."""
        return {i: parameter.grad for i, parameter in enumerate(self.all) if parameter.grad is not None}

    def put(self, gradients: Mapping[int, Tensor]) -> None:
        """Write gradients, by number, into `.grad`."""
        for i, gradient in gradients.items():
            self.all[i].grad = gradient

    def take(self) -> dict[int, Tensor]:
        """Remove all gradients from `.grad`; return them by number."""
        taken = self.gradients
        for i in taken:
            self.all[i].grad = None
        return taken

    def note_combined(self) -> None:
        """Remember that the gradients that are there are combined ones."""
        for i, gradient in self.gradients.items():
            self._combined[i] = weakref.ref(gradient)

    def is_combined(self, parameter: Tensor) -> bool:
        """Return whether the parameter's gradient was combined and not replaced since."""
        known = self._combined.get(self.number[parameter])
        return parameter.grad is not None and known is not None and known() is parameter.grad


def spans_gpus(module: nn.Module) -> bool:
    """Return whether a replica is cut into stages on GPUs of their own."""
    return len({parameter.device for parameter in module.parameters()}) > 1
