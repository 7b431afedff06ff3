"""Where requests lie in a storage, and what is read and written there.

A request's columns, its own rows and its entries are each one run of slots. Six numbers per request tell where.
"""

from __future__ import annotations

import numpy as np

from ...compiled import kernel

# The six numbers: first column and their count, first own row and their count, first entry and room for entries.
COLUMN, COLUMNS, ROW, ROWS, ENTRY, ROOM = range(6)


@kernel
def slots(blocks: np.ndarray, numbers: np.ndarray, kind: int) -> np.ndarray:
    """Return the slots of these blocks' runs of a kind (COLUMN or ROW), one block behind another."""
    size = 0
    for number in numbers:
        size += blocks[number, kind + 1]
    out, place = np.empty(size, np.int64), 0
    for number in numbers:
        for i in range(blocks[number, kind + 1]):
            out[place] = blocks[number, kind] + i
            place += 1
    return out


@kernel
def entries(
    blocks: np.ndarray,
    numbers: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    entry_row: np.ndarray,
    entry_value: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (column, row, value) of the blocks' entries. Columns are counted over all of these blocks."""
    size = 0
    for number in numbers:
        first = blocks[number, COLUMN]
        for j in range(first, first + blocks[number, COLUMNS]):
            size += end[j] - start[j]
    column, row, value = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size)
    place, c = 0, 0
    for number in numbers:
        first = blocks[number, COLUMN]
        for j in range(first, first + blocks[number, COLUMNS]):
            for k in range(start[j], end[j]):
                column[place], row[place], value[place] = c, entry_row[k], entry_value[k]
                place += 1
            c += 1
    return column, row, value


@kernel
def counted(blocks: np.ndarray, numbers: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of entries before each column (columns + 1,), and of each block (blocks,)."""
    size = 0
    for number in numbers:
        size += blocks[number, COLUMNS]
    begin, counts = np.zeros(size + 1, np.int64), np.empty(len(numbers), np.int64)
    for j in column:
        begin[j + 1] += 1
    for j in range(size):
        begin[j + 1] += begin[j]
    c = 0
    for i in range(len(numbers)):
        last = c + blocks[numbers[i], COLUMNS]
        counts[i] = begin[last] - begin[c]
        c = last
    return begin, counts


@kernel
def put_entries(
    blocks: np.ndarray,
    numbers: np.ndarray,
    begin: np.ndarray,
    column: np.ndarray,
    row: np.ndarray,
    value: np.ndarray,
    start: np.ndarray,
    end: np.ndarray,
    stale: np.ndarray,
    entry_row: np.ndarray,
    entry_value: np.ndarray,
) -> None:
    """Write entries into the blocks' room. Those of a column keep their order. `begin` is of `counted`."""
    place = np.empty(len(begin), np.int64)  # place of the next entry of each column
    c = 0
    for number in numbers:
        offset = blocks[number, ENTRY] - begin[c]
        for j in range(blocks[number, COLUMN], blocks[number, COLUMN] + blocks[number, COLUMNS]):
            place[c] = start[j] = begin[c] + offset
            end[j] = begin[c + 1] + offset
            stale[j] = True
            c += 1
    for k in range(len(column)):
        j = column[k]
        entry_row[place[j]], entry_value[place[j]] = row[k], value[k]
        place[j] += 1


def rooms_for(counts: np.ndarray) -> np.ndarray:
    """Return the entries to reserve, mostly at most an eighth more. Sizes are few, so freed room fits others."""
    grain = np.maximum(8, 1 << np.maximum(np.frexp(counts)[1] - 4, 0))
    return -(-counts // grain) * grain
