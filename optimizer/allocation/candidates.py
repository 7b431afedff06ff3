"""The options of a program as flat arrays, and plans of them, for the exact solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..linear_program import LinearProgram
from .options import Flags, Floats, Ints
from .problem import TOLERANCE


@dataclass(frozen=True, eq=False)
class Candidates:
    """The options of all rows, sorted by row, and what a plan of them must meet.

    A plan is (rows,) the place of the option that each row picks, -1 for none.

    row, column, gain: (options,).
    usage: (limits, options).
    required: (rows,) whether a row must pick something.
    capacity: (limits,).
    """

    row: Ints
    column: Ints
    gain: Floats
    usage: Floats
    required: Flags
    capacity: Floats

    def __len__(self) -> int:
        return len(self.row)

    def only(self, keep: np.ndarray) -> Candidates:
        """Return some of the options. `keep` is a mask or places."""
        kept = self.row[keep], self.column[keep], self.gain[keep], self.usage[:, keep]
        return Candidates(*kept, self.required, self.capacity)

    def value(self, plan: Ints) -> float:
        return float(self.gain[plan[plan >= 0]].sum())

    def used(self, plan: Ints) -> Floats:
        """Return (limits,) what a plan takes."""
        return np.asarray(self.usage[:, plan[plan >= 0]].sum(axis=1))

    def fits(self, plan: Ints, slack: float = TOLERANCE) -> bool:
        return bool((self.used(plan) <= self.capacity + slack).all())

    def choice(self, plan: Ints) -> Ints:
        """Return (rows,) the columns of a plan, -1 for none."""
        return np.where(plan >= 0, self.column[plan] if len(self) else -1, -1)

    def plan_of(self, choice: Ints) -> Ints:
        """Return the plan that picks these columns (rows,). A column that is no option counts as none."""
        plan = np.full(len(self.required), -1, np.int64)
        same = np.flatnonzero(self.column == choice[self.row])
        plan[self.row[same]] = same
        return plan

    def dual(self, prices: Floats) -> tuple[Floats, Floats, float]:
        """Return (options,) reduced costs, (rows,) the loss by picking nothing, and the Lagrangian bound."""
        net = self.gain - prices @ self.usage
        worth = np.where(self.required, -np.inf, 0.0)
        np.maximum.at(worth, self.row, net)
        worth[np.isinf(worth)] = 0.0  # required rows without an option
        idle = np.where(self.required, np.inf, worth)
        return worth[self.row] - net, idle, float(worth.sum() + prices @ self.capacity)

    def filled(self, plan: Ints) -> Ints:
        """Return a plan that is improved by changes of single rows, until no change both fits and gains.

        Changes are made in descending order of gain per share of the capacities that they need.
        """
        plan = plan.copy()
        if not len(self):
            return plan
        scale = 1.0 / np.maximum(self.capacity, 1.0)
        slack = self.capacity - self.used(plan)
        while True:
            now = plan[self.row]
            has = now >= 0
            gain = self.gain - np.where(has, self.gain[now], 0.0)
            more = self.usage - np.where(has, self.usage[:, now], 0.0)
            option = np.flatnonzero((gain > TOLERANCE) & (more <= slack[:, None] + TOLERANCE).all(axis=0))
            if not len(option):
                return plan
            rate = gain[option] / (np.maximum(scale @ more[:, option], 0.0) + TOLERANCE)
            order = option[np.argsort(-rate, kind="stable")]
            # One sweep makes the first, hence best, change of each row, as long as they fit together.
            order = order[np.sort(np.unique(self.row[order], return_index=True)[1])]
            for k in order:
                if (more[:, k] <= slack + TOLERANCE).all():
                    slack -= more[:, k]
                    plan[self.row[k]] = k

    def linear_program(self, *, integer: bool) -> tuple[LinearProgram, Ints]:
        """Return the program that maximises the gain, by minimising its negative, and the rows with options.

        The linear program has a column per option. Its rows are the returned rows, then the limits.
        """
        n, limits = len(self), len(self.capacity)
        rows, first = np.unique(self.row, return_index=True)
        limit, option = np.nonzero(self.usage)
        ends = np.cumsum(np.bincount(limit, minlength=limits))
        starts = np.concatenate([first, n + np.concatenate([[0], ends])])
        index, values = np.concatenate([np.arange(n), option]), np.append(np.ones(n), self.usage[limit, option])
        matrix = sparse.csr_array((values, index, starts), shape=(len(rows) + limits, n))
        # Optional rows have no lower side, as that would take a dual of its own.
        lower = np.concatenate([np.where(self.required[rows], 1.0, -np.inf), np.full(limits, -np.inf)])
        upper = np.concatenate([np.ones(len(rows)), self.capacity])
        # In the relaxation only the row limits an option. A bound of 1 beside it would share the row's dual.
        most = np.full(n, 1.0 if integer else np.inf)
        whole = np.ones(n, bool) if integer else None
        return LinearProgram(-self.gain, matrix, lower, upper, np.zeros(n), most, whole), rows
