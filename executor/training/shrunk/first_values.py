"""First values of a narrow model, drawn as torch would draw them in the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .initial import Origin
from .layers import Start
from .parametrise import PROJECTIONS, ratio, readout_factor
from .plan import Plan


def drawn(plan: Plan, origins: Sequence[Origin], seed: int, zero: bool) -> list[Tensor]:
    """Return first values for each parameter and buffer of a narrow model, in the order of `origins`.

    Weights between widths are drawn as torch does for their sizes, and others as in the target. Layers that are
    copies of each other stay so, as those of a TransformerEncoder.

    Args:
        zero: whether readouts and query projections are 0 instead, as in a target that begins so. A table that is
            also the readout is not.
    """
    generator = torch.Generator().manual_seed(seed)
    copies: dict[Any, Tensor] = {}
    kept = {id(tensor) for one in plan.layers if readout_factor(one) == 1 for _, tensor, _, _ in one.parts()}
    found = []
    for origin in origins:
        first = origin.tensor.detach().flatten()[:8].tolist()
        key = (origin.name, origin.narrow.shape, *first)
        if key not in copies or origin.wide.start.kind == "constant":
            copies[key] = _values(origin, generator)
        values = copies[key].to(origin.tensor, copy=True)
        if zero and readout_factor(origin.layer) != 1 and id(origin.tensor) not in kept:
            values.zero_()
        elif zero and isinstance(origin.layer.layer, nn.MultiheadAttention) and origin.name in PROJECTIONS:
            values[: origin.layer.narrow["embed_dim"]] = 0
        found.append(values)
    return found


def _values(origin: Origin, generator: torch.Generator) -> Tensor:
    wide, narrow = origin.wide, origin.narrow
    ins, outs = ratio(wide.fan_in, narrow.fan_in), ratio(wide.fan_out, narrow.fan_out)
    factor = ins**0.5 if ins != 1 and outs != 1 else 1.0
    values = draw(Start(wide.start.kind, wide.start.scale * factor), narrow.shape, generator)
    if (padding := getattr(origin.layer.layer, "padding_idx", None)) is not None:
        values[padding] = 0
    return values


def draw(start: Start, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Return values as torch begins a parameter."""
    values = torch.empty(shape)
    if start.kind == "uniform":
        return values.uniform_(-start.scale, start.scale, generator=generator)
    if start.kind == "normal":
        return values.normal_(0, start.scale, generator=generator)
    return values.fill_(start.scale)
