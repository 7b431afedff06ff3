"""A sparse program that is changed in place: runs of slots that are taken, freed and reused.

Columns are lists of entries (row, value). The columns of one request are neighbours, and so are its own rows and
its entries, which have spare room behind them; adding, changing or removing a request costs what the request
holds, whatever the size of the program (COpter, section 4.3.2, "differential interface"; there lists of rows). A
slot that no one holds is an empty column between 0 and 0, or an empty row without sides: a solver that runs over
all slots need not know which ones are alive.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

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
    """Where a request lies: its columns, its own rows, and its entries with the room they have."""

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

    def take_columns(self, count: int) -> int:
        start = self.columns.take(count)
        self._reserve(_COLUMN, self.columns.top)
        return start

    def take_rows(self, count: int, kind: int) -> int:
        start = self.rows.take(count)
        self._reserve(_ROW, self.rows.top)
        self.kind[start : start + count] = kind
        return start

    def free_columns(self, start: int, count: int) -> None:
        self._clear(_COLUMN, start, count)
        self.columns.free(start, count)

    def free_rows(self, start: int, count: int) -> None:
        """The rows have no entries left."""
        self._clear(_ROW, start, count)
        self.rows.free(start, count)

    def free_block(self, block: Block) -> None:
        self.entries.free(block.entry, block.room)
        self.stale.pop(block.column, None)
        self.free_columns(block.column, block.columns)
        self.free_rows(block.row, block.rows)

    def read(self, block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(column within the block, row slot, value) of the block's entries."""
        mine = slice(block.column, block.column + block.columns)
        counts = self.end[mine] - self.start[mine]
        held = slice(block.entry, block.entry + int(counts.sum()))
        column = np.repeat(np.arange(block.columns), counts)
        return column, self.entry_row[held].copy(), self.entry_value[held].copy()

    def write(self, block: Block, column: np.ndarray, row: np.ndarray, value: np.ndarray) -> None:
        """The block's entries become these, in any order, at their place where they fit in its room."""
        count = len(column)
        if not (block.room // 4 <= count <= block.room):
            self.entries.free(block.entry, block.room)
            block.room = room_for(count)
            block.entry = self.entries.take(block.room)
            self._reserve(_ENTRY, self.entries.top)
        order = np.argsort(column, kind="stable")
        held = slice(block.entry, block.entry + count)
        self.entry_row[held], self.entry_value[held] = row[order], value[order]
        ends = block.entry + np.cumsum(np.bincount(column, minlength=block.columns))
        mine = slice(block.column, block.column + block.columns)
        self.end[mine] = ends
        self.start[mine] = np.concatenate(([block.entry], ends))[: block.columns]
        self.stale[block.column] = block.columns

    @property
    def wasteful(self) -> bool:
        return self.columns.wasteful or self.rows.wasteful or self.entries.wasteful

    def compact(self, blocks: list[Block], single_rows: np.ndarray) -> np.ndarray:
        """Close all gaps: `single_rows` come first, then the blocks in their order. Returns their new slots.

        The blocks are told where they lie now. Costs the size of the program, and at least half of it was waste.
        """
        shape = np.array([[b.column, b.columns, b.row, b.rows] for b in blocks], dtype=np.int64).reshape(-1, 4)
        columns = ranges(shape[:, 0], shape[:, 1])
        rows = np.concatenate([single_rows, ranges(shape[:, 2], shape[:, 3])])
        counts = self.end[columns] - self.start[columns]
        held = ranges(self.start[columns], counts)
        renumbered = np.zeros(self.rows.top, dtype=np.int32)
        renumbered[rows] = np.arange(len(rows))
        entry_row, entry_value = renumbered[self.entry_row[held]], self.entry_value[held]
        stale = [block for block in blocks if block.column in self.stale]
        first = np.cumsum(shape[:, 1]) - shape[:, 1]
        before = np.append(0, np.cumsum(counts))
        sizes = before[first + shape[:, 1]] - before[first]
        rooms = np.array([room_for(int(size)) for size in sizes], dtype=np.int64)
        places = np.cumsum(rooms) - rooms
        for name in _COLUMN:
            setattr(self, name, getattr(self, name)[columns])
        for name in _ROW:
            setattr(self, name, getattr(self, name)[rows])
        offset = np.repeat(places - (np.cumsum(sizes) - sizes), shape[:, 1])
        self.end = np.cumsum(counts) + offset
        self.start = self.end - counts
        self.entry_row = np.zeros(int(rooms.sum()), dtype=np.int32)
        self.entry_value = np.zeros(int(rooms.sum()))
        into = ranges(self.start, counts)
        self.entry_row[into], self.entry_value[into] = entry_row, entry_value
        row = len(single_rows) + np.cumsum(shape[:, 3]) - shape[:, 3]
        for i, block in enumerate(blocks):
            block.column, block.row = int(first[i]), int(row[i])
            block.entry, block.room = int(places[i]), int(rooms[i])
        self.columns, self.rows = Slots(len(columns), len(columns)), Slots(len(rows), len(rows))
        self.entries = Slots(int(rooms.sum()), int(rooms.sum()))
        self.stale = {block.column: block.columns for block in stale}
        return np.arange(len(single_rows))

    def _reserve(self, names: dict[str, float], size: int) -> None:
        if len(getattr(self, next(iter(names)))) < size:
            for name, fill in names.items():
                setattr(self, name, _grown(getattr(self, name), max(2 * size, 64), fill))

    def _clear(self, names: dict[str, float], start: int, count: int) -> None:
        for name, fill in names.items():
            getattr(self, name)[start : start + count] = fill
