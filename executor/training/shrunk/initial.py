"""Whether a model is as torch initialised it, so that a narrow one can be drawn alike."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from .errors import AS_IS, CannotShrink
from .layers import Part, Start, told
from .plan import Plan, Sized

ERRORS = 6.0  # standard errors of a sample that are taken for chance
REASON = f"own initialisers and loaded or trained weights cannot be narrowed; leave them out, or {AS_IS}"


@dataclass(frozen=True)
class Origin:
    """A parameter or buffer, the layer that it was drawn for, and what is known of it there, wide and narrow."""

    layer: Sized
    name: str
    tensor: Tensor
    wide: Part
    narrow: Part


def origins(plan: Plan, to: str) -> list[Origin]:
    """Return for each parameter and buffer the layer that torch drew it for; two layers may share it.

    Args:
        to: which sizes the model has now: "wide", or "narrow" where the script built it so.

    Raises: CannotShrink, for a parameter that is not drawn as torch does, with its layer and what it has instead.
    """
    found: dict[int, Origin] = {}
    wrong: dict[int, str] = {}
    for one in plan.layers:
        for name, tensor, wide, narrow in one.parts():
            if id(tensor) in found:
                continue
            part = wide if to == "wide" else narrow
            values = _drawn(one.layer, tensor.detach())
            if tuple(tensor.shape) != part.shape:
                strange = f"has shape {tuple(tensor.shape)}, where its sizes ask for {part.shape}"
            elif not (strange := _strange(values, part.start)):
                found[id(tensor)] = Origin(one, name, tensor, wide, narrow)
                continue
            wrong.setdefault(id(tensor), f"shrink: {name} of {told(one.name, one.layer)} {strange}; {REASON}")
    for key, sentence in wrong.items():
        if key not in found:
            raise CannotShrink(sentence)
    return list(found.values())


def _drawn(layer: nn.Module, values: Tensor) -> Tensor:
    """Return the values that were drawn: those of the padding of an embedding are not."""
    padding = getattr(layer, "padding_idx", None)
    if padding is None:
        return values
    return values[[i for i in range(len(values)) if i != padding % len(values)]]


def _strange(values: Tensor, start: Start) -> str:
    """Say how values differ from what torch draws; "" if they do not."""
    values = values.float()
    if not values.numel():
        return ""
    if start.kind == "constant":
        return "" if bool((values == start.scale).all()) else f"is not {start.scale:g} everywhere"
    count, deviation = values.numel(), start.deviation
    slack = 1 + 2**-7  # of half precision
    if start.kind == "uniform" and float(values.abs().max()) > start.scale * slack:
        return f"has values up to {float(values.abs().max()):.3g}, where torch draws up to {start.scale:.3g}"
    mean, square = float(values.mean()), float(values.square().mean())
    spread = 0.8 if start.kind == "uniform" else 2.0  # the variance of squares, in squares of the variance
    allowed = ERRORS * math.sqrt(spread / count) + 0.01
    if abs(square / deviation**2 - 1) > allowed or abs(mean) > deviation * (ERRORS / math.sqrt(count) + 0.01):
        return f"has mean {mean:.3g} and deviation {square**0.5:.3g}, where torch draws 0 and {deviation:.3g}"
    return ""
