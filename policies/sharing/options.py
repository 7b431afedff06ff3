"""The options of a round as flat arrays, with what each takes of the cluster and of its team's terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...optimizer.allocation import ChoiceProgram
from ...optimizer.allocation.options import Flags, Floats, Ints

NOTHING = -1
EQUAL = 1e-9  # gains and GPUs this near are equal


@dataclass(frozen=True, eq=False)
class TeamOptions:
    """The options of all rows, sorted by row. A plan is (rows,) the place of the option that each row has, or -1.

    A team and a GPU type make a *place*: team * types + type. The last place, `places`, is that of no team.

    row, column, gain, gpus: (options,).
    place: (options,) of the option's GPU type and the row's team.
    usage: (options, limits) what each takes of the cluster. capacity: (limits,).
    begin: (rows + 1,) where the options of each row lie.
    required: (rows,) whether a row must have something. kind: (rows,) what the program says of it.
    """

    row: Ints
    column: Ints
    gain: Floats
    gpus: Floats
    place: Ints
    usage: Floats
    capacity: Floats
    begin: Ints
    required: Flags
    kind: Ints
    places: int

    @classmethod
    def of(
        cls, program: ChoiceProgram, order: Sequence[str], team: Ints, teams: int, gpu_type: Ints, gpus: Floats
    ) -> TeamOptions:
        """Return the options of a program's rows.

        Args:
            team: (rows,) the team of each row; -1: none.
            teams: how many there are.
            gpu_type, gpus: (columns,).
        """
        entries, usage = program.entries(order), program.usage
        row, column, types = entries.row, entries.column, int(gpu_type.max(initial=-1)) + 1
        taken = usage[:, column].T if usage.ndim == 2 else usage[program.kinds(order)[row], :, column]
        of_team = team[row]
        return cls(
            row=row,
            column=column,
            gain=entries.gain,
            gpus=gpus[column].astype(float),
            place=np.where(of_team < 0, teams * types, of_team * types + gpu_type[column]),
            usage=np.ascontiguousarray(taken),
            capacity=program.capacity.copy(),
            begin=np.searchsorted(row, np.arange(len(order) + 1)),
            required=program.required(order),
            kind=program.kinds(order),
            places=teams * types,
        )

    @property
    def rows(self) -> int:
        return len(self.required)

    def only(self, keep: Flags, required: Flags) -> TeamOptions:
        """Return the options of a mask (options,), where other rows are required."""
        row = self.row[keep]
        return replace(
            self,
            row=row,
            column=self.column[keep],
            gain=self.gain[keep],
            gpus=self.gpus[keep],
            place=self.place[keep],
            usage=self.usage[keep],
            begin=np.searchsorted(row, np.arange(self.rows + 1)),
            required=required,
        )

    def plan_of(self, choice: Ints) -> Ints:
        """Return the plan that has these columns (rows,), -1 for none; what is no option counts as none."""
        plan = np.full(self.rows, NOTHING)
        same = np.flatnonzero(self.column == choice[self.row])
        plan[self.row[same]] = same
        return plan

    def choice(self, plan: Ints) -> Ints:
        """Return (rows,) the columns of a plan, -1 for none."""
        return np.where(plan >= 0, self.column[plan] if len(self.row) else NOTHING, NOTHING)

    def value(self, plan: Ints) -> float:
        return float(self.gain[plan[plan >= 0]].sum())

    def used(self, plan: Ints) -> Floats:
        """Return (limits,) what a plan takes of the cluster."""
        return np.asarray(self.usage[plan[plan >= 0]].sum(axis=0))

    def of_places(self, plan: Ints) -> Floats:
        """Return (places,) the GPUs that a plan gives."""
        has = plan[plan >= 0]
        return np.bincount(self.place[has], self.gpus[has], self.places + 1)[: self.places].astype(float)

    def options_of(self, rows: Ints) -> Ints:
        """Return the places of the options of some rows, row after row."""
        counts = self.begin[rows + 1] - self.begin[rows]
        if not len(rows):
            return np.zeros(0, np.int64)
        starts = np.repeat(self.begin[rows] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        return np.asarray(starts + np.arange(int(counts.sum())))


@dataclass(frozen=True, eq=False)
class Terms:
    """What teams may not exceed and what they must have in one program, by place.

    cap: (places,) infinity for none.
    floor: (places,) GPUs that must be covered; 0 for none.
    elsewhere, covers: (options,) a place that an option of another GPU type covers too, and by how many GPUs.
        The last place and 0 stand for none.
    """

    cap: Floats
    floor: Floats
    elsewhere: Ints
    covers: Floats

    @classmethod
    def caps(cls, options: TeamOptions, cap: Floats) -> Terms:
        """Return the terms of caps alone."""
        none = np.full(len(options.row), options.places)
        return cls(cap, np.zeros(options.places), none, np.zeros(len(options.row)))

    def covered(self, options: TeamOptions, plan: Ints) -> Floats:
        """Return (places,) the GPUs by which a plan covers each."""
        has = plan[plan >= 0]
        more = np.bincount(self.elsewhere[has], self.covers[has], options.places + 1)[: options.places]
        return np.asarray(options.of_places(plan) + more)

    def short(self, options: TeamOptions, plan: Ints) -> Floats:
        """Return (places,) the GPUs that a plan lacks of each floor."""
        return np.maximum(self.floor - self.covered(options, plan), 0.0)

    def over(self, options: TeamOptions, plan: Ints) -> Floats:
        """Return (places,) the GPUs by which a plan exceeds each cap."""
        return np.maximum(options.of_places(plan) - self.cap, 0.0)
