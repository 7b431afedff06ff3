"""How many nodes of a kind had a job, by ten-minute maxima, and where nobody looked. Pure.

The most that ran within ten minutes is what had to be awake. A slot in which nobody counted is unknown, and no
idle cluster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SLOT_S = 600.0
# Of all nodes: no cluster on which so many run falls wholly idle from one sample to the next.
_AWAY_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class NodeSeries:
    """Counts by slots of ten minutes; all arrays are (slots,).

    start_s: seconds since 1970 at which the first slot begins, a multiple of 600.
    running: the most nodes with a job within a slot.
    total: the most nodes that there were, awake or not.
    known: whether anybody counted; elsewhere `running` and `total` say nothing.

    Raises:
        ValueError: in one sentence, for counts that cannot be.
    """

    start_s: float
    running: Ints
    total: Ints
    known: Bools

    def __post_init__(self) -> None:
        if not len(self.running) == len(self.total) == len(self.known):
            raise ValueError("node series: running, total and known differ in length")
        if not math.isfinite(self.start_s) or self.start_s % SLOT_S:
            raise ValueError(f"node series: start_s: {self.start_s} is not accepted, must be a multiple of 600")
        wrong = np.flatnonzero(self.known & ((self.running > self.total) | (self.running < 0)))
        if len(wrong):
            at = wrong[0]
            raise ValueError(
                f"node series: slot {at}: {self.running[at]} running of {self.total[at]} is not accepted, must be "
                "from 0 to all"
            )

    def __len__(self) -> int:
        return len(self.running)

    @property
    def end_s(self) -> float:
        """When the last slot ends."""
        return self.start_s + SLOT_S * len(self)

    @cached_property
    def filled(self) -> Floats:
        """Running nodes, (slots,): what was last known where nobody counted, nan before anybody did."""
        return self._filled(self.running)

    @cached_property
    def filled_total(self) -> Floats:
        """All nodes, (slots,), filled likewise."""
        return self._filled(self.total)

    def _filled(self, counts: Ints) -> Floats:
        last = np.maximum.accumulate(np.where(self.known, np.arange(len(self)), -1))
        return np.where(last >= 0, counts[last], np.nan)

    def until(self, now: float) -> NodeSeries:
        """Return the slots that had ended by a moment."""
        return self.of(0, min(max(int((now - self.start_s) // SLOT_S), 0), len(self)))

    def of(self, first: int, end: int) -> NodeSeries:
        """Return the slots from `first` on and before `end`."""
        return NodeSeries(
            self.start_s + SLOT_S * first, self.running[first:end], self.total[first:end], self.known[first:end]
        )


def series_of_samples(
    at_s: Sequence[float] | Floats,
    running: Sequence[int] | Ints,
    total: Sequence[int] | Ints,
    *,
    away_at_zero: bool = True,
) -> NodeSeries:
    """Return the series of samples, as a monitor's of every minute. Slots without a sample are unknown.

    Args:
        at_s: (samples,) seconds since 1970, ascending.
        away_at_zero: whether a stretch of 0 running, right after at least a tenth of all nodes ran, means that
            the monitor was away.

    Raises:
        ValueError: in one sentence, for samples that are unordered, not finite, or with more running than there
            are.
    """
    at, ran, all_ = np.asarray(at_s, float), np.asarray(running, float), np.asarray(total, float)
    if not len(at) or not len(at) == len(ran) == len(all_):
        raise ValueError("node samples: as many moments as counts are accepted, and at least one")
    if not (np.isfinite(at).all() and np.isfinite(ran).all() and np.isfinite(all_).all()):
        raise ValueError("node samples: NaN or infinity is not accepted")
    late = np.flatnonzero(np.diff(at) <= 0)
    if len(late):
        first = int(late[0])
        raise ValueError(f"node samples: sample {first + 1} is not after sample {first}, times must ascend")
    wrong = np.flatnonzero((ran > all_) | (ran < 0))
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"node samples: sample {first}: {ran[first]:g} running of {all_[first]:g} is not accepted, must be "
            "from 0 to all"
        )
    counted = ~_away(ran, all_) if away_at_zero else np.ones(len(at), bool)
    slots = (at // SLOT_S).astype(np.int64)
    start, slots = int(slots[0]), slots - slots[0]
    found = NodeSeries(
        start * SLOT_S,
        np.zeros(slots[-1] + 1, np.int64),
        np.zeros(slots[-1] + 1, np.int64),
        np.zeros(slots[-1] + 1, bool),
    )
    np.maximum.at(found.running, slots[counted], ran[counted].astype(np.int64))
    np.maximum.at(found.total, slots[counted], all_[counted].astype(np.int64))
    found.known[slots[counted]] = True
    return found


def _away(running: Floats, total: Floats) -> Bools:
    """Return (samples,) whether a sample is of a stretch of 0 that began from at least a tenth of all nodes."""
    zero = running == 0
    before = np.concatenate([[0.0], running[:-1]])
    begins = zero & (np.concatenate([[False], ~zero[:-1]]) | (np.arange(len(zero)) == 0))
    stretch = np.cumsum(begins) - 1
    suddenly = before[begins] >= np.maximum(_AWAY_SHARE * total[begins], 1.0)
    return zero & suddenly[np.maximum(stretch, 0)] if len(suddenly) else zero


class NodeCounter:
    """Keeps counts as they come, by slots. `most_slots`: how many of the newest are kept."""

    def __init__(self, most_slots: int) -> None:
        self._most, self._first = most_slots, 0
        self._last_s = -math.inf
        self._running: list[int] = []  # -1: nobody counted
        self._total: list[int] = []

    def note(self, at_s: float, running: int, total: int) -> None:
        """Take note of a count.

        Raises:
            ValueError: in one sentence, for a moment before the last one, and for counts that cannot be.
        """
        if not math.isfinite(at_s) or at_s < self._last_s:
            raise ValueError(f"node counts: at_s: {at_s} is not accepted, must be {self._last_s} or later")
        if not 0 <= running <= total:
            raise ValueError(f"node counts: {running} running of {total} is not accepted, must be from 0 to all")
        slot = int(at_s // SLOT_S)
        if not self._running:
            self._first = slot
        missing = slot + 1 - self._first - len(self._running)
        if missing > self._most:  # nobody counted for longer than counts are kept
            self._first, self._running, self._total, missing = slot, [], [], 1
        self._running += [-1] * missing
        self._total += [0] * missing
        self._last_s = at_s
        self._running[-1] = max(self._running[-1], running)
        self._total[-1] = max(self._total[-1], total)
        surplus = len(self._running) - self._most
        if surplus > self._most // 8:
            del self._running[:surplus], self._total[:surplus]
            self._first += surplus

    def series(self, last: int | None = None) -> NodeSeries:
        """Return what was counted, of the newest `last` slots or of all, including the slot that has not ended."""
        first = 0 if last is None else max(len(self._running) - last, 0)
        running = np.array(self._running[first:], np.int64)
        start_s = (self._first + first) * SLOT_S
        return NodeSeries(start_s, np.maximum(running, 0), np.array(self._total[first:], np.int64), running >= 0)

    def to_json(self) -> Mapping[str, Any]:
        """Return what was counted as plain JSON values."""
        return {"first": self._first, "running": list(self._running), "total": list(self._total)}

    @classmethod
    def read(cls, document: Mapping[str, Any], most_slots: int) -> NodeCounter:
        """Return the counter that `to_json` wrote. Raises ValueError, in one sentence, for any other document."""
        found = cls(most_slots)
        try:
            first, pairs = int(document["first"]), zip(document["running"], document["total"], strict=True)
            counts = [(int(running), int(total)) for running, total in pairs]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"node counts: are no such counts: {type(error).__name__}: {error}") from None
        for slot, (running, total) in enumerate(counts, first):
            if running >= 0:
                found.note(slot * SLOT_S, running, total)
        return found
