"""The users of a cluster: who uses it, who waits, and whose jobs complete."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..traces.final_state import FinalState
from ..traces.tables import Floats
from ..traces.workload import Ints
from .jobs import STATES, StudiedJobs


@dataclass(frozen=True, eq=False)
class Users:
    """One value per user, those with most GPU time (or jobs, where no length is known) first; nan: not known."""

    names: tuple[str, ...]
    jobs: Ints
    gpu_s: Floats
    wait_s: Floats  # of all jobs of a user together
    completed: Floats  # share of jobs whose end is known
    timed: bool  # some length is known
    waits: bool  # all waits are known
    unnamed: int  # jobs without a user

    def top_share(self, values: Floats, part: float) -> float:
        """Return what the part of the users with most has of all; at least one user counts. nan: there is none."""
        total = float(values.sum())
        most = np.sort(values)[::-1][: max(int(np.ceil(part * len(values))), 1)]
        return float(most.sum()) / total if total > 0 else float("nan")


def users(jobs: StudiedJobs) -> Users | None:
    """Return the users of a trace; None: it names none."""
    by = jobs.users
    if not len(by):
        return None
    count, gpu_s = by.jobs(), by.sums(jobs.gpu_s)
    completed = np.where(jobs.states >= 0, jobs.states == STATES.index(FinalState.COMPLETED), np.nan)
    order = np.lexsort((-count, -gpu_s))
    return Users(
        names=tuple(by.names[at] for at in order),
        jobs=count[order],
        gpu_s=gpu_s[order],
        wait_s=by.sums(jobs.wait_s)[order],
        completed=by.means(completed)[order],
        timed=jobs.lengths_known > 0,
        waits=jobs.waits_known,
        unnamed=int((by.of < 0).sum()),
    )
