"""Teams lend idle GPUs to jobs that end before the owners can need them ("Anticipatory Resource Allocation")."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..core.decisions import Refused, Waiting, WaitReason
from ..core.placement import Placement
from ..core.wording import n_gpus, span
from .choosing.decided import QueueReasons, decisions_of
from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import Plan, Round
from .contract.sharing import stand
from .contract.traits import PolicyTraits
from .lending.book import Book, Start
from .lending.dedicated import serve_dedicated
from .lending.lending import Windows, lend_beside_needs, lend_in_bulk
from .lending.reclaiming import lend_what_is_left, serve_and_reclaim
from .lending.round_books import RoundBooks, team_of
from .registry import register

DEDICATED, BORROWED = 1.0, 2.0


class AnticipatoryOptions(BaseModel):
    """What an operator may set.

    windows_s: horizons, ascending. A job borrows if it ends within one of them. []: nobody borrows.
    reservations: what is kept back for owners. bulk: as published; blocking: what their queues could start.
    slack: so much more is kept back, as a part of it.
    stops_borrowers: whether preemptible jobs borrow freely and give back, with a checkpoint, when owners need it.
    tick_s: it looks again so soon while GPUs are idle and jobs wait.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    windows_s: tuple[float, ...] = (300.0, 3600.0, 43_200.0)
    reservations: Literal["blocking", "bulk"] = "blocking"
    slack: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    stops_borrowers: bool = True
    tick_s: float = Field(default=300.0, gt=0, allow_inf_nan=False)

    @field_validator("windows_s")
    @classmethod
    def _ascending(cls, windows_s: tuple[float, ...]) -> tuple[float, ...]:
        for before, after in zip((0.0, *windows_s), windows_s, strict=False):
            if not before < after < math.inf:
                raise ValueError(f"{after:g} follows {before:g}; windows above 0 s that rise are accepted")
        return windows_s


@register("anticipatory")
class AnticipatoryPolicy:
    """Serves each team on its own guarantee in strict order, and lends what is idle for as long as it stays so."""

    Options = AnticipatoryOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True)

    def __init__(self, options: AnticipatoryOptions | None = None) -> None:
        self.options = options or AnticipatoryOptions()
        self.traits = replace(self.traits, preempts=self.options.stops_borrowers)
        self._windows = Windows(self.options.windows_s)

    def plan(self, round: Round) -> Plan:
        found = RoundBooks(round, self.options.stops_borrowers)
        starts, stops = list[Start](), list[int]()
        for book in found.books.values():
            if self.options.stops_borrowers:
                served = serve_and_reclaim(book)
                starts += served.starts
                stops += served.stops
            else:
                starts += serve_dedicated(book)
            starts += self._lend(book, round)
        again = {start.at for start in starts} & set(stops)  # stopped as one comes, and lent to as another is left
        stops = [at for at in stops if at not in again]
        starts = [start for start in starts if start.at not in again]
        placements, in_vain = found.placed(stops, starts)
        return self._plan(round, found, placements, in_vain)

    def _lend(self, book: Book, round: Round) -> list[Start]:
        options = self.options
        lend = lend_in_bulk if options.reservations == "bulk" else lend_beside_needs
        foreseen = round.foresight

        def new_load(team: str, horizon_s: float) -> float:
            return math.inf if foreseen is None else foreseen.new_load(team, horizon_s)

        found = lend(book, self._windows, new_load, options.slack)
        return [*found, *lend_what_is_left(book)] if options.stops_borrowers else found

    def _plan(
        self, round: Round, found: RoundBooks, placements: Mapping[str, Placement], in_vain: Iterable[int]
    ) -> Plan:
        columns = round.columns
        ids, count = columns.ids.tolist(), len(columns.ids)
        use = np.zeros(count)
        for book in found.books.values():
            for pool in book.pools:
                use[[job.at for job in pool.dedicated]] = DEDICATED
                use[[job.at for job in pool.borrowing]] = BORROWED
        use[list(in_vain)] = 0.0
        order = np.arange(count)
        several = len(round.cluster.gpu_types) > 1
        reasons = QueueReasons(round, placements, order, np.ones(count, bool), several)
        idle = {t: book.idle for t, book in found.books.items()}

        def why(i: int) -> Waiting | Refused:
            gpus, team = int(columns.gpus[i]), found.team_of(ids[i])
            home = found.home.get(i)
            if home is None and not isinstance(said := reasons.why(i), Refused) and round.sharing is not None:
                if said.reason in (WaitReason.TOO_LARGE, WaitReason.NO_GPU_TYPE):
                    return said
                return Refused(
                    f"Its team {team or '(none)'} is guaranteed fewer than {n_gpus(gpus)} of each type."
                )
            if home is not None and idle[home] >= gpus:
                text = f"{n_gpus(idle[home])} of {home} are idle, and are kept for the guarantees of teams."
                return Waiting(WaitReason.KEPT_FOR_TEAMS, text)
            return reasons.why(i)

        waits = any(pool.waiting for book in found.books.values() for pool in book.pools)
        again = waits and any(idle.values())
        sharing = round.sharing
        return Plan(
            placements,
            decisions=decisions_of(round, placements, why),
            order=order,
            figures={"use": use},
            again_s=round.now + self.options.tick_s if again else None,
            borrowed=frozenset(ids[i] for i in np.flatnonzero(use == BORROWED).tolist()),
            teams={} if sharing is None else stand(sharing, placements, round.cluster.gpu_types),
        )

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by whose GPUs it is on, until when, and why that is safe."""
        i = job_of(job, round)
        use, team = float(plan.figures["use"][i]), team_of(round, job)
        length, facts = expectation(round.jobs[i], "it borrows only if it may be stopped")
        said = "It waits for its turn on the guarantee of its team, in order of submission."
        if use == DEDICATED:
            said = f"It runs on the guarantee of its team{f' {team}' if team else ''}."
        elif use == BORROWED:
            said = "It borrows GPUs that teams leave idle. " + self._why_safe(round, i)
        return explained(job, round, plan, [said, length], {"borrows": use == BORROWED, **facts})

    def _why_safe(self, round: Round, i: int) -> str:
        if self.options.stops_borrowers and round.columns.preemptible[i]:
            return "An owner whose turn comes takes them back at a step, and it goes on later from there."
        expected = round.jobs[i].expected
        if not expected.known:
            return "Nobody knows when it ends."
        return f"It is to end within {span(expected.high_s)}, before an owner can need them."
