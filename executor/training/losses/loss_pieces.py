"""Tells whether a loss is of all samples of its part, or of some: pieces that a script cuts, or what it chooses.
Pure.

A script may cut each batch that it is given, and make a backward for each piece. It cuts parts of a batch
otherwise than the batch. So the pieces of parts add up only if the script weighs each one by its samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .loss_kind import Kind, Term
from .loss_terms import Look, Unclear, all_nodes, names, samples_meet, shape_of, shape_of_input, terms_of

_CHOOSE = names(
    "Slice", "Select", "Index", "IndexSelect", "Split", "SplitWithSizes", "Unbind", "Topk", "MaskedSelect"
)
_VIEWS = names("View", "UnsafeView", "ReshapeAlias")
_ROUND_OFF = 1e-6


@dataclass(frozen=True)
class Piece:
    """What one backward is of: `rows` samples. `kind` is BATCH unless all its pieces are a mean or a sum."""

    rows: int
    kind: Kind


def piece_of(losses: Sequence[Tensor], samples: int, batch: int) -> Piece:
    """Return what a backward of `losses` is of, in a part of `samples` samples of a batch of `batch`."""
    rows = rows_of(losses, samples)
    if rows < 1:
        return Piece(0, Kind.BATCH)
    try:
        terms = terms_of(losses, rows, 0)
    except Unclear:
        return Piece(rows, Kind.BATCH)
    if not terms or any(map(_is_uneven, terms)) or samples_meet(terms, rows):
        return Piece(rows, Kind.BATCH)
    return Piece(rows, _kind_of_rows(terms, samples, batch))


def add_up(pieces: Sequence[Piece], samples: int) -> bool:
    """Return whether these backwards of a part of `samples` samples are a mean, or a sum, over all of them."""
    kinds = {piece.kind for piece in pieces}
    return len(kinds) == 1 and Kind.BATCH not in kinds and sum(piece.rows for piece in pieces) == samples


def rows_of(losses: Sequence[Tensor], samples: int) -> int:
    """Return from how many samples losses were computed: `samples` unless the shapes of all data show fewer."""
    shapes = list(_shapes_of_data([loss.grad_fn for loss in losses if loss.grad_fn is not None], samples))
    most = max(map(len, shapes), default=0)
    shapes = [shape for shape in shapes if len(shape) == most]  # positions have fewer dimensions than tokens
    if not shapes or any(_covers(shape, samples) for shape in shapes):
        return samples
    return min(samples, *(shape[0] for shape in shapes))


def chosen_by_place(terms: Sequence[Term], samples: int) -> bool:
    """Return whether samples that a term leaves out were chosen by their place in the part.

    It is true, too, where the graph does not show how they were chosen.
    """
    for term in terms:
        if not term.partial:
            continue
        masks = [_is_mask(node) for node in all_nodes([term.node]) if _leaves_out(node, samples)]
        if not all(masks) or not (masks or _covers(shape_of_input(term.node), samples)):
            return True
    return False


def _kind_of_rows(terms: Sequence[Term], samples: int, batch: int) -> Kind:
    per_row = [term.per_row for term in terms]
    if all(each is not None and abs(abs(each) * samples - 1) < _ROUND_OFF for each in per_row):
        return Kind.MEAN
    constant = all(each is not None and abs(abs(each) * batch - 1) < _ROUND_OFF for each in per_row)
    plain = all(term.kind is Kind.SUM and term.weight is None for term in terms)
    return Kind.SUM if constant or plain else Kind.BATCH


def _is_uneven(term: Term) -> bool:
    """Return whether samples do not count alike in a term, or it counts once in each piece."""
    if term.kind is Kind.WEIGHTED:
        return term.all_items is None or term.partial or float(term.weight or 0.0) != term.all_items
    return term.kind is Kind.CONSTANT


def _shapes_of_data(roots: Sequence[Any], samples: int) -> Iterator[tuple[int, ...]]:
    """Yield the shapes of what was computed from data, and perhaps parameters, and of views of that."""
    look = Look(samples, samples)
    for node in all_nodes(roots):
        if shape_of(node) and not look.is_constant(node) and _is_of_data(_seen_through(node), look):
            yield shape_of(node)


def _seen_through(node: Any) -> Any:
    while type(node).__name__ in _VIEWS and node.next_functions[0][0] is not None:
        node = node.next_functions[0][0]
    return node


def _is_of_data(node: Any, look: Look) -> bool:
    children = [child for child, _ in node.next_functions]
    return None in children or all(map(look.is_constant, children))


def _covers(shape: tuple[int, ...], samples: int) -> bool:
    """Return whether all samples are in the first dimension, or in the second one behind those of time."""
    behind_time = len(shape) == 3 and shape[1] == samples
    return bool(shape) and ((shape[0] > 0 and shape[0] % samples == 0) or behind_time)


def _leaves_out(node: Any, samples: int) -> bool:
    if type(node).__name__ not in _CHOOSE:
        return False
    before, after = shape_of_input(node), shape_of(node)
    return _covers(before[:1], samples) and not _covers(after[:1], samples)


def _is_mask(node: Any) -> bool:
    """Return whether each sample was chosen by itself; indices may be those of the first ones, or of the worst."""
    indices = getattr(node, "_saved_indices", None)
    if type(node).__name__.startswith("Masked"):
        return True
    return isinstance(indices, list | tuple) and all(
        index is None or (isinstance(index, Tensor) and index.dtype is torch.bool) for index in indices
    )
