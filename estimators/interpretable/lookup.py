"""The compiled look-up of an additive model: bins by a search without branches, then one score per term.

All edges of a feature stand in one ascending list, filled up with infinities to a power of two. Each term has a
map from these fine bins to its own. A prediction is the mean plus the scores in the order of terms, so that it is
the sum of its explanation to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiling import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_BLOCK = 512  # rows whose bins are kept at a time


class LookUp(NamedTuple):
    """A model as flat arrays.

    edges: of all features, each from `first[feature]` on, with `steps[feature]` the half of their padded count.
    codes: (features,) categories of a feature, 0: numbers. A code beyond them counts as missing.
    terms: (terms, 5) feature and map of the first dimension, of the second, and where scores begin.
    maps: fine bin -> offset among the scores of a term.
    """

    edges: Floats
    first: Ints
    steps: Ints
    codes: Ints
    terms: Ints
    maps: Ints
    scores: Floats
    mean: float


def made(
    codes: Sequence[int],
    terms: Sequence[tuple[tuple[int, ...], Sequence[Floats], Floats]],
    mean: float,
) -> LookUp:
    """Return the look-up of terms, each (features, edges of each, scores with the missing bin first)."""
    fine, first, steps, all_edges, at = [], [], [], [], 0
    for feature in range(len(codes)):
        of = [
            edges for features, every, _ in terms for f, edges in zip(features, every, strict=True) if f == feature
        ]
        edges = np.unique(np.concatenate([np.empty(0), *of]))
        size = 1 << len(edges).bit_length()
        fine.append(edges)
        first.append(at)
        steps.append(size >> 1)
        all_edges.append(np.concatenate([edges, np.full(size - len(edges), np.inf)]))
        at += size
    maps, starts, rows = [np.zeros(max(len(edges) for edges in fine) + 2, np.int64)] if fine else [], 0, []
    begin = len(maps[0]) if maps else 0
    for features, every, scores in terms:
        row = []
        for dimension, (feature, edges) in enumerate(zip(features, every, strict=True)):
            stride = int(np.prod(scores.shape[dimension + 1 :], dtype=np.int64))
            lowest = np.concatenate([[-np.inf], fine[feature]])  # of each fine bin
            bins = np.concatenate([[0], 1 + np.searchsorted(edges, lowest, side="right")])
            row += [feature, begin]
            maps.append(bins * stride)
            begin += len(bins)
        if len(features) == 1:
            row += [features[0], 0]  # the map of zeros
        rows.append([*row, starts])
        starts += scores.size
    return LookUp(
        np.concatenate([np.empty(0), *all_edges]),
        np.array(first, np.int64),
        np.array(steps, np.int64),
        np.array(codes, np.int64),
        np.array(rows, np.int64).reshape(len(rows), 5),
        np.concatenate([np.empty(0, np.int64), *maps]),
        np.concatenate([np.empty(0), *(scores.ravel() for _, _, scores in terms)]),
        mean,
    )


@kernel
def looked_up(
    rows: Floats,
    edges: Floats,
    first: Ints,
    steps: Ints,
    codes: Ints,
    terms: Ints,
    maps: Ints,
    scores: Floats,
    mean: float,
    apart: Floats,
) -> Floats:
    """Return (rows,) sums. `apart`: (rows, terms) to take the scores one by one; of no rows: they are not kept."""
    count = rows.shape[0]
    found = np.full(count, mean)
    bins = np.empty((rows.shape[1], _BLOCK), np.int32)
    values = np.empty(_BLOCK)
    keeps = apart.shape[0] == count
    for begin in range(0, count, _BLOCK):
        size = min(_BLOCK, count - begin)
        for feature in range(rows.shape[1]):
            at, start, most = bins[feature], np.int32(first[feature]), codes[feature]
            for i in range(size):
                values[i] = rows[begin + i, feature]
                at[i] = start
            step = np.int32(steps[feature])
            while step > 0:  # all rows take a step before any takes the next, so that none waits
                for i in range(size):
                    at[i] += step if edges[at[i] + step - 1] <= values[i] else 0
                step >>= 1
            for i in range(size):
                missing = np.isnan(values[i]) or (most > 0 and not (0.0 <= values[i] < most))
                at[i] = 0 if missing else at[i] - start + 1
        for term in range(terms.shape[0]):
            a, map_a, b, map_b, start = terms[term]
            of_a, of_b = bins[a], bins[b]
            for i in range(size):
                score = scores[start + maps[map_a + of_a[i]] + maps[map_b + of_b[i]]]
                found[begin + i] += score
                if keeps:
                    apart[begin + i, term] = score
    return found


def warm_up() -> None:
    """Compile the look-up, or read it from the cache."""
    row = np.zeros((1, 1))
    tables = made([0], [((0,), [np.array([0.5])], np.zeros(3))], 0.0)
    looked_up(row, *tables, np.empty((0, 1)))
