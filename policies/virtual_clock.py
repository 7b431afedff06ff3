"""Perfect foresight of every job: each starts at the latest when it would on its team's guarantee alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from .contract.foresight import ForeseenJob
from .contract.round import Round
from .contract.traits import PolicyTraits
from .lending.book import Start
from .lending.dedicated import serve_dedicated
from .lending.policy import Decision, LendingPolicy
from .lending.round_books import RoundBooks
from .lending.virtual_clock import Known, alone, starts
from .registry import register


class VirtualClockOptions(BaseModel):
    """What an operator may set.

    start_times: by which a job starts at the latest. reference: with nothing ever lent. state: found anew from
        what runs, as the paper prints it, which breaks its theorem.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    start_times: Literal["reference", "state"] = "reference"


@register("virtual_clock")
class VirtualClockPolicy(LendingPolicy):
    """Starts whoever leaves all jobs that are due before it their place (section 5.1). For simulations."""

    Options = VirtualClockOptions
    traits = PolicyTraits(
        fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True, foresees_all=True
    )
    waits = "It waits for its turn by the rule of the policy."

    def __init__(self, options: VirtualClockOptions | None = None) -> None:
        self.options = options or VirtualClockOptions()
        self._due_s: dict[str, float] = {}  # of the reference, by job

    def decide(self, books: RoundBooks, round: Round) -> Decision:
        foreseen = None if round.foresight is None else round.foresight.jobs()
        if foreseen is None:  # nobody knows the future, so nothing is lent
            return Decision([start for book in books.books.values() for start in serve_dedicated(book)])
        found = Decision()
        for gpu_type, book in books.books.items():
            quotas = {pool.name: pool.quota for pool in book.pools}
            own = {one.id: (at, one) for at, one in enumerate(foreseen)}
            waiting = {int(job.at) for pool in book.pools for job in pool.waiting}
            ids = round.columns.ids.tolist()
            open_ = [own[ids[at]] for at in sorted(waiting)] + [
                pair for pair in own.values() if pair[1].submitted_s > round.now
            ]
            left_s = np.nan_to_num(round.columns.remaining_s, nan=math.inf)
            running = {
                pool.name: [
                    (round.now + float(left_s[job.at]), job.gpus) for job in (*pool.dedicated, *pool.borrowing)
                ]
                for pool in book.pools
            }
            due_s = self._due(foreseen, quotas, open_, running, round.now)
            known = [Known(at, one.submitted_s, one.duration_s, one.gpus) for at, one in open_]
            ends = [end for of_team in running.values() for end in of_team]
            total = round.cluster.capacity()[gpu_type]
            at_of = {own[ids[at]][0]: at for at in waiting}
            for id in starts(known, due_s, ends, total, round.now):
                pool = next(one for one in book.pools if any(job.at == at_of[id] for job in one.waiting))
                job = next(job for job in pool.waiting if job.at == at_of[id])
                found.starts.append(Start(job.at, book.start(pool, job, borrows=job.gpus > pool.unused).borrows))
        return found

    def _due(
        self,
        foreseen: tuple[ForeseenJob, ...],
        quotas: Mapping[str, int],
        open_: list[tuple[int, ForeseenJob]],
        running: Mapping[str, list[tuple[float, int]]],
        now: float,
    ) -> dict[int, float]:
        """Return by when each open job starts at the latest, by its place among all jobs."""
        literal = self.options.start_times == "state"
        if not literal and not self._due_s:
            for team, quota in quotas.items():
                of_team = [(at, one) for at, one in enumerate(foreseen) if one.team == team]
                found = alone([Known(at, one.submitted_s, one.duration_s, one.gpus) for at, one in of_team], quota)
                self._due_s |= {one.id: found[at] for at, one in of_team}
        if not literal:
            return {at: self._due_s.get(one.id, math.inf) for at, one in open_}
        due_s: dict[int, float] = {}
        for team, quota in quotas.items():
            known = [Known(at, one.submitted_s, one.duration_s, one.gpus) for at, one in open_ if one.team == team]
            due_s |= alone(known, quota, now, running[team])
        return due_s
