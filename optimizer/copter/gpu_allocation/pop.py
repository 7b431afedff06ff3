"""POP: splits jobs and GPUs over parts that are solved apart (Narayanan et al., SOSP 2021)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...allocation import ChoiceProgram, ChoiceSolution
from ...allocation.listing import Entries
from ...highs import Highs, Method
from ..baselines.pop import solve_parts
from .program import dense, flat, linear_program, objective, picked, plain, satisfiable, unmet

_PARTS = 16  # as in COpter's table 4.1


@dataclass(frozen=True)
class _Part:
    """Some jobs, with a k-th of every capacity."""

    rows: np.ndarray
    entries: Entries
    capacity: np.ndarray


@dataclass(frozen=True)
class _Partition:
    """POP of one round: jobs are split evenly and at random, and capacities evenly, with the remainder one by one.

    A job takes one configuration, so no job is split over parts. A configuration larger than a part is no option
    there. Jobs stay in their part, as in COpter's public code, since new neighbours alone would move them.
    """

    entries: Entries
    held: np.ndarray  # (jobs,) the part that each job was in, -1 for a new one
    usage: np.ndarray
    capacity: np.ndarray
    required: np.ndarray
    gap: float
    time_limit_s: float
    structured: bool

    def split(self, k: int, rng: np.random.Generator) -> list[_Part]:
        each = np.floor(self.capacity / k)
        capacities = [each + np.clip(self.capacity - each * k - p, 0.0, 1.0) for p in range(k)]
        fits = [(self.usage[:, self.entries.column] <= capacity[:, None]).all(axis=0) for capacity in capacities]
        part_of = self._parts(np.array(fits), rng)
        parts = []
        for p, capacity in enumerate(capacities):
            rows = np.flatnonzero(part_of == p)
            own = (part_of[self.entries.row] == p) & fits[p]
            row = np.searchsorted(rows, self.entries.row[own])
            parts.append(_Part(rows, Entries(row, self.entries.column[own], self.entries.gain[own]), capacity))
        return parts

    def _parts(self, fits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return (jobs,) the part of each. `fits`: (parts, options) whether an option is small enough for a part.

        A job leaves a part in which it has no option, if it has one elsewhere. New jobs go to the smallest part.
        """
        has_option = np.array([np.bincount(self.entries.row[fit], minlength=len(self.held)) > 0 for fit in fits])
        part_of = np.where(self.held < len(fits), self.held, -1)
        there = has_option[part_of, np.arange(len(part_of))]
        part_of[~there & has_option.any(axis=0)] = -1
        sizes = np.bincount(part_of[part_of >= 0], minlength=len(fits)).astype(float)
        for job in rng.permutation(np.flatnonzero(part_of < 0)):
            allowed = has_option[:, job] if has_option[:, job].any() else np.ones(len(fits), bool)
            part_of[job] = np.argmin(np.where(allowed, sizes, np.inf))
            sizes[part_of[job]] += 1
        return part_of

    def solve(self, part: _Part) -> np.ndarray:
        required = satisfiable(part.entries, self.required[part.rows], self.usage, part.capacity)
        if self.structured:
            program, ids = ChoiceProgram.of(dense(part.entries, self.usage, part.capacity, required))
            return program.solve(ids, self.gap, self.time_limit_s).choice
        linear = linear_program(part.entries, len(part.rows), self.usage, part.capacity, required, integer=True)
        found = Highs(Method.EXACT, time_limit_s=self.time_limit_s, gap=max(self.gap, 1e-9)).solve(linear)
        return picked(part.entries, found.x, len(part.rows))

    def merge(self, parts: Sequence[_Part], answers: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return what every job picks, and the part that it was in."""
        choice, part_of = np.full(len(self.held), -1, np.int64), self.held.copy()
        for p, (part, answer) in enumerate(zip(parts, answers, strict=True)):
            choice[part.rows], part_of[part.rows] = answer, p
        return choice, part_of


@dataclass
class Pop:
    """Solves a round by POP-k, with each part's integer program by HiGHS.

    Parts run on Ray, or in turn with the time estimated for `cores`. With `structured` each part is solved as
    `Structured` solves the whole, which shows what splitting alone costs.
    """

    k: int = _PARTS
    structured: bool = False
    use_ray: bool = False
    cores: int = 2
    seed: int = 0
    _part_of: dict[str, int] = field(default_factory=dict)

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        start_s = time.perf_counter()
        entries, usage = flat(program, order)
        held = np.array([self._part_of.get(id, -1) for id in order], np.int64)
        partition = _Partition(
            entries,
            held,
            usage,
            program.capacity,
            program.required(order),
            gap,
            time_limit_s,
            self.structured,
        )
        read_s = time.perf_counter() - start_s
        found = solve_parts(partition, self.k, seed=self.seed, cores=self.cores, use_ray=self.use_ray)
        self.seed += 1
        choice, part_of = found.whole
        self._part_of = dict(zip(order, part_of.tolist(), strict=True))
        seconds = read_s + found.seconds
        value = objective(choice, entries)
        none = np.zeros(len(program.capacity))
        return ChoiceSolution(
            plain(choice, program),
            value,
            np.inf,
            np.inf,
            none,
            False,
            unmet(partition.required, choice),
            seconds,
            seconds,
            len(entries.row),
        )
