"""A sparse program that is changed in place: runs of slots that are taken, freed and reused.

Columns are lists of entries (row, value). The columns of one request are neighbours, and so are its own rows and
its entries, which have spare room behind them. So the time to add, change or remove a request does not depend on
the size of the program. COpter calls that a differential interface, and has lists of rows there (section 4.3.2). A
slot that nobody holds is an empty column between 0 and 0, or an empty row without sides. So a solver can run over
all slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from . import blocks
from .blocks import COLUMN, COLUMNS, ENTRY, ROOM, ROW, ROWS
from .kernels import SparseColumns

# Kinds of rows; 0 is none.
CAPACITY, CONSTRAINT, OWN = 1, 2, 3
SMALLEST_WASTE = 4096  # wasted slots below which compaction does not pay


@dataclass
class Slots:
    """Runs of consecutive slots. `take` reuses a free run of the same size, or appends one."""

    top: int = 0
    live: int = 0
    free_runs: dict[int, list[int]] = field(default_factory=dict)

    def take(self, size: int) -> int:
        self.live += size
        runs = self.free_runs.get(size)
        if size and runs:
            return runs.pop()
        start, self.top = self.top, self.top + size
        return start

    def free(self, start: int, size: int) -> None:
        self.live -= size
        if size:
            self.free_runs.setdefault(size, []).append(start)

    def take_each(self, sizes: Iterable[int]) -> list[int]:
        return [self.take(size) for size in sizes]

    def free_each(self, starts: np.ndarray, sizes: np.ndarray) -> None:
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            self.free(start, size)

    @property
    def wasteful(self) -> bool:
        return self.top - self.live > max(SMALLEST_WASTE, self.live)


def _grown(array: np.ndarray, size: int, fill: float) -> np.ndarray:
    longer = np.full((size, *array.shape[1:]), fill, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


# Names of arrays, and what an unused slot of each holds.
_COLUMN = dict.fromkeys(("cost", "lower", "upper", "x", "stale", "start", "end"), 0.0) | {"column_scale": 1.0}
_ROW = {"row_lower": -np.inf, "row_upper": np.inf, "y": 0.0, "row_scale": 1.0, "kind": 0}
_ENTRY = {"entry_row": 0, "entry_value": 0.0}
_BLOCK = {"blocks": 0.0}


class Storage:
    """The arrays of a program. They have spare room behind `top`.

    Columns have cost, lower, upper, x, column_scale, stale, start and end (of their entries). Rows have row_lower,
    row_upper, y, row_scale and kind. Entries have entry_row and entry_value. The next solve starts at x and y.
    Scales of stale columns have to be computed anew. `blocks` (numbers, 6) tells where each request lies.
    """

    def __init__(self) -> None:
        self.columns, self.rows, self.entries, self.numbers = Slots(), Slots(), Slots(), Slots()
        self.cost, self.lower, self.upper, self.x = (np.zeros(0) for _ in range(4))
        self.column_scale, self.row_scale = np.zeros(0), np.zeros(0)
        self.stale = np.zeros(0, dtype=bool)
        self.start, self.end = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.row_lower, self.row_upper, self.y = (np.zeros(0) for _ in range(3))
        self.kind = np.zeros(0, dtype=np.uint8)
        self.entry_row, self.entry_value = np.zeros(0, dtype=np.int32), np.zeros(0)
        self.blocks = np.zeros((0, 6), dtype=np.int64)

    @property
    def sparse(self) -> SparseColumns:
        """The matrix without a copy, which is valid until the next change."""
        top = self.columns.top
        return SparseColumns(self.start[:top], self.end[:top], self.entry_row, self.entry_value)

    def take_rows(self, count: int, kind: int) -> int:
        start = self.rows.take(count)
        self._reserve(_ROW, self.rows.top)
        self.kind[start : start + count] = kind
        return start

    def free_rows(self, start: int, count: int) -> None:
        """Free rows that have no entries left."""
        self._clear(_ROW, slice(start, start + count))
        self.rows.free(start, count)

    def take_blocks(self, columns: Sequence[int], rows: int) -> np.ndarray:
        """Return the numbers of new blocks with these numbers of columns, and `rows` own rows each."""
        count = len(columns)
        made = np.array(self.numbers.take_each([1] * count), dtype=np.int64)
        self._reserve(_BLOCK, self.numbers.top)
        where = np.zeros((count, 6), dtype=np.int64)
        where[:, COLUMN], where[:, COLUMNS] = self.columns.take_each(columns), columns
        where[:, ROW], where[:, ROWS] = self.rows.take_each([rows] * count), rows
        self.blocks[made] = where
        self._reserve(_COLUMN, self.columns.top)
        self._reserve(_ROW, self.rows.top)
        self.kind[self.own_rows(made)] = OWN
        return made

    def free_blocks(self, numbers: np.ndarray) -> None:
        self._clear(_COLUMN, self.columns_of(numbers))
        self._clear(_ROW, self.own_rows(numbers))
        where = self.blocks[numbers].T
        self.columns.free_each(where[COLUMN], where[COLUMNS])
        self.rows.free_each(where[ROW], where[ROWS])
        self.entries.free_each(where[ENTRY], where[ROOM])
        self.numbers.free_each(numbers, np.ones_like(numbers))

    def columns_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return the slots of the blocks' columns, one block behind another."""
        return blocks.slots(self.blocks, numbers, COLUMN)

    def own_rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return the slots of the blocks' own rows, one block behind another."""
        return blocks.slots(self.blocks, numbers, ROW)

    def read(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (column, row slot, value) of the blocks' entries. Columns are counted as in `write`."""
        return blocks.entries(self.blocks, numbers, self.start, self.end, self.entry_row, self.entry_value)

    def write(self, numbers: np.ndarray, column: np.ndarray, row: np.ndarray, value: np.ndarray) -> None:
        """Replace the blocks' entries by these, given in any order. Blocks whose room is too small or large move.

        `column` is counted over the columns of all the blocks, one behind another.
        """
        begin, counts = blocks.counted(self.blocks, numbers, column)
        room = self.blocks[numbers, ROOM]
        others = np.flatnonzero((room // 4 > counts) | (counts > room))
        if len(others):
            which, rooms = numbers[others], blocks.rooms_for(counts[others])
            self.entries.free_each(self.blocks[which, ENTRY], room[others])
            self.blocks[which, ENTRY], self.blocks[which, ROOM] = self.entries.take_each(rooms.tolist()), rooms
            self._reserve(_ENTRY, self.entries.top)
        lists = self.start, self.end, self.stale, self.entry_row, self.entry_value
        blocks.put_entries(self.blocks, numbers, begin, column, row.astype(np.int64, copy=False), value, *lists)

    @property
    def wasteful(self) -> bool:
        return self.columns.wasteful or self.rows.wasteful or self.entries.wasteful

    def compact(self, numbers: np.ndarray, single_rows: np.ndarray) -> None:
        """Close all gaps: `single_rows` come first, then the blocks in their order, numbered from 0.

        That takes time for the whole program, at least half of which was waste.
        """
        columns, own_rows, where = self.columns_of(numbers), self.own_rows(numbers), self.blocks[numbers]
        rows = np.concatenate([single_rows, own_rows])
        column, entry_row, entry_value = self.read(numbers)
        renumbered = np.zeros(self.rows.top, dtype=np.int64)
        renumbered[rows] = np.arange(len(rows))
        for names, kept in ((_COLUMN, columns), (_ROW, rows)):
            for name in names:
                setattr(self, name, getattr(self, name)[kept])
        where[:, COLUMN] = np.cumsum(where[:, COLUMNS]) - where[:, COLUMNS]
        where[:, ROW] = len(single_rows) + np.cumsum(where[:, ROWS]) - where[:, ROWS]
        where[:, ENTRY], where[:, ROOM] = 0, 0
        self.blocks, self.numbers = where, Slots(len(where), len(where))
        self.columns, self.rows = Slots(len(columns), len(columns)), Slots(len(rows), len(rows))
        self.entries = Slots()
        moved = np.arange(len(where))
        room = int(blocks.rooms_for(blocks.counted(where, moved, column)[1]).sum())
        self.entry_row, self.entry_value = np.zeros(room, dtype=np.int32), np.zeros(room)
        stale = self.stale.copy()
        self.write(moved, column, renumbered[entry_row], entry_value)
        self.stale[:] = stale

    def _reserve(self, names: dict[str, float], size: int) -> None:
        if len(getattr(self, next(iter(names)))) < size:
            most = max(2 * size, 64)
            # All arrays grow or none, in case memory ends.
            self.__dict__.update({name: _grown(getattr(self, name), most, fill) for name, fill in names.items()})

    def _clear(self, names: dict[str, float], slots: slice | np.ndarray) -> None:
        for name, fill in names.items():
            getattr(self, name)[slots] = fill
