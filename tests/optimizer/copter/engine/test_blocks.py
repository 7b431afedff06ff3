"""Where requests lie: their slots, their entries, and entries that are written anew."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.optimizer.copter.engine import blocks as lie
from coadapt.optimizer.copter.engine.blocks import COLUMN, ROW, rooms_for

# Request 0 has columns 4, 5 and row 7, request 1 columns 0 to 2 and rows 2, 3. Their entries lie from 0 and 10 on,
# with room for 8 each.
BLOCKS = np.array([[4, 2, 7, 1, 0, 8], [0, 3, 2, 2, 10, 8]], np.int64)


@pytest.mark.parametrize(
    ("numbers", "kind", "slots"),
    [
        ([0, 1], COLUMN, [4, 5, 0, 1, 2]),
        ([1, 0], COLUMN, [0, 1, 2, 4, 5]),
        ([1], ROW, [2, 3]),
        ([], COLUMN, []),
    ],
)
def test_slots_of_requests_lie_one_behind_another(numbers: list[int], kind: int, slots: list[int]) -> None:
    assert lie.slots(BLOCKS, np.array(numbers, np.int64), kind).tolist() == slots


def test_entries_are_read_back_as_they_were_written_column_by_column() -> None:
    numbers = np.array([1, 0])
    column = np.array([3, 0, 2, 0, 4])  # of the five columns of both, in any order
    row, value = np.array([7, 2, 3, 9, 9]), np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    start, end = np.zeros(6, np.int64), np.zeros(6, np.int64)
    stale = np.zeros(6, bool)
    entry_row, entry_value = np.zeros(20, np.int64), np.zeros(20)
    begin, counts = lie.counted(BLOCKS, numbers, column)
    assert counts.tolist() == [3, 2]
    assert begin.tolist() == [0, 2, 2, 3, 4, 5]
    lie.put_entries(BLOCKS, numbers, begin, column, row, value, start, end, stale, entry_row, entry_value)
    assert stale.tolist() == [True, True, True, False, True, True]
    read = lie.entries(BLOCKS, numbers, start, end, entry_row, entry_value)
    assert [part.tolist() for part in read] == [[0, 0, 2, 3, 4], [2, 9, 3, 7, 9], [2.0, 4.0, 3.0, 1.0, 5.0]]
    alone = lie.entries(BLOCKS, np.array([0]), start, end, entry_row, entry_value)
    assert alone[0].tolist() == [0, 1], "columns are counted over the requests that are asked for"


def test_what_has_no_entries_is_written_and_read_too() -> None:
    none = np.zeros(0, np.int64)
    begin, counts = lie.counted(BLOCKS, np.array([1]), none)
    assert (begin.tolist(), counts.tolist()) == ([0, 0, 0, 0], [0])


def test_room_is_at_most_an_eighth_more_and_comes_in_few_sizes() -> None:
    counts = np.arange(1, 5000)
    rooms = rooms_for(counts)
    assert (rooms >= counts).all()
    assert (rooms <= np.maximum(counts * 9 / 8 + 1, 8 * np.ceil(counts / 8))).all()
    assert len(np.unique(rooms)) < 100
    assert rooms_for(np.array([0])).tolist() == [0]
