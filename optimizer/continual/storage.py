"""A sparse program that is changed in place: runs of slots that are taken, freed and reused.

Columns are lists of entries (row, value). The columns of one request are neighbours, and so are its own rows and
its entries, which have spare room behind them; adding, changing or removing a request costs what the request
holds, whatever the size of the program (COpter, section 4.3.2, "differential interface"; there lists of rows). A
slot that no one holds is an empty column between 0 and 0, or an empty row without sides: a solver that runs over
all slots need not know which ones are alive.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .kernels import SparseColumns

# Kinds of rows; 0 is none.
CAPACITY, CONSTRAINT, OWN = 1, 2, 3
SMALLEST_WASTE = 4096  # slots; below that, compaction is not worth its time


@dataclass
class Slots:
    """Runs of consecutive slots: `take` reuses a free run of the same size, or appends one."""

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

    @property
    def wasteful(self) -> bool:
        return self.top - self.live > max(SMALLEST_WASTE, self.live)


@dataclass(slots=True)
class Block:
    """Where a request lies: its columns, its own rows, and its entries with the room they have.

    Solutions hold blocks: one whose columns or rows are elsewhere is another block.
    """

    column: int
    columns: int
    row: int = 0
    rows: int = 0
    entry: int = 0
    room: int = 0


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """starts[0], starts[0] + 1, … (counts[0] of them), starts[1], …: the indices of many runs, in one array."""
    before = np.cumsum(counts) - counts
    return np.repeat(starts - before, counts) + np.arange(int(counts.sum()))


class Spans(NamedTuple):
    """Slots of some blocks, one block behind another; and how many of them each block has."""

    columns: np.ndarray
    rows: np.ndarray
    columns_each: np.ndarray
    rows_each: np.ndarray


def column_spans(blocks: Collection[Block]) -> np.ndarray:
    """Slots of the blocks' columns, one block behind another."""
    starts = np.fromiter((block.column for block in blocks), np.int64, len(blocks))
    return ranges(starts, np.fromiter((block.columns for block in blocks), np.int64, len(blocks)))


def spans(blocks: Iterable[Block]) -> Spans:
    shape = np.array([(b.column, b.columns, b.row, b.rows) for b in blocks], dtype=np.int64).reshape(-1, 4)
    return Spans(ranges(shape[:, 0], shape[:, 1]), ranges(shape[:, 2], shape[:, 3]), shape[:, 1], shape[:, 3])


def room_for(entries: int) -> int:
    """Entries to reserve: at most an eighth more, in few different sizes so that freed room fits others."""
    grain = max(8, 1 << max(entries.bit_length() - 4, 0))
    return -(-entries // grain) * grain


def _grown(array: np.ndarray, size: int, fill: float) -> np.ndarray:
    longer = np.full(size, fill, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


# Name of an array: what a slot holds that no one uses.
_COLUMN = {"cost": 0.0, "lower": 0.0, "upper": 0.0, "x": 0.0, "column_scale": 1.0, "start": 0, "end": 0}
_ROW = {"row_lower": -np.inf, "row_upper": np.inf, "y": 0.0, "row_scale": 1.0, "kind": 0}
_ENTRY = {"entry_row": 0, "entry_value": 0.0}


class Storage:
    """Columns: cost, lower, upper, x, column_scale, start, end (of their entries); rows: row_lower, row_upper, y,
    row_scale, kind; entries: entry_row, entry_value. Arrays have spare room behind `top`.

    x and y are where the next solve starts. stale: columns whose scales have to be made anew.
    """

    def __init__(self) -> None:
        self.columns, self.rows, self.entries = Slots(), Slots(), Slots()
        self.cost, self.lower, self.upper, self.x = (np.zeros(0) for _ in range(4))
        self.column_scale, self.row_scale = np.zeros(0), np.zeros(0)
        self.start, self.end = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.row_lower, self.row_upper, self.y = (np.zeros(0) for _ in range(3))
        self.kind = np.zeros(0, dtype=np.uint8)
        self.entry_row, self.entry_value = np.zeros(0, dtype=np.int32), np.zeros(0)
        self.stale: dict[int, int] = {}  # first column of a block: its columns

    @property
    def sparse(self) -> SparseColumns:
        """The matrix as it lies there, without a copy: good until the next change."""
        top = self.columns.top
        return SparseColumns(self.start[:top], self.end[:top], self.entry_row, self.entry_value)

    def take_rows(self, count: int, kind: int) -> int:
        start = self.rows.take(count)
        self._reserve(_ROW, self.rows.top)
        self.kind[start : start + count] = kind
        return start

    def free_rows(self, start: int, count: int) -> None:
        """The rows have no entries left."""
        self._clear(_ROW, slice(start, start + count))
        self.rows.free(start, count)

    def take_blocks(self, columns: Sequence[int], rows: int) -> list[Block]:
        """A block of so many columns for each, and of so many rows of its own."""
        made = [Block(self.columns.take(count), count, self.rows.take(rows), rows) for count in columns]
        self._reserve(_COLUMN, self.columns.top)
        self._reserve(_ROW, self.rows.top)
        self.kind[spans(made).rows] = OWN
        return made

    def free_blocks(self, blocks: Sequence[Block]) -> None:
        held = spans(blocks)
        self._clear(_COLUMN, held.columns)
        self._clear(_ROW, held.rows)
        for block in blocks:
            if block.columns:
                self.stale.pop(block.column, None)
            self.columns.free(block.column, block.columns)
            self.rows.free(block.row, block.rows)
            self.entries.free(block.entry, block.room)

    def read(self, blocks: Sequence[Block]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(column, row slot, value) of the blocks' entries; columns are counted as in `write`."""
        columns = column_spans(blocks)
        counts = self.end[columns] - self.start[columns]
        held = ranges(self.start[columns], counts)
        return np.repeat(np.arange(len(columns)), counts), self.entry_row[held], self.entry_value[held]

    def write(self, blocks: Sequence[Block], column: np.ndarray, row: np.ndarray, value: np.ndarray) -> None:
        """The blocks' entries become these, in any order, at their place where they fit in its room.

        column: counted over the columns of all the blocks, one behind another.
        """
        sizes = np.array([block.columns for block in blocks], dtype=np.int64)
        before = np.cumsum(sizes) - sizes
        per_column = np.bincount(column, minlength=int(sizes.sum()))
        ends = np.append(0, np.cumsum(per_column))
        counts = ends[before + sizes] - ends[before]
        for block, count in zip(blocks, counts.tolist(), strict=True):
            if not (block.room // 4 <= count <= block.room):
                self.entries.free(block.entry, block.room)
                block.room = room_for(count)
                block.entry = self.entries.take(block.room)
            if block.columns:
                self.stale[block.column] = block.columns
        self._reserve(_ENTRY, self.entries.top)
        places = np.array([block.entry for block in blocks], dtype=np.int64)
        order = np.argsort(column, kind="stable")
        held = ranges(places, counts)
        self.entry_row[held], self.entry_value[held] = row[order], value[order]
        mine = ranges(np.array([block.column for block in blocks], dtype=np.int64), sizes)
        self.end[mine] = ends[1:] + np.repeat(places - ends[before], sizes)
        self.start[mine] = self.end[mine] - per_column

    @property
    def wasteful(self) -> bool:
        return self.columns.wasteful or self.rows.wasteful or self.entries.wasteful

    def compact(self, blocks: Sequence[Block], single_rows: np.ndarray) -> list[Block]:
        """Close all gaps: `single_rows` come first, then the blocks in their order. Returns where those lie now.

        Costs the size of the program, and at least half of it was waste.
        """
        columns, own_rows, columns_each, rows_each = spans(blocks)
        rows = np.concatenate([single_rows, own_rows])
        counts = self.end[columns] - self.start[columns]
        held = ranges(self.start[columns], counts)
        renumbered = np.zeros(self.rows.top, dtype=np.int32)
        renumbered[rows] = np.arange(len(rows))
        entry_row, entry_value = renumbered[self.entry_row[held]], self.entry_value[held]
        stale = [block.columns > 0 and block.column in self.stale for block in blocks]
        first = np.cumsum(columns_each) - columns_each
        before = np.append(0, np.cumsum(counts))
        sizes = before[first + columns_each] - before[first]
        rooms = np.array([room_for(int(size)) for size in sizes], dtype=np.int64)
        places = np.cumsum(rooms) - rooms
        for name in _COLUMN:
            setattr(self, name, getattr(self, name)[columns])
        for name in _ROW:
            setattr(self, name, getattr(self, name)[rows])
        offset = np.repeat(places - (np.cumsum(sizes) - sizes), columns_each)
        self.end = np.cumsum(counts) + offset
        self.start = self.end - counts
        self.entry_row = np.zeros(int(rooms.sum()), dtype=np.int32)
        self.entry_value = np.zeros(int(rooms.sum()))
        into = ranges(self.start, counts)
        self.entry_row[into], self.entry_value[into] = entry_row, entry_value
        row = len(single_rows) + np.cumsum(rows_each) - rows_each
        moved = np.column_stack([first, columns_each, row, rows_each, places, rooms])
        made = [Block(*each) for each in moved.tolist()]
        self.columns, self.rows = Slots(len(columns), len(columns)), Slots(len(rows), len(rows))
        self.entries = Slots(int(rooms.sum()), int(rooms.sum()))
        self.stale = {block.column: block.columns for block, was in zip(made, stale, strict=True) if was}
        return made

    def _reserve(self, names: dict[str, float], size: int) -> None:
        if len(getattr(self, next(iter(names)))) < size:
            for name, fill in names.items():
                setattr(self, name, _grown(getattr(self, name), max(2 * size, 64), fill))

    def _clear(self, names: dict[str, float], slots: slice | np.ndarray) -> None:
        for name, fill in names.items():
            getattr(self, name)[slots] = fill
