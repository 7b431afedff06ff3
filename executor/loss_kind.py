"""How a loss depends on the samples it is made of, seen from its autograd graph.

The gradients of a batch's parts add up to the gradient of the batch by weights: the samples of each part where the
loss is a mean over samples, 1 where it is a sum, and what was counted where it is a mean over tokens, pixels or
weighted classes. torch's graph tells which it is for the losses people write; for any other the script can say it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from torch import Tensor

_MEAN_REDUCTION, _SUM_REDUCTION = 1, 2
# A graph is looked into as far as this many nodes; reductions stand near its root.
MOST_NODES = 64


class Kind(IntEnum):
    """What a loss does over the samples of a batch."""

    UNKNOWN = 0
    MEAN = 1
    SUM = 2
    WEIGHTED = 3  # a mean over items that are counted, as tokens that are not padding


@dataclass(frozen=True)
class LossKind:
    """`weight`: the items that a mean is over, or what a sum was divided by; None where there is no such."""

    kind: Kind
    weight: Tensor | float | None = None


UNKNOWN, MEAN, SUM = LossKind(Kind.UNKNOWN), LossKind(Kind.MEAN), LossKind(Kind.SUM)
# A term that is reduced over no samples, such as weight decay that is part of the loss.
_CONSTANT = LossKind(Kind.MEAN)

_PASSING = frozenset(
    f"{name}Backward{number}"
    for name in (
        "Mul", "Neg", "Clone", "View", "ReshapeAlias", "UnsafeView", "Squeeze", "Unsqueeze", "ToCopy", "Alias",
        "Expand", "Select", "Add", "Sub", "Stack", "Cat",
    )
    for number in (0, 1)
)  # fmt: skip
_MEANS = frozenset({"MeanBackward0", "MeanBackward1"})
_SUMS = frozenset({"SumBackward0", "SumBackward1", "NansumBackward0"})


def loss_kind(loss: Tensor, samples: int, batch: int) -> LossKind:
    """The kind of a scalar loss over `samples` samples, part of a batch of `batch`.

    `UNKNOWN` where the graph does not tell, as behind a custom autograd function.
    """
    if loss.grad_fn is None or loss.numel() != 1:
        return UNKNOWN
    found = _Look(samples, batch).at(loss.grad_fn)
    return UNKNOWN if found is None or found is _CONSTANT else found


@dataclass
class _Look:
    samples: int
    batch: int
    nodes: int = 0

    def at(self, node: Any) -> LossKind | None:
        """None: cannot tell. `_CONSTANT`: nothing below is reduced over samples."""
        self.nodes += 1
        name = type(node).__name__
        if node is None or name == "AccumulateGrad":
            return _CONSTANT
        if self.nodes > MOST_NODES:
            return None
        if name == "DivBackward0":
            return self._divided(node)
        if name in _PASSING:
            return self._below(node)
        if name in _MEANS:
            return MEAN if self._over_samples(node) else self._below(node)
        if name in _SUMS:
            return SUM if self._over_samples(node) else self._below(node)
        reduction = getattr(node, "_saved_reduction", None)
        if reduction == _SUM_REDUCTION:
            return SUM
        if reduction == _MEAN_REDUCTION:
            counted = node._saved_total_weight.detach() if name.startswith("NllLoss") else None
            return MEAN if counted is None else LossKind(Kind.WEIGHTED, counted)
        return None

    def _below(self, node: Any) -> LossKind | None:
        return joined([self.at(child) for child, _ in node.next_functions])

    def _over_samples(self, node: Any) -> bool:
        """Whether what is reduced has the part's samples in one of its sizes, alone or flattened with others."""
        sizes = getattr(node, "_saved_self_sym_sizes", None)
        if sizes is None:
            sizes = node._saved_self.shape
        return any(size and size % self.samples == 0 for size in sizes)

    def _divided(self, node: Any) -> LossKind | None:
        """A sum divided by what was counted is a mean; anything else that is divided stays what it was."""
        numerator, *others = [child for child, _ in node.next_functions]
        if any(other is not None for other in others):
            return None  # divided by something that is trained
        above, divisor = self.at(numerator), node._saved_other
        if above is None or above.kind is not Kind.SUM or divisor is None or divisor.numel() != 1:
            return above
        if divisor.device.type != "cpu":  # counted there, such as a mask's sum: a number would not be on a GPU
            return LossKind(Kind.WEIGHTED, divisor.detach().reshape(()))
        value = float(divisor)
        if value == self.samples != self.batch:
            return LossKind(Kind.MEAN, value)
        is_count = value > 1 and value == int(value) and value != self.batch
        # A constant of the script, such as its batch size, leaves it a sum.
        return LossKind(Kind.WEIGHTED if is_count else Kind.SUM, value)


def joined(kinds: Sequence[LossKind | None]) -> LossKind | None:
    """The kind of a sum of terms; None where they differ."""
    if any(kind is None for kind in kinds):
        return None
    told = [kind for kind in kinds if kind is not None and kind is not _CONSTANT]
    if not told:
        return _CONSTANT
    found = {kind.kind for kind in told}
    if found == {Kind.MEAN, Kind.WEIGHTED}:  # alike where every sample counts
        return next(kind for kind in told if kind.kind is Kind.WEIGHTED)
    return told[0] if len(found) == 1 else None


def agreed(kinds: Sequence[LossKind]) -> Kind:
    """What all replicas take a loss for: each has seen its own part of the batch.

    A count that equals the samples of one part by chance looks like a mean there, or like a constant.
    """
    found = {kind.kind for kind in kinds}
    for kind in (Kind.WEIGHTED, Kind.SUM, Kind.MEAN):
        if kind in found:
            return kind
    return Kind.UNKNOWN


def weight_of(seen: LossKind, kind: Kind, samples: int) -> Tensor | float:
    """The weight of one part of a loss that is agreed to be of `kind`; of a sum 1."""
    if kind is Kind.SUM:
        return 1.0
    if kind is Kind.WEIGHTED and seen.weight is not None:
        return seen.weight
    return float(samples)


def as_weight(weight: Any) -> Tensor | float:
    """A script's weight as a number, or as a 0-d tensor on a GPU. Raises ValueError for what is none."""
    if isinstance(weight, Tensor):
        if weight.numel() != 1:
            raise ValueError(f"weight: a tensor of {weight.numel()} elements is given; one number is needed")
        weight = weight.detach().reshape(()).float()
        if weight.is_cuda:  # looking at it would wait for the GPU
            return weight
    value = float(weight)
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"weight: {value:g} is not more than 0; give how many items the loss is a mean over")
    return value
