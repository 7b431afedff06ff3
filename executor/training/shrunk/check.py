"""What tells before a study that a model's best settings do not carry over from a narrow one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from . import roles
from .layers import layers_of
from .plan import divided_layers

LARGEST_SLOPE = 0.2  # of log size over log width; 0 where nothing grows, 0.5 or 1 where a rule is missing


def misfits(module: nn.Module, loader: Any, by: int) -> list[str]:
    """Return one sentence for each layer that is too narrow or does not divide; the model stays as it is.

    Raises: CannotShrink, if the places of layers cannot be found at all.
    """
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))
    found = roles.find(module, layers_of(module), roles.few_samples(loader, device))
    return divided_layers(module, found, by)[1]


def growing(sizes: Mapping[int, Mapping[str, Sequence[float]]], not_finite: bool = True) -> list[str]:
    """Return one sentence for each layer whose activations grow with width, or are not finite.

    Args:
        sizes: by divisor S, the sizes of each layer's activations before each of a few steps, as `Activations` has
            them. The same layers, at two divisors at least.
        not_finite: whether layers whose activations are not finite are told of.

    Raises: ValueError, for fewer divisors.
    """
    if len(sizes) < 2:
        raise ValueError(f"activations: {len(sizes)} widths are compared; at least 2 are needed")
    divisors = sorted(sizes)
    found = []
    for layer in sizes[divisors[0]]:
        last = [sizes[by][layer][-1] for by in divisors]
        if not all(map(math.isfinite, last)):
            if not_finite:
                found.append(f"activations of layer '{layer}' are not finite after some steps; lower the rate")
        elif all(last) and (slope := _slope(divisors, last)) > LARGEST_SLOPE:
            found.append(
                f"activations of layer '{layer}' grow with width, to the power {slope:.2f}; settings that are "
                "best for a narrow model are not so for the target"
            )
    return found


def _slope(divisors: Sequence[int], values: Sequence[float]) -> float:
    return float(np.polyfit(-np.log(divisors), np.log(values), 1)[0])
