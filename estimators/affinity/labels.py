"""Which jobs are tiny, medium and jumbo: by how fast they run, or let others run, beside partners. Pure.

Source: Lucid, ASPLOS'23, section on the packing analyze model. The text averages "its influence on others" in one
sentence and "its normalised speed" in the next, so whose speed counts is an option.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np

from ..interpretable.table import Floats, Ints
from .pair_table import PairTable


class Score(IntEnum):
    """The Sharing Score: how much care a job needs beside another one."""

    TINY = 0
    MEDIUM = 1
    JUMBO = 2


class Whose(StrEnum):
    """Whose speed is averaged over partners: the job's own, its partners', or the mean of both."""

    OWN = "own"
    PARTNERS = "partners"
    BOTH = "both"


@dataclass(frozen=True)
class Thresholds:
    """Speeds relative to running alone: above `tiny` a job is tiny, from `medium` on it is medium.

    Raises:
        ValueError: in one sentence, for thresholds that are out of order or outside of 0 to 1.
    """

    medium: float = 0.85
    tiny: float = 0.95

    def __post_init__(self) -> None:
        if not 0 < self.medium <= self.tiny <= 1:
            raise ValueError(
                f"thresholds: medium {self.medium}, tiny {self.tiny} are not accepted, must be above 0, at most 1 "
                "and in ascending order"
            )


def labels(speeds: Floats, thresholds: Thresholds | None = None) -> Ints:
    """Return (jobs,) scores of mean speeds; a job of which no speed is known is jumbo."""
    by = thresholds or Thresholds()
    scores = np.where(speeds > by.tiny, Score.TINY, np.where(speeds >= by.medium, Score.MEDIUM, Score.JUMBO))
    return scores.astype(np.int64)


def mean_speeds(pairs: PairTable, whose: Whose = Whose.OWN) -> Floats:
    """Return (jobs,) mean speeds over the measured partners of each job, itself included; nan: it has none."""
    own, partners = pairs.speeds, pairs.speeds.T
    each = {Whose.OWN: own, Whose.PARTNERS: partners, Whose.BOTH: (own + partners) / 2}[whose]
    known = ~np.isnan(each)
    count = known.sum(axis=1)
    sums = np.where(known, each, 0.0).sum(axis=1)
    return np.where(count > 0, sums / np.maximum(count, 1), np.nan)
