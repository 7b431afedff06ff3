"""Measured speeds of pairs of jobs on one GPU, as a value and as a CSV file. Pure but for the file.

A line is one pair: `job,partner,speed,partner_speed`, speeds relative to running alone. A job beside itself is a
pair too. What a job uses alone may stand in more columns: `gpu_util_percent`, `memory_util_percent`,
`memory_gib` and `mixed_precision`, and the same with `partner_` in front. An empty cell is not known.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ..interpretable.table import Floats
from .uses import FEATURES, row_of, usage_of

PAIR = ("job", "partner", "speed", "partner_speed")
USES = ("gpu_util_percent", "memory_util_percent", "memory_gib", "mixed_precision")
MOST_JOBS = 5000


@dataclass(frozen=True, eq=False)
class PairTable:
    """Jobs, and how fast each runs beside each.

    speeds: (jobs, jobs) of the first beside the second, relative to running alone; nan: not measured.
    uses: (jobs, features of `uses.FEATURES`); nan: not known.

    Raises:
        ValueError: in one sentence, for shapes that do not go together, a name that is there twice, speeds that
            are not above 0, and a pair of which only one speed is known.
    """

    names: tuple[str, ...]
    speeds: Floats = field(repr=False)
    uses: Floats = field(repr=False)

    def __post_init__(self) -> None:
        count = len(self.names)
        if self.speeds.shape != (count, count) or self.uses.shape != (count, len(FEATURES)):
            raise ValueError(f"pairs: speeds of shape {self.speeds.shape} do not go with {count} jobs")
        if len(set(self.names)) < count:
            raise ValueError("pairs: a job is there twice; each name is accepted once")
        known = ~np.isnan(self.speeds)
        if (known != known.T).any():
            a, b = np.argwhere(known != known.T)[0]
            raise ValueError(f"pairs: of {self.names[a]} and {self.names[b]} one speed is missing")
        wrong = known & ~(np.isfinite(self.speeds) & (self.speeds > 0))
        if wrong.any():
            a, b = np.argwhere(wrong)[0]
            raise ValueError(
                f"pairs: speed {self.speeds[a, b]} of {self.names[a]} beside {self.names[b]} is not accepted, "
                "must be above 0"
            )

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Return where each job stands."""
        return {name: i for i, name in enumerate(self.names)}

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (pairs,) and (pairs,) positions of the jobs of measured pairs, each pair once."""
        rows, columns = np.nonzero(np.triu(~np.isnan(self.speeds)))
        return rows, columns

    def speeds_of(self, job: str, partner: str) -> tuple[float, float] | None:
        """Return both speeds as they were measured; None: this pair was not, or nobody knows these jobs."""
        a, b = self.positions.get(job), self.positions.get(partner)
        if a is None or b is None or np.isnan(self.speeds[a, b]):
            return None
        return float(self.speeds[a, b]), float(self.speeds[b, a])


def read(path: Path) -> PairTable:
    """Return the table of a CSV file with names in its first line; a name in .gz is compressed.

    Raises:
        ValueError: in one sentence that names the line, for columns that are missing or unknown, a missing job,
            partner or speed, speeds that are not above 0, a pair that is there twice, bad usage, and a job of
            which two lines say different usage.
    """
    lines = _lines(path)
    positions = dict[str, int]()
    uses, measured = list[Floats](), dict[tuple[int, int], tuple[float, float]]()
    for number, line in enumerate(lines, start=2):
        where = f"{path}: line {number}"
        ends = list[int]()
        for side in ("", "partner_"):
            name = line["partner" if side else "job"].strip()
            if not name:
                raise ValueError(f"{where}: the {'partner' if side else 'job'} is missing")
            said = _use(where, line, side)
            at = positions.setdefault(name, len(positions))
            if at == len(uses):
                uses.append(said)
            else:
                uses[at] = _joined(where, name, uses[at], said)
            ends.append(at)
        a, b = ends
        if (a, b) in measured or (b, a) in measured:
            raise ValueError(
                f"{where}: the pair {line['job'].strip()} and {line['partner'].strip()} is there twice"
            )
        measured[a, b] = _speed(where, line, "speed"), _speed(where, line, "partner_speed")
        if a == b and measured[a, b][0] != measured[a, b][1]:
            mean = sum(measured[a, b]) / 2  # of two that are alike
            measured[a, b] = mean, mean
    if not measured:
        raise ValueError(f"{path}: holds no pair")
    if len(positions) > MOST_JOBS:
        raise ValueError(f"{path}: {len(positions)} jobs are too many, at most {MOST_JOBS} are accepted")
    speeds = np.full((len(positions), len(positions)), np.nan)
    for (a, b), (own, other) in measured.items():
        speeds[a, b], speeds[b, a] = own, other
    return PairTable(tuple(positions), speeds, np.array(uses))


def write(path: Path, pairs: PairTable) -> None:
    """Write a table as `read` reads it. Raises ValueError, in one sentence, where it cannot be written."""
    try:
        with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*PAIR, *USES, *(f"partner_{name}" for name in USES)])
            for a, b in zip(*pairs.pairs, strict=True):
                speeds = [repr(float(pairs.speeds[a, b])), repr(float(pairs.speeds[b, a]))]
                writer.writerow(
                    [pairs.names[a], pairs.names[b], *speeds, *_cells(pairs.uses[a]), *_cells(pairs.uses[b])]
                )
    except OSError as error:
        raise ValueError(f"{path}: cannot be written: {error.strerror or error}") from None


def _lines(path: Path) -> list[dict[str, str]]:
    accepted = (*PAIR, *USES, *(f"partner_{name}" for name in USES))
    try:
        with gzip.open(path, "rt", newline="") if path.suffix == ".gz" else path.open(newline="") as file:
            reader = csv.DictReader(file)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            lines = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
        told = getattr(error, "strerror", None) or error
        raise ValueError(f"{path}: cannot be read as CSV: {told}") from None
    for name in PAIR:
        if name not in names:
            raise ValueError(f"{path}: column {name!r} is missing; {', '.join(PAIR)} are needed")
    if unknown := [name for name in names if name not in accepted]:
        raise ValueError(f"{path}: column {unknown[0]!r} is unknown; accepted: {', '.join(accepted)}")
    for number, line in enumerate(lines, start=2):
        if None in line or None in line.values():
            raise ValueError(f"{path}: line {number} has not as many values as there are columns")
    return lines


def _number(where: str, name: str, text: str) -> float | None:
    text = text.strip()
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{where}: {name}: {text!r} is no number") from None


def _speed(where: str, line: Mapping[str, str], name: str) -> float:
    value = _number(where, name, line[name])
    if value is None:
        raise ValueError(f"{where}: {name} is missing")
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{where}: {name}: {value:g} is not accepted, must be above 0")
    return value


def _use(where: str, line: Mapping[str, str], side: str) -> Floats:
    gpu, memory, gib, mixed = (_number(where, side + name, line.get(side + name, "")) for name in USES)
    if mixed not in (None, 0.0, 1.0):
        raise ValueError(f"{where}: {side}mixed_precision: {mixed:g} is not accepted, must be 0 or 1")
    parts = (None if gpu is None else gpu / 100, None if memory is None else memory / 100)
    try:
        return row_of(usage_of(*parts, gib), None if mixed is None else bool(mixed))
    except ValueError as error:
        raise ValueError(f"{where}: {side}{error}") from None


def _joined(where: str, name: str, known: Floats, said: Floats) -> Floats:
    """Return what two lines say of one job."""
    both = ~np.isnan(known) & ~np.isnan(said)
    if not np.allclose(known[both], said[both], rtol=1e-9, atol=1e-9):
        at = FEATURES[int(np.flatnonzero(both & (known != said))[0])].name
        raise ValueError(f"{where}: {at} of {name} differs from that of an earlier line")
    return np.where(np.isnan(known), said, known)


def _cells(use: Floats) -> Sequence[str]:
    scaled = use * np.array([100.0, 100.0, 1.0, 1.0])
    return ["" if np.isnan(value) else f"{value:.12g}" for value in scaled]
