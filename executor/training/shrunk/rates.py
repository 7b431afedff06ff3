"""Learning rates by layer, in an optimizer of the script."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch.optim import Optimizer

from .errors import CannotShrink
from .parametrise import Family

FAMILIES: dict[type[Optimizer], Family] = {
    torch.optim.SGD: Family.SGD,
    **dict.fromkeys(
        (
            torch.optim.Adam,
            torch.optim.AdamW,
            torch.optim.NAdam,
            torch.optim.RAdam,
            torch.optim.Adamax,
            torch.optim.RMSprop,
        ),
        Family.ADAM,
    ),
}


def family_of(optimizer: Optimizer) -> Family:
    """Return the family of an optimizer. Raises: CannotShrink, if it has no rule or has made steps."""
    if type(optimizer) not in FAMILIES:
        names = ", ".join(kind.__name__ for kind in FAMILIES)
        raise CannotShrink(
            f"shrink: the optimizer {type(optimizer).__name__} has no rule for learning rates by width; {names} "
            "of torch.optim have"
        )
    if optimizer.state:
        raise CannotShrink("shrink: the optimizer has made steps, and a model that was trained cannot be narrowed")
    return FAMILIES[type(optimizer)]


class LayerRates:
    """Multiplies the learning rate of each parameter by its factor, while the optimizer makes a step.

    The script's groups stay as they are for whoever looks at them: LR schedulers, also those made before, code
    that sets `group["lr"]`, and checkpoints. Groups split for good would break what sets absolute rates, such as
    `eta_min`. During a step, parameters with a factor are in groups of their own, behind the script's. That is
    exact, since torch's optimizers keep state by parameter. Weight decay is divided by the factor, as its
    product with the rate is what a step takes off.

    Factors are kept by place and not by parameter, because a group of trials puts other parameters there.
    """

    def __init__(self, optimizer: Optimizer, factors: Mapping[int, float]) -> None:
        self.factors: list[list[float]] = []
        for group in optimizer.param_groups:
            self.factors.append([factors[id(parameter)] for parameter in group["params"]])
        self._whole: list[Sequence[Any]] | None = None
        if any(factor != 1 for of in self.factors for factor in of):
            optimizer.register_step_pre_hook(self._before)
            optimizer.register_step_post_hook(self._after)
            optimizer.step = types.MethodType(self._whole_again(optimizer.step), optimizer)  # type: ignore[method-assign]

    def _whole_again(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Return a step that leaves the script's groups also where it is broken off, as when a worker is lost."""

        @functools.wraps(real)
        def step(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            try:
                return real(*args, **kwargs)
            finally:
                self._after(optimizer, args, kwargs)

        return step

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._whole is not None:  # a class of the script's, whose step calls another one
            return
        self._whole = [group["params"] for group in optimizer.param_groups]
        extra = []
        for group, factors in zip(optimizer.param_groups, self.factors, strict=False):
            pairs = list(zip_longest(group["params"], factors[: len(group["params"])], fillvalue=1.0))
            group["params"] = [parameter for parameter, factor in pairs if factor == 1]
            for factor in sorted(set(factors) - {1}):
                own: dict[str, Any] = {**group, "params": [parameter for parameter, of in pairs if of == factor]}
                own["lr"] = group["lr"] * factor
                if "weight_decay" in group:
                    own["weight_decay"] = group["weight_decay"] / factor
                extra.append(own)
        optimizer.param_groups += extra

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        whole, self._whole = self._whole, None
        if whole is not None:
            del optimizer.param_groups[len(whole) :]
            for group, params in zip(optimizer.param_groups, whole, strict=True):
                group["params"] = params
