"""Cells: blocks of 1, 2, 4, … GPUs of a node, the shapes that jobs take of them, and what fits (HiveD).

A shape counts the cells of each level that a job takes; a cell of level g has 2^g GPUs. A negative count gives
cells of a larger one back: three GPUs of a cell of four are (-1, 0, 1, 0). Shapes fit free cells if, from each
level up, they take no more GPUs than there are in free cells (equation 14 of UniSched).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]  # cells by level
Ints = NDArray[np.int64]
MOST_LISTED = 16  # GPUs of a job up to which all shapes are listed (section IV-B.2)


def levels_of(largest: int) -> int:
    """Return how many levels of cells there are in nodes of at most so many GPUs."""
    return max(largest, 1).bit_length()


@lru_cache(maxsize=65_536)
def exact_shapes(gpus: int, levels: int) -> tuple[Shape, ...]:
    """Return every way to add cells up to so many GPUs; the largest cells come first."""
    if levels == 1:
        return ((gpus,),)
    size = 1 << (levels - 1)
    tops = range(gpus // size, -1, -1)
    return tuple((*rest, top) for top in tops for rest in exact_shapes(gpus - top * size, levels - 1))


@lru_cache(maxsize=4096)
def together(gpus: int, levels: int, returned: bool = True) -> Shape:
    """Return the shape on as few nodes of the largest cell as possible.

    returned: whether what is left of the last cell goes back; else it is kept, as the paper has it. Beyond
        `MOST_LISTED` GPUs the last cell then is a whole node.
    """
    size = 1 << (levels - 1)
    whole, rest = divmod(gpus, size)
    shape = [0] * levels
    shape[-1] = whole
    if rest:
        alike = returned or gpus <= MOST_LISTED
        cell = (rest - 1).bit_length() if alike else levels - 1
        shape[cell] += 1
        back = (1 << cell) - rest if returned else 0
        for level in range(cell):
            shape[level] -= back >> level & 1
    return tuple(shape)


@lru_cache(maxsize=4096)
def nodes_of(shape: Shape) -> int:
    """Return on how many nodes a shape may lie at most: cells that are given back make no further one."""
    return max(sum(count for count in shape if count > 0), 1)


def is_friendly(gpus: int, node_gpus: int = 8) -> bool:
    """Return whether cells hold a job without a rest: 1, 2, 4, … of a node, or whole nodes."""
    return gpus % node_gpus == 0 or (gpus < node_gpus and gpus & (gpus - 1) == 0)


def gpus_in(shape: Shape) -> int:
    """Return the GPUs of a shape; what is given back does not count."""
    return sum(count << level for level, count in enumerate(shape))


@lru_cache(maxsize=65_536)
def usage(shape: Shape) -> tuple[int, ...]:
    """Return (levels,) the cells that a shape takes, in cells of each level, from it up (U of equation 14)."""
    found, above = [0] * len(shape), 0
    for level in range(len(shape) - 1, -1, -1):
        above = 2 * above + shape[level]
        found[level] = above
    return tuple(found)


def fits(shapes: Iterable[Shape], free: Sequence[int]) -> bool:
    """Return whether shapes fit free cells, by level, together (equation 14)."""
    taken = np.zeros(len(free), np.int64)
    for shape in shapes:
        taken += usage(shape)
    return bool((taken <= usage(tuple(free))).all())


@lru_cache(maxsize=4096)
def shapes_of(
    gpus: int, levels: int, *, returned: bool = True, every: bool = False, joint: bool = True
) -> tuple[Shape, ...]:
    """Return the shapes that a job may take, the one on fewest nodes first.

    returned: as of `together`. every: all exact sums; else only the one of single GPUs, which is no slower than
    another one that spans nodes and fits wherever one does. joint: False leaves only the first.
    """
    found = [together(gpus, levels, returned)]
    if not joint or gpus == 1 or gpus > MOST_LISTED:
        return tuple(found)
    finest = (gpus, *[0] * (levels - 1))
    more = exact_shapes(gpus, levels) if every else (finest,)
    return tuple(dict.fromkeys([*found, *more]))


def cells_of(gpus: int, levels: int) -> Shape:
    """Return the cells of so many GPUs of a node: powers of two, as many as possible of the largest level."""
    size = 1 << (levels - 1)
    whole, rest = divmod(gpus, size)
    return (*(rest >> level & 1 for level in range(levels - 1)), whole)


def free_cells(free: Iterable[int], levels: int) -> Ints:
    """Return (levels,) the free cells of nodes with so many free GPUs each.

    GPUs of a node stand in for each other, so whatever is free of a node merges.
    """
    found = np.zeros(levels, np.int64)
    for gpus, nodes in Counter(free).items():
        found += nodes * np.array(cells_of(gpus, levels))
    return found


def place(gpus: int, shape: Shape, free: Mapping[str, int]) -> dict[str, int] | None:
    """Return the GPUs that a job takes of each node, on as few nodes as its shape allows; None: no room.

    Whole cells of the shape come first, each in the fullest node with room. A shape of several nodes that finds
    room on fewer lies there. Where jobs with larger cells are placed first, all fit that fit together.

    Args:
        free: free GPUs by node.
    """
    if (whole := _on_one_node(gpus, free)) is not None:
        return {whole: gpus}
    left, found = dict(free), Counter[str]()
    for size in _parts(gpus, shape):
        node = _on_one_node(size, left, found)
        if node is None:
            return None
        left[node] -= size
        found[node] += size
    return dict(found)


def _parts(gpus: int, shape: Shape) -> list[int]:
    """Return the GPUs that a shape takes of each of its cells, the largest first."""
    sizes = [1 << level for level in range(len(shape) - 1, -1, -1) for _ in range(max(shape[level], 0))]
    back = sum(sizes) - gpus
    if back:
        sizes[-1] -= back
    return sizes


def _on_one_node(gpus: int, free: Mapping[str, int], mine: Mapping[str, int] | None = None) -> str | None:
    """Return the fullest node with room, one where the job is already before others; None: there is none."""
    rooms = (node for node, left in free.items() if left >= gpus)
    here = mine or {}
    return min(rooms, key=lambda node: (node not in here, free[node], node), default=None)
