"""Reads from a loss's autograd graph the terms that it is the sum of, and how each depends on the samples.

A term is a reduction. It is a mean over samples, a sum over them, a mean over items that are counted, or a value
of the parameters alone.
What stands between the terms and the loss must be linear, so that the loss of a batch is a sum over its parts.
What stands above a term must treat each sample by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from .loss_kind import Kind, Term

# The most nodes that are looked at between a loss and its terms, and for samples that meet each other.
MOST_NODES = 256
MOST_DEEP_NODES = 20_000
NORMALISED = 1e-5  # how close to 1
# The most operations between parameters and a value that is made of them alone.
MOST_OPERATIONS = 24
MASK_DEPTH = 4  # operations between a sum and the mask of what it adds up


def names(*names: str) -> frozenset[str]:
    return frozenset(f"{name}Backward{number}" for name in names for number in (0, 1))


_LINEAR = names(
    "Add", "Sub", "Neg", "Clone", "View", "ReshapeAlias", "UnsafeView", "Squeeze", "Unsqueeze", "ToCopy", "Alias",
    "Expand", "Select", "Stack", "Cat", "Rsub", "Detach", "Split", "Unbind", "Repeat",
)  # fmt: skip
_MEANS = names("Mean")
_SUMS = names("Sum", "Nansum")
_STATISTICS = names("Mean", "Sum", "Nansum", "Var", "Std", "VarMean", "StdMean", "Amax", "Amin", "Logsumexp")
_ALONG = names("Softmax", "LogSoftmax", "Cumsum", "Sort", "Topk", "Flip")
_ELEMENTWISE = names("Add", "Sub", "Rsub", "Mul", "Div", "Pow", "Neg", "Abs", "Exp", "Log", "Sqrt", "Clone")
_TAKES_INDICES = names("Embedding", "EmbeddingBag", "Index", "IndexSelect", "Gather")
_COMPILED = "CppFunction"  # written in TorchScript or in a C++ extension
_DISTANCES = names("Cdist", "EuclideanDist", "Pdist")


class Unclear(Exception):
    """Raised where the graph does not tell what a loss is; `opaque`: a function of someone's own hides it."""

    def __init__(self, opaque: bool) -> None:
        super().__init__()
        self.opaque = opaque


def terms_of(losses: Sequence[Tensor], samples: int, batch: int) -> list[Term]:
    """Return the terms of scalar losses over `samples` samples, part of a batch of `batch`; each node once.

    Raises `Unclear` where the graph does not tell, as behind a custom autograd function or a square root.
    """
    look = Look(samples, batch)
    for loss in losses:
        if loss.numel() != 1:
            raise Unclear(opaque=False)
        if loss.grad_fn is not None and not look.at(loss.grad_fn):
            raise Unclear(look.opaque)
    return list(look.terms.values())


@dataclass
class Look:
    samples: int
    batch: int
    terms: dict[int, Term] = field(default_factory=dict)
    nodes: int = 0
    opaque: bool = False
    factor: float | None = 1.0  # the factor by which the loss counts the node that is looked at; None: not known
    _constant: dict[int, bool] = field(default_factory=dict)

    def at(self, node: Any) -> bool:
        """Add the terms at or above `node`. Returns False where it cannot be told what they are."""
        self.nodes += 1
        if node is None or id(node) in self.terms:
            return True
        if self.nodes > MOST_NODES:
            return False
        name = type(node).__name__
        if self.is_constant(node):
            return self._add(node, Kind.CONSTANT)
        if name.startswith(("MulBackward", "DivBackward")):
            return self._scaled(node, name[:3])
        if name in _LINEAR:
            return all(self.at(child) for child, _ in node.next_functions)
        if name in _MEANS or name in _SUMS:
            return self._reduced(node, Kind.MEAN if name in _MEANS else Kind.SUM)
        match getattr(node, "_saved_reduction", None):
            case 2:  # torch.nn.functional's codes
                return self._add(node, Kind.SUM)
            case 1 if name.startswith("NllLoss"):
                return self._counted(node)
            case 1:
                return self._mean_loss(node)
        self.opaque |= isinstance(node, torch.autograd.function.BackwardCFunction) or name == _COMPILED
        return False

    def _add(self, node: Any, kind: Kind, weight: Any = None, **more: Any) -> bool:
        per_row = self.factor if self.factor is None or kind is Kind.SUM else self.factor / self.samples
        self.terms[id(node)] = Term(node, kind, weight, **({"per_row": per_row} | more))
        return True

    def _mean_loss(self, node: Any) -> bool:
        """Return the mean over all that a loss function was given, of which a mask may have chosen some."""
        shape = shape_of_input(node)
        if not shape and self.samples > 1:  # the mean of a single number
            return False
        if not shape or self._holds(shape[0]):
            return self._add(node, Kind.MEAN, items=float(math.prod(shape)))
        return self._add(node, Kind.WEIGHTED, float(math.prod(shape)), partial=True)

    def _counted(self, node: Any) -> bool:
        """Return a mean over targets: over all of them, unless some are ignored or weighted."""
        weighted = node._saved_weight is not None
        target = node._saved_target
        return self._add(
            node,
            Kind.WEIGHTED,
            node._saved_total_weight.detach(),
            all_items=None if weighted else float(target.numel()),
            partial=not self._holds(target.shape[0]) if target.dim() else self.samples > 1,
        )

    def _reduced(self, node: Any, kind: Kind) -> bool:
        """Add a sum or mean. The innermost reduction over samples counts, because what adds it up is linear."""
        before, factor = dict(self.terms), self.factor
        self.factor = None if kind is Kind.MEAN else factor
        if all(self.at(child) for child, _ in node.next_functions):
            self.factor = factor
            return True
        self.terms, self.factor = before, factor
        return self._takes_samples(node) and self._add(node, kind)

    def _takes_samples(self, node: Any) -> bool:
        """Return whether what is reduced has the samples in one of its sizes, and the result has not."""
        sizes = getattr(node, "_saved_self_sym_sizes", None)
        if sizes is None:
            return False
        dims = dims_of(node, len(sizes))
        left = [size for dim, size in enumerate(sizes) if dim not in dims]
        return any(self._holds(sizes[dim]) for dim in dims) and not any(map(self._holds, left))

    def _holds(self, size: int) -> bool:
        return size > 0 and size % self.samples == 0

    def _scaled(self, node: Any, name: str) -> bool:
        """Add a term that is multiplied or divided by something that is no sum over samples itself."""
        children = [child for child, _ in node.next_functions]
        tied = [child for child in children if child is not None and not self.is_constant(child)]
        if len(tied) > 1 or (name == "Div" and tied != children[:1]):
            return False
        if any(child is not None and child is not tied[0] for child in children):
            return self._times_trained(node, tied[0])
        inner = Look(self.samples, self.batch, nodes=self.nodes, _constant=self._constant)
        number = _number(other := node._saved_other if children[0] is tied[0] else node._saved_self)
        if self.factor is not None and number:
            inner.factor = self.factor * number if name == "Mul" else self.factor / number
        else:
            inner.factor = None
        if not inner.at(tied[0]):
            return False
        if len(inner.terms) == 1 and (scaled := self._by_a_count(other, name, *inner.terms.values())) is not None:
            inner.terms = {id(scaled.node): scaled}
        self.terms.update(inner.terms)
        return True

    def _times_trained(self, node: Any, tied: Any) -> bool:
        """Add a term that is multiplied by something trained, such as a temperature: the product is the term."""
        inner = Look(self.samples, self.batch, nodes=self.nodes, _constant=self._constant)
        if not inner.at(tied):
            return False
        first, *others = inner.terms.values()
        if not others:
            self.terms[id(node)] = replace(first, node=node, per_row=None)
            return True
        if any(term.partial for term in inner.terms.values()):
            return False
        if all(term.kind is first.kind for term in others) and first.kind is not Kind.WEIGHTED:
            return self._add(node, first.kind, per_row=None)
        counted = [term for term in inner.terms.values() if term.kind is not Kind.MEAN]
        if any(term.kind is not Kind.WEIGHTED or term.all_items is None for term in counted):
            return False
        # These are means over all samples as long as no target is left out.
        weight = torch.stack([torch.as_tensor(term.weight) for term in counted]).sum()
        all_items = math.fsum(term.all_items or 0.0 for term in counted)
        return self._add(node, Kind.MEAN, weight, all_items=all_items, per_row=None)

    def _by_a_count(self, other: Any, name: str, term: Term) -> Term | None:
        """Return the mean that a sum divided by a count is; None where the factor leaves the term what it is."""
        if term.kind is not Kind.SUM:
            return None
        masks_all = _masks_all(term.node)
        if isinstance(other, Tensor):
            if other.numel() != 1 or other.requires_grad:
                return None
            if other.device.type != "cpu":  # a plain number would not be on a GPU
                if name != "Div":
                    return None
                weight = other.detach().reshape(())
                if masks_all is not None:
                    weight = weight.masked_fill(masks_all & (weight == 1), 0)
                return replace(term, kind=Kind.WEIGHTED, weight=weight)
        value = float(other) if name == "Div" else 1.0 / float(other) if float(other) else math.inf
        if value == 1 and masks_all is not None and bool(masks_all):
            value = 0.0  # as in `mask.sum().clamp(min=1)`
        if abs(value - self.samples) < 1e-6 * value and self.samples != self.batch:
            return replace(term, kind=Kind.MEAN, weight=float(self.samples))
        # It may be a constant of the script, such as its batch size: then the term stays a sum. Or it may be a
        # count.
        return replace(term, kind=Kind.SUM, weight=value, sure=False) if name == "Div" else None

    # --- what is of no samples ------------------------------------------------------------------------------

    def is_constant(self, node: Any) -> bool:
        """Return whether a value is made of parameters alone, as weight decay is."""
        return self._is_constant(node, MOST_OPERATIONS)

    def _is_constant(self, node: Any, depth: int) -> bool:
        known = self._constant.get(id(node))
        if known is None:
            known = self._constant[id(node)] = self._find_constant(node, depth)
        return known

    def _find_constant(self, node: Any, depth: int) -> bool:
        name = type(node).__name__
        if name == "AccumulateGrad":
            return True
        if depth == 0 or name in _TAKES_INDICES or not node.next_functions:
            return False
        children = [child for child, _ in node.next_functions]
        if any(child is None for child in children) and not self._keeps_shape(node, name, children):
            return False
        return all(child is None or self._is_constant(child, depth - 1) for child in children)

    def _keeps_shape(self, node: Any, name: str, children: Sequence[Any]) -> bool:
        """Return whether a value that is not trained is no data: it has a parameter's shape or a smaller one."""
        if name not in _ELEMENTWISE:
            return False
        shapes = [shape_of(child) for child in children if child is not None]
        return bool(shapes) and shape_of(node) in shapes


def _masks_all(node: Any) -> Tensor | None:
    """Return whether a mask leaves nothing of what a node adds up; None where no mask is seen."""
    for _ in range(MASK_DEPTH):
        below = [child for child, _ in node.next_functions if child is not None]
        name = type(node).__name__
        if name in names("Mul"):
            factors = (getattr(node, "_saved_other", None), getattr(node, "_saved_self", None))
            plain = [factor for factor in factors if isinstance(factor, Tensor) and not factor.requires_grad]
            return ~plain[0].any() if len(plain) == 1 else None
        if name in names("Where"):
            return ~node._saved_condition.any()
        if name in names("MaskedFill"):
            return node._saved_mask.all()
        if len(below) != 1:
            return None
        node = below[0]
    return None


def shape_of_input(node: Any) -> tuple[int, ...]:
    """Return the shape of a node's first input."""
    child, output = node.next_functions[0]
    if child is not None and type(child).__name__ != "AccumulateGrad":
        return tuple(child._input_metadata[output].shape) if child._input_metadata else ()
    given = getattr(node, "_saved_self", None)
    return tuple(given.shape) if isinstance(given, Tensor) else ()


def _number(value: Any) -> float | None:
    """Return a factor that is a number of the script's and no data."""
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 and value.device.type == "cpu" else None
    return float(value) if isinstance(value, int | float) else None


def samples_meet(terms: Sequence[Term], samples: int) -> bool:
    """Return whether samples of a batch are compared with each other, or share a statistic, before their terms.

    The shapes of products, distances and statistics show it. Normalisation layers are not counted.
    """
    if samples == 1:
        return False
    look = Look(samples, samples)
    below = [child for term in terms for child, _ in term.node.next_functions if child is not None]
    return any(_meets(node, samples, look) for node in all_nodes(below))


def all_nodes(roots: Sequence[Any]) -> Iterator[Any]:
    seen: set[Any] = set()
    todo = list(roots)
    while todo and len(seen) < MOST_DEEP_NODES:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        yield node
        todo += [child for child, _ in node.next_functions if child is not None]


def _meets(node: Any, samples: int, look: Look) -> bool:
    name = type(node).__name__
    shape = shape_of(node)
    children = [child for child, _ in node.next_functions]
    if name in ("MmBackward0", "AddmmBackward0", "BmmBackward0", "BaddbmmBackward0"):
        if len(shape) < 2 or (name.startswith("B") and shape[0] % samples == 0 and shape[0] > 1):
            return False
        if not all(_few_times(size, samples) for size in shape[-2:]):
            return False
        if None in children[-2:]:
            return shape[-2:] == (samples, samples) and not _has_weight(node, children, look)
        return not _has_weight(node, children, look)
    if name in _DISTANCES:
        return all(_few_times(size, samples) for size in shape[-2:]) and (len(shape) < 3 or shape[0] == 1)
    if name in names("Mul") and None in children and _is_normalised(node, samples):
        return True
    if name in names("Sub", "Add", "Mul", "Div"):
        return _crosses(shape, [shape_of(child) for child in children if child is not None], samples)
    if name in _STATISTICS or name in _ALONG or name in names("Roll"):
        return _over_first(node, children, samples)
    return False


def _is_normalised(node: Any, samples: int) -> bool:
    """Return whether factors of samples, outside of the graph, were made to add up to 1 or to have a mean of 1."""
    for name in ("_saved_self", "_saved_other"):
        factor = getattr(node, name, None)
        if not isinstance(factor, Tensor) or factor.requires_grad or not factor.is_floating_point():
            continue
        if factor.numel() != samples or not factor.shape or samples not in factor.shape:
            continue
        weights = factor.detach().reshape(-1).double()
        total, spread = float(weights.sum()), float(weights.max() - weights.min())
        is_mask = bool(((weights == 0) | (weights == weights.max())).all())
        if spread > 0 and not is_mask and min(abs(total - 1), abs(total / samples - 1)) < NORMALISED:
            return True
    return False


def _has_weight(node: Any, children: Sequence[Any], look: Look) -> bool:
    """Return whether one factor of a product is a parameter, maybe frozen, or is made of parameters alone."""
    if any(child is not None and look.is_constant(child) for child in children[-2:]):
        return True
    for name in ("_saved_self", "_saved_mat1", "_saved_mat2"):
        factor = getattr(node, name, None)
        owner = factor if factor is None or factor._base is None else factor._base
        if isinstance(owner, torch.nn.Parameter):
            return True
    return False


def _few_times(size: int, samples: int) -> bool:
    """Return whether a size is the number of the part's samples, or of a few views of each."""
    return size % samples == 0 and size <= 4 * samples


def _crosses(shape: tuple[int, ...], operands: Sequence[tuple[int, ...]], samples: int) -> bool:
    """Return whether [n, 1, …] and [1, n, …] made [n, n, …]."""
    if len(shape) < 2 or shape[0] != samples or shape[1] != samples or len(operands) != 2:
        return False
    return {operand[:2] for operand in operands} == {(samples, 1), (1, samples)}


def _over_first(node: Any, children: Sequence[Any], samples: int) -> bool:
    """Return whether a statistic, or an order, is over the first dimension alone, in which the samples are."""
    below = [shape_of(child) for child in children if child is not None]
    if not below or len(below[0]) < 2 or not _few_times(below[0][0], samples):
        return False
    dims = dims_of(node, len(below[0]))
    return 0 in dims and len(dims) < len(below[0]) and below[0][1] != samples


def dims_of(node: Any, count: int) -> set[int]:
    """Return the dimensions that a node works along; all where it has none of its own."""
    given = getattr(node, "_saved_dim", None)
    if given is None:
        given = getattr(node, "_saved_dims", None)
    if given is None or given == ():
        return set(range(count))
    found = given if isinstance(given, list | tuple) else [given]
    # Autograd keeps dimensions counted from the end as unsigned numbers.
    return {(dim - 2**64 if dim >= 2**63 else dim) % count for dim in found} if count else set()


def shape_of(node: Any) -> tuple[int, ...]:
    """Return the shape of a node's output."""
    if type(node).__name__ == "AccumulateGrad":
        return tuple(node.variable.shape)
    return tuple(node._input_metadata[0].shape) if node._input_metadata else ()


def fits(whole: float, parts: Sequence[tuple[int, float]]) -> Kind:
    """Return what a loss is by its values: of a whole batch, and (samples, value) of its parts.

    UNKNOWN: it is neither a mean nor a sum, or the parts are too much alike to tell.
    """
    if len(parts) < 2:
        return Kind.UNKNOWN
    samples = math.fsum(count for count, _ in parts)
    mean, total = math.fsum(count * value for count, value in parts) / samples, math.fsum(v for _, v in parts)
    scale = max(abs(value) for _, value in parts)
    if not math.isfinite(whole) or not math.isfinite(total):
        return Kind.UNKNOWN
    if abs(total - whole) <= 3e-6 * abs(total):
        return Kind.SUM
    told = max(v for _, v in parts) - min(v for _, v in parts) > 1e-3 * scale
    return Kind.MEAN if told and abs(mean - whole) <= 3e-6 * scale else Kind.UNKNOWN
