"""Maximal-update parametrisation: learning rates, first values and factors of a narrow model's layers.

The target is the base, so that all factors are 1 there and its best learning rates are those that are found.
Sources: Yang et al., "Tensor Programs V", NeurIPS'21, tables 3 and 8; Hydro, OSDI'23, section 4.1.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch
from torch import nn

from .errors import CannotShrink
from .layers import Part, told
from .plan import Plan, Sized

PROJECTIONS = ("in_proj_weight", "q_proj_weight", "in_proj_bias")  # those whose first rows make the query


class Family(Enum):
    """How an optimizer's step follows the gradient: in proportion to it, or by its sign and course alone."""

    SGD = "SGD-like"
    ADAM = "Adam-like"


def ratio(wide: int | None, narrow: int | None) -> float:
    return wide / narrow if wide is not None and narrow is not None else 1.0


def is_readout(wide: Part, narrow: Part) -> bool:
    """Return whether a weight sums over a width and makes none."""
    return ratio(wide.fan_in, narrow.fan_in) != 1 and ratio(wide.fan_out, narrow.fan_out) == 1


def rate_factor(wide: Part, narrow: Part, family: Family) -> float:
    """Return by what a narrow parameter's learning rate is multiplied.

    With S the divisor: SGD-like 1/S, and 1 for weights between widths; Adam-like 1, and S for these. A readout's
    input is multiplied by S, so that it counts as one dimension of width.
    """
    ins, outs = ratio(wide.fan_in, narrow.fan_in), ratio(wide.fan_out, narrow.fan_out)
    if family is Family.ADAM:
        return ins if ins != 1 and outs != 1 else 1.0
    return 1 / ins if outs == 1 else ins / outs


def rate_factors(plan: Plan, family: Family) -> dict[int, float]:
    """Return for each parameter, by its id, by what its learning rate is multiplied.

    Raises: CannotShrink, for a parameter that two layers share and that has two places.
    """
    found: dict[int, float] = {}
    for one in plan.layers:
        for name, tensor, wide, narrow in one.parts():
            factor = rate_factor(wide, narrow, family)
            if found.setdefault(id(tensor), factor) != factor:
                raise CannotShrink(
                    f"shrink: {told(one.name, one.layer)} shares its {name} with a layer in another place, for "
                    "which learning rates differ"
                )
    for bare in plan.bare:
        grown = max(map(ratio, bare.wide, bare.parameter.shape), default=1.0)
        found[id(bare.parameter)] = 1 / grown if family is Family.SGD else 1.0
    return found


class Multiply:
    """Multiplies the input of a readout; called before its forward."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args:
            return (args[0] * self.factor, *args[1:]), kwargs
        return args, {**kwargs, "input": kwargs["input"] * self.factor}


class Logits:
    """Scales the logits of an attention by 1/d_k, as far as that differs from the target's 1/sqrt(d_k).

    The projected query is multiplied, so that nothing else is. It is put in place before forward, and the own one
    back after it. As a hook it keeps torch from its fused kernels, which know no other scale.
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.own: list[dict[str, Any]] = []

    def before(self, layer: nn.Module, args: Any) -> None:
        own = dict(layer._parameters)
        self.own.append(own)
        width = layer.embed_dim
        for name in PROJECTIONS:
            if (held := own.get(name)) is not None:
                query = held[:width] * self.factor
                new = query if len(held) == width else torch.cat([query, held[width:]])
                layer._parameters[name] = new  # type: ignore[assignment]  # a tensor, for this call alone

    def after(self, layer: nn.Module, args: Any, output: Any) -> None:
        layer._parameters.update(self.own.pop())


def prepare_layers(plan: Plan) -> list[Any]:
    """Let readouts and attention of a narrow model compute as the parametrisation asks.

    Returns what takes that back: handles with `remove`.
    """
    handles: list[Any] = []
    for one in plan.layers:
        if (factor := readout_factor(one)) != 1:
            handles.append(one.layer.register_forward_pre_hook(Multiply(factor), with_kwargs=True))
        if isinstance(one.layer, nn.MultiheadAttention):
            handles += _scale_logits(one)
    return handles


def readout_factor(one: Sized) -> float:
    """Return by what the input of a layer is multiplied: 1 if it is no readout."""
    found = [ratio(wide.fan_in, narrow.fan_in) for _, _, wide, narrow in one.parts() if is_readout(wide, narrow)]
    if found and isinstance(one.layer, nn.MultiheadAttention):
        raise CannotShrink(f"shrink: {told(one.name, one.layer)} has keys of a width and queries of none; no rule")
    return found[0] if found else 1.0


def _scale_logits(one: Sized) -> list[Any]:
    wide, narrow = (sizes["embed_dim"] // sizes["num_heads"] for sizes in (one.wide, one.narrow))
    if wide == narrow:
        return []
    logits = Logits((wide / narrow) ** 0.5)
    return [
        one.layer.register_forward_pre_hook(logits.before),
        one.layer.register_forward_hook(logits.after, always_call=True),
    ]
