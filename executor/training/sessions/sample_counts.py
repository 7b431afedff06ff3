"""Counts how many samples of the running pass this replica was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..data.batches import Unit


class CountSnapshot(NamedTuple):
    """The counts at one moment, to go back to."""

    local: int
    apart: int
    since: int


@dataclass
class SampleCounts:
    """Samples of the running pass that this replica was given.

    local: all of them.
    apart: without batches that all replicas computed whole; values of replicas are weighed by these.
    since: as `apart`, but only since replicas last came or left.
    shared: after a loop, the local count; None where the replica was given all samples.
    """

    local: int = 0
    apart: int = 0
    since: int = 0
    shared: int | None = None

    def begin_pass(self) -> None:
        """Count from zero."""
        self.local, self.apart, self.since, self.shared = 0, 0, 0, None

    def go_on_from(self, samples: int) -> None:
        """Take over the share of a pass that is under way."""
        self.local = self.apart = samples

    def add(self, unit: Unit) -> None:
        """Count a batch that the script is done with."""
        given = sum(part.samples for part in unit.parts if part.counts)
        self.local += given
        if any(part.copies == 1 or part.samples < unit.samples for part in unit.parts):
            self.apart += given
            self.since += given

    def now(self) -> CountSnapshot:
        """Return the counts, for `go_back`."""
        return CountSnapshot(self.local, self.apart, self.since)

    def go_back(self, before: Sequence[int]) -> None:
        """Count as at an earlier moment."""
        self.local, self.apart, self.since = before

    @property
    def weight(self) -> float:
        """The weight of this replica's values when replicas' values are combined."""
        return float(max(self.apart, 1))
