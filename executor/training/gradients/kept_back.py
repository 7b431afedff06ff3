"""Gradients of earlier passes of a batch, which wait for its last one."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .parameter_list import ParameterList

OWN = -1  # the number of a backward that stands for gradients which a script has put into `.grad` itself


class KeptBack:
    """Keeps the gradients of hidden passes, by number of the backward, and shows the script the last ones.

    reached: parameters, by number, that a backward of the running part reached, where that part is kept back.
    shown: parameters, by number, whose `.grad` is there only to be looked at.
    below: what the script had accumulated in these parameters before, by number.
    stale: not 0 where a part's loss was not of the kind that was agreed.
    """

    def __init__(self, parameters: ParameterList) -> None:
        self.shown: set[int] = set()
        self.reached: set[int] = set()
        self.below: dict[int, Tensor] = {}
        self.stale: Any = 0.0
        self._parameters = parameters
        self._gradients: dict[int, dict[int, Tensor]] = {}
        self._weights: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._gradients)

    def of(self, ordinal: int) -> dict[int, Tensor]:
        """Return what was kept back of the backward number `ordinal`, by number of the parameter."""
        return self._gradients.get(ordinal, {})

    def from_backward(self, ordinal: int) -> list[int]:
        """Return the numbers of backwards, from `ordinal` on, of which something was kept back."""
        return [other for other in self._gradients if other >= ordinal]

    def add(self, ordinal: int, weight: Any) -> None:
        """Add the gradients in `.grad`, and leave them there for the script to look at."""
        kept = self._gradients.setdefault(ordinal, {})
        for i, gradient in self._parameters.gradients.items():
            if i in kept:
                kept[i].add_(gradient)
            else:
                kept[i] = gradient.detach().clone()
            self.shown.add(i)
            if ordinal != OWN:
                self.reached.add(i)
        self._weights[ordinal] = self._weights.get(ordinal, 0.0) + weight

    def pop_gradients(self, ordinal: int) -> dict[int, Tensor]:
        """Remove and return what was kept back of a backward."""
        return self._gradients.pop(ordinal, {})

    def pop_weight(self, ordinal: int) -> Any:
        """Remove and return the weights of the parts that were kept back of a backward, added up."""
        return self._weights.pop(ordinal, 0.0)

    def show_all(self) -> None:
        """Leave gradients in `.grad` that count for nothing: a script expects some after a backward."""
        self.shown, self.below = set(self._parameters.gradients), {}

    def take_back(self) -> None:
        """Replace what was left to be looked at by what the script had accumulated before."""
        for i in self.shown:
            self._parameters.all[i].grad = self.below.get(i)
        self.shown, self.below = set(), {}

    def clear(self) -> None:
        """Drop what was kept back."""
        self._gradients, self._weights, self.stale = {}, {}, 0.0
