"""What a loss does over the samples of a batch, and by which weights the gradients of its parts add up.

For a mean over samples the weights are the samples of each part. For a sum they are 1. For a mean over tokens,
pixels or weighted classes they are what was counted. A loss of several terms has weights for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from torch import Tensor


class Kind(IntEnum):
    """What a loss, or one of its terms, does over the samples of a batch."""

    UNKNOWN = 0
    MEAN = 1
    SUM = 2
    WEIGHTED = 3  # a mean over items that are counted, such as tokens that are not padding
    CONSTANT = 4  # of no samples, such as weight decay that is part of the loss
    MIXED = 5  # a sum of terms of several kinds
    BATCH = 6  # no sum over samples: only the whole batch gives its gradient


@dataclass(frozen=True)
class Term:
    """One reduction in a loss.

    node: its place in the graph, whose incoming gradient can be weighted.
    weight: the items that a mean is over, or what a sum was divided by; None where there is neither.
    all_items: the weight at which a counted mean is a plain one.
    sure: False where other parts may show another kind.
    items: what a plain mean is over, where it may be counted elsewhere.
    partial: not all samples are in it.
    per_row: the factor of each sample in the loss; None where it is not known.
    """

    node: Any
    kind: Kind
    weight: Tensor | float | None = None
    all_items: float | None = None
    sure: bool = True
    items: float | None = None
    partial: bool = False
    per_row: float | None = None


def summary(terms: Sequence[Term]) -> Kind:
    """Return the kind of a loss with these terms; MIXED where each has to be weighted by itself."""
    told = {term.kind for term in terms} - {Kind.CONSTANT}
    counted = sum(term.kind is Kind.WEIGHTED for term in terms)
    has_constants = any(term.kind is Kind.CONSTANT for term in terms)
    if not told or told == {Kind.MEAN}:
        return Kind.MEAN
    if told == {Kind.SUM} and not has_constants:
        return Kind.SUM
    return Kind.WEIGHTED if told == {Kind.WEIGHTED} and counted == 1 else Kind.MIXED


def agreed(kinds: Sequence[Kind]) -> Kind:
    """Return what all replicas take a term for, of which each has seen its own part of the batch.

    A count that equals the samples of one part by chance looks like a mean there, or like a constant.
    """
    for kind in (Kind.WEIGHTED, Kind.SUM, Kind.MEAN):
        if kind in kinds:
            return kind
    return kinds[0]


def as_weight(weight: Any, of_part: bool = False) -> Tensor | float:
    """Return a script's weight as a number, or as a 0-d tensor on a GPU. It may be 0 only `of_part` of a batch.

    Raises ValueError for anything else.
    """
    if isinstance(weight, Tensor):
        if weight.numel() != 1:
            raise ValueError(f"weight: a tensor of {weight.numel()} elements is given; one number is needed")
        weight = weight.detach().reshape(()).float()
        if weight.is_cuda:  # looking at it would wait for the GPU
            return weight
    value = float(weight)
    if not (value > 0 or (of_part and value == 0)) or not math.isfinite(value):
        raise ValueError(f"weight: {value:g} is not more than 0; give how many items the loss is a mean over")
    return value
