"""Minimal cost complexity: which nodes of a tree become leaves as each leaf costs more. Pure.

Source: Breiman et al., 1984, chapter 3; Primo, ATC'22, equation 5.2: R_α(T) = R(T) + α·leaves(T).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_ALIKE = 1e-13  # of the root's cost: links that are so near are equal but for rounding


@dataclass(frozen=True)
class Step:
    """From this price of a leaf on, these nodes are leaves too. leaves: of the whole tree from then on."""

    alpha: float
    collapsed: tuple[int, ...]
    leaves: int


def weakest_links(left: Ints, right: Ints, cost: Floats) -> Iterator[Step]:
    """Yield the steps from the whole tree to its root alone; prices rise, and leaves become strictly fewer.

    Args:
        left, right: (nodes,) children, -1 for leaves. A child stands behind its parent; node 0 is the root.
        cost: (nodes,) what each would cost as a leaf.
    """
    count = len(left)
    parent = np.full(count, -1)
    inner = np.flatnonzero(left >= 0)
    parent[left[inner]] = inner
    parent[right[inner]] = inner
    below, leaves = cost.astype(float).copy(), np.ones(count, int)  # of the subtree under each node
    for node in inner[::-1]:
        below[node] = below[left[node]] + below[right[node]]
        leaves[node] = leaves[left[node]] + leaves[right[node]]
    gone = np.zeros(count, bool)

    unit = float(cost[0]) * _ALIKE or 1.0

    def gain(node: int) -> float:
        exact = float(cost[node] - below[node]) / (int(leaves[node]) - 1)
        return max(round(exact / unit) * unit, 0.0)

    current = {int(node): gain(int(node)) for node in inner}
    heap = [(value, -node) for node, value in current.items()]  # of equal links the deepest goes first
    heapq.heapify(heap)
    while heap:
        alpha, collapsed = heap[0][0], []
        while heap and heap[0][0] <= alpha:
            value, node = heapq.heappop(heap)
            node = -node
            if gone[node] or current.get(node) != value:
                continue
            collapsed.append(node)
            _remove(node, left, right, gone, current)
            fewer, dearer = int(leaves[node]) - 1, float(cost[node] - below[node])
            above = node
            while above >= 0:
                leaves[above] -= fewer
                below[above] += dearer
                if above != node:
                    current[above] = gain(above)
                    heapq.heappush(heap, (current[above], -above))
                above = int(parent[above])
        if collapsed:
            yield Step(alpha, tuple(collapsed), int(leaves[0]))


def _remove(node: int, left: Ints, right: Ints, gone: NDArray[np.bool_], current: dict[int, float]) -> None:
    """Make a node a leaf: what is below it is no part of the tree any more."""
    current.pop(node, None)
    ahead = [int(left[node]), int(right[node])]
    while ahead:
        one = ahead.pop()
        gone[one] = True
        if current.pop(one, None) is not None:
            ahead += [int(left[one]), int(right[one])]


def kept(left: Ints, right: Ints, cost: Floats, alpha: float) -> NDArray[np.bool_]:
    """Return (nodes,) which nodes are leaves of the smallest tree with the least R + alpha·leaves.

    Raises:
        ValueError: for an alpha below 0.
    """
    if not alpha >= 0:
        raise ValueError(f"alpha: {alpha} is not accepted, must be 0 or more")
    leaf = left < 0
    for step in weakest_links(left, right, cost):
        if step.alpha > alpha:
            break
        leaf[list(step.collapsed)] = True
    return leaf
