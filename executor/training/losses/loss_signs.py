"""Finds signs in a loss's graph that it is no sum over the samples of a batch, though its terms look like one.

A sign is no proof: `gradient_check.py` finds out. A loss without signs costs no second pass over a batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from .loss_kind import Kind
from .loss_terms import Unclear, all_nodes, dims_of, names, shape_of, terms_of

CLOSE = 1e-4
DEPTH = 4  # operations between two reductions
MOST_CONSTANT = 4096  # elements of what may be a weight of each class
_REDUCTIONS = names(
    "Mean", "Sum", "Var", "Std", "Amax", "Amin", "Max", "Min", "Logsumexp", "LinalgVectorNorm", "Norm"
)
_SCALED = names("Mul", "Div")
_PRODUCTS = names("Mm", "Bmm")


def has_signs(losses: Sequence[Any], samples: int, batch: int) -> bool:
    """Return whether a loss over so many samples of a batch may differ from that of the whole batch."""
    roots = [loss for loss in losses if isinstance(loss, Tensor) and loss.grad_fn is not None]
    try:
        terms = terms_of(roots, samples, batch)
    except (Unclear, RuntimeError):
        return False  # `gradient_check` need not look: it is found out otherwise
    over_samples = [term for term in terms if term.kind is not Kind.CONSTANT and term.node is not None]
    factors = [abs(term.per_row * samples) for term in over_samples if term.kind is not Kind.SUM and term.per_row]
    if samples > 1 and any(_is_close(factor, samples) for factor in factors):
        return True
    above = {
        id(node) for node in _above([root.grad_fn for root in roots], {id(term.node) for term in over_samples})
    }
    below = [child for term in over_samples for child, _ in term.node.next_functions if child is not None]
    if _sums_means(over_samples, samples):
        return True
    return any(id(node) not in above and _meets(node, samples) for node in all_nodes(below))


def constants_of(losses: Sequence[Any], samples: int) -> int:
    """Return a number for the values in a loss's graph that are no data of samples, mostly alike in all parts."""
    found = 0
    roots = [loss.grad_fn for loss in losses if isinstance(loss, Tensor) and loss.grad_fn is not None]
    for node in all_nodes(roots):
        is_quotient = type(node).__name__.startswith("Div")
        for value in _saved(node):
            if is_quotient and value.numel() == 1:
                continue  # a count of items, which is known to be one
            if value.numel() <= MOST_CONSTANT and (value.numel() == 1 or value.shape[0] % samples):
                found = rounded(value, found)
    return found


def rounded(value: Tensor, begin: int = 0) -> int:
    """Return a number for what is in a tensor, apart from round-off."""
    return zlib.crc32(value.detach().double().cpu().mul(1 / CLOSE).round().numpy().tobytes(), begin)


def _saved(node: Any) -> Iterator[Tensor]:
    """Yield factors and weights that a node of a loss keeps, and that are not trained."""
    name = type(node).__name__
    kept = ("_saved_self", "_saved_other") if name in _SCALED else ("_saved_weight", "_saved_pos_weight")
    if name in _SCALED or "Loss" in name or "CrossEntropy" in name or "Binary" in name:
        for attribute in kept:
            value = getattr(node, attribute, None)
            if (
                isinstance(value, Tensor)
                and not value.requires_grad
                and value.is_floating_point()
                and value.numel()
            ):
                yield value


def _above(roots: Sequence[Any], terms: set[int]) -> Iterator[Any]:
    """Yield the nodes between a loss and its terms, and the terms' own."""
    seen, todo = set[int](), list(roots)
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if id(node) not in terms:
            todo += [child for child, _ in node.next_functions]


def _sums_means(terms: Sequence[Any], samples: int) -> bool:
    """Return whether a sum adds up means that may be over samples, as over members of an ensemble."""
    for term in terms:
        node = term.node
        if not type(node).__name__.startswith("Sum"):
            continue
        for _ in range(DEPTH):
            children = [child for child, _ in node.next_functions if child is not None]
            if len(children) != 1:
                break
            node = children[0]
            if type(node).__name__.startswith("Mean"):
                sizes = getattr(node, "_saved_self_sym_sizes", ())
                return any(sizes[dim] == samples for dim in dims_of(node, len(sizes)))
    return False


def _meets(node: Any, samples: int) -> bool:
    """Return whether samples meet in a node: in a statistic, a product, or weights that were made to add up."""
    name, shape = type(node).__name__, shape_of(node)
    children = [child for child, _ in node.next_functions if child is not None]
    if samples < 2 or not children:
        return False
    inner = shape_of(children[0])
    if name in _REDUCTIONS:
        return len(inner) > 0 and inner[0] % samples == 0 and (0 in dims_of(node, len(inner)) or not shape)
    if name.startswith("Index") and type(children[0]).__name__ != "AccumulateGrad":
        return bool(inner and shape) and inner[0] % samples == 0 and shape[0] > inner[0]
    if name in _PRODUCTS and len(inner) >= 2:
        return inner[-1] == samples and inner[-2] != samples
    return name in _SCALED and any(_adds_up(value, samples) for value in _saved(node))


def _adds_up(factor: Tensor, samples: int) -> bool:
    """Return whether factors of samples were normalised: to a sum or mean of 1, or to mean 0 and spread 1."""
    if factor.numel() % samples or not factor.shape or samples not in factor.shape:
        return False
    values = factor.detach().reshape(-1).double()
    total, mean, spread = float(values.sum()), float(values.mean()), float(values.std())
    is_mask = bool(((values == 0) | (values == 1)).all())
    if spread == 0 or is_mask:
        return False
    is_standard = abs(mean) < CLOSE and abs(spread - 1) < 0.2
    return _is_close(total, 1) or _is_close(mean, 1) or is_standard


def _is_close(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * abs(b)
