"""Takes a few steps with copies of a model at several widths, to see before a study whether activations grow.

The copies train on two samples, towards outputs at random, on the CPU. The model of the script stays as it is.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ..fused.of_trials import of_trial
from ..variables.rng import RandomState
from . import roles
from .activations import STEPS, Activations
from .check import growing
from .layers import layers_of
from .parametrise import rate_factors
from .rates import LayerRates, family_of
from .shrink import narrowed

BUDGET_S = 4.0
SEEDS = 8  # over which sizes are averaged: few neurons are a poor sample
_CPU = torch.device("cpu")
Sizes = dict[str, list[float]]


class TrialSteps:
    """Keeps a copy of a model that is not narrowed yet, and its optimizer.

    Args:
        trial: whose settings the optimizer has, where it has those of several.
    """

    def __init__(self, module: nn.Module, optimizer: Optimizer, loader: Any, trial: int = 0) -> None:
        self._module, self._optimizer = copy.deepcopy((getattr(module, "_orig_mod", module), optimizer))
        self._module.to(_CPU)
        self._loader, self._outputs = loader, set[str]()
        for group in self._optimizer.param_groups:
            group["lr"] = group.get("initial_lr", group["lr"])  # a schedule may begin with less
            for name, value in group.items():
                if name != "params":
                    group[name] = of_trial(value, trial)

    def growing(
        self, by: int, budget_s: float | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> list[str]:
        """Return one sentence for each layer whose activations grow with width, or why nobody knows.

        Args:
            by: the divisor of the study; wider copies are trained beside it, but not the target where that is
                much wider.
            budget_s: after which it gives up, as few seeds tell nothing; None: BUDGET_S.
        """
        divisors = [by // part for part in (1, 2, 4) if by % part == 0]
        divisors = divisors if len(divisors) > 1 else [by, 1]
        found: dict[int, list[Sizes]] = {one: [] for one in divisors}
        until_s = clock() + (BUDGET_S if budget_s is None else budget_s)
        for seed in range(SEEDS):
            for one in divisors:
                if clock() > until_s:
                    return [
                        f"activations: {STEPS} steps of the model take long, so nobody knows whether they grow"
                    ]
                found[one].append(self._sizes(one, seed))
        # What grows does so in both halves of the seeds; the rest is chance.
        halves = [self._growing(found, slice(first, None, 2)) for first in (0, 1)]
        told = self._growing(found, slice(None))
        return [text for text in told if all(_layer(text) in map(_layer, half) for half in halves)]

    def _growing(self, found: Mapping[int, Sequence[Sizes]], seeds: slice) -> list[str]:
        hidden = {
            one: {name: own for name, own in _means(of_seeds[seeds]).items() if name not in self._outputs}
            for one, of_seeds in found.items()
        }
        return growing(hidden, not_finite=False)  # with steps towards nothing, a rate may be too high

    def _sizes(self, by: int, seed: int) -> Sizes:
        """Return sizes of activations before each of a few steps, at one width."""
        with RandomState(seed).borrowed():
            module, optimizer = copy.deepcopy((self._module, self._optimizer))
            # The model's own parameters would be one draw among those of all seeds, so it is drawn anew as well.
            LayerRates(optimizer, rate_factors(narrowed(module, by, self._loader), family_of(optimizer)))
            batch = roles.few_samples(self._loader, _CPU)
            places = roles.find(module, layers_of(module), batch)
            self._outputs, (arguments, named) = places.outputs, places.call
            seen = Activations([module], [optimizer])
            draws = torch.Generator().manual_seed(seed)
            targets: list[Tensor] = []
            module.train()
            for _ in range(STEPS):
                optimizer.zero_grad()
                outputs = [one for one in roles.tensors(module(*arguments, **named)) if one.is_floating_point()]
                targets = targets or [torch.randn(one.shape, generator=draws) for one in outputs]
                losses = [nn.functional.smooth_l1_loss(one, of) for one, of in zip(outputs, targets, strict=True)]
                sum(losses, torch.zeros(())).backward()
                optimizer.step()
        return seen.sizes


def _layer(text: str) -> str:
    """Return what a sentence is about: its words up to the verb."""
    return text.partition(" grow")[0]


def _means(of_seeds: Sequence[Mapping[str, Sequence[float]]]) -> Sizes:
    return {
        name: [sum(sizes) / len(of_seeds) for sizes in zip(*(one[name] for one in of_seeds), strict=True)]
        for name in of_seeds[0]
    }
