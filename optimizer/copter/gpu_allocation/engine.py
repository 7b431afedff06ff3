"""COpter: the LP relaxation by the continual engine, rounded by the shim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from ...allocation import ChoiceProgram, ChoiceSolution
from ...allocation.listing import Entries
from ...compiled import kernel
from ..engine import ContinualProgram, Row
from .program import Reading
from .shim import largest_weights


@dataclass
class Continual:
    """Solves the LP relaxation by the continual engine, which is told only changes, then applies COpter's shim.

    Jobs are its requests, each with the columns that it may pick. A job whose columns change leaves and comes
    anew. The costs of all others are written again, as ageing alone changes them in every round.
    """

    tolerance: float = 1e-4
    threads: int = 2
    engine: ContinualProgram = field(default_factory=lambda: ContinualProgram(maximise=True))
    _told: ChoiceProgram | None = None
    _known: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # requests of the engine, rising
    _limits: tuple[np.ndarray, np.ndarray] | None = None  # usage, capacity
    _names: tuple[str, ...] = ()  # of limits
    _serial: dict[str, int] = field(default_factory=dict)  # numbers that stay a job's own

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        reading = Reading.of(program, order)
        requests = self.tell(program, order, reading)
        found = self.engine.solve(self.tolerance, self.threads, time_limit_s)
        weights = found.of_all(requests.tolist())
        choice = largest_weights(reading.entries, weights, len(order), reading.usage, reading.capacity)
        prices = np.maximum([found.price(name) for name in self._names], 0.0)
        return reading.plan(choice, found.bound, prices, gap, found.seconds)

    def _requests(self, order: Sequence[str], entries: Entries, required: np.ndarray) -> np.ndarray:
        """Return (rows,) a number per job that stays while its columns and `required` stay."""
        serial = np.array([self._serial.setdefault(id, len(self._serial)) for id in order], np.int64)
        columns = _MIX[entries.column % len(_MIX)]
        mixed = np.bincount(entries.row, columns, len(order)).astype(np.int64) + (1 << 39) * required
        return (serial << _HASH_BITS) + (mixed & ((1 << _HASH_BITS) - 1))

    def tell(self, program: ChoiceProgram, order: Sequence[str], reading: Reading) -> np.ndarray:
        """Bring the engine up to date with this round. Return (rows,) the request of each row."""
        entries, usage, capacity, required = reading.entries, reading.usage, reading.capacity, reading.required
        if self._told is not program or self._limits is None or not np.array_equal(self._limits[0], usage):
            self.engine, self._told, self._limits = ContinualProgram(maximise=True), program, None
            self._known = np.empty(0, np.int64)
            self._names = tuple(f"limit-{i}" for i in range(len(capacity)))
        for i, most in enumerate(capacity.tolist()):
            if self._limits is None or self._limits[1][i] != most:
                self.engine.set_capacity(self._names[i], most)
        self._limits = usage, capacity
        requests = self._requests(order, entries, required)
        place = np.searchsorted(self._known, requests)
        stays = np.append(self._known, -1)[place] == requests
        self.engine.remove_requests(np.delete(self._known, place[stays]).tolist())
        self._known = np.sort(requests)
        apart = _apart(entries.row, entries.column, entries.gain, stays, usage)
        staying, coming, sizes, begin, index, used = apart
        self.engine.change_costs(requests[stays].tolist(), staying)
        ends = pairwise(begin.tolist())
        uses = {name: (index[a:b], used[a:b]) for name, (a, b) in zip(self._names, ends, strict=True)}
        one = Row(1.0, np.where(required[~stays], 1.0, -np.inf), 1.0)
        self.engine.add_requests(requests[~stays].tolist(), sizes[~stays], coming, uses, [one])
        return requests


_HASH_BITS = 40
_MIX = np.random.default_rng(0).integers(0, 1 << 38, 1 << 12)  # one per column; their sums are exact as floats


@kernel
def _apart(
    row: np.ndarray, column: np.ndarray, gain: np.ndarray, stays: np.ndarray, usage: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return gains of rows that stay, gains of the others, sizes of all rows, and what the others use of limits.

    The latter is (begin, index, used). Entries of limit i lie from begin[i] to begin[i + 1], and `index` is a
    place among the others' gains.
    """
    limits, sizes, old = len(usage), np.zeros(len(stays), np.int64), 0
    for i in row:
        sizes[i] += 1
        if stays[i]:
            old += 1
    staying, coming, place = np.empty(old), np.empty(len(row) - old), np.empty(len(row) - old, np.int64)
    old, new = 0, 0
    for k in range(len(row)):
        if stays[row[k]]:
            staying[old] = gain[k]
            old += 1
        else:
            coming[new], place[new] = gain[k], column[k]
            new += 1
    begin, count = np.zeros(limits + 1, np.int64), 0
    for i in range(limits):
        for c in place:
            count += usage[i, c] != 0.0
        begin[i + 1] = count
    index, used, count = np.empty(count, np.int64), np.empty(count), 0
    for i in range(limits):
        for k in range(new):
            amount = usage[i, place[k]]
            if amount != 0.0:
                index[count], used[count] = k, amount
                count += 1
    return staying, coming, sizes, begin, index, used
