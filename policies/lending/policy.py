"""What all policies share that serve teams on interchangeable GPUs: from books to a plan, and its explanation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from ...core.decisions import Refused, Waiting, WaitReason
from ...core.lent import lenders
from ...core.placement import Placement
from ...core.wording import n_gpus
from ..choosing.decided import QueueReasons, decisions_of
from ..contract.explanation import Explanation, expectation, explained, job_of
from ..contract.round import Plan, Round
from ..contract.sharing import stand
from ..contract.traits import PolicyTraits
from .book import Start
from .round_books import NO_TEAM, Homes, RoundBooks, quotas_of, team_of

DEDICATED, BORROWED = 1.0, 2.0
Locality = Literal["any", "cells"]  # whether GPUs of a job may be on any nodes, or quotas are cells of nodes


@dataclass(frozen=True)
class Decision:
    """Who starts, and which borrowers give back. no_cell: whose team has quota, and no node has its cell free."""

    starts: list[Start] = field(default_factory=list)
    stops: list[int] = field(default_factory=list)
    no_cell: list[int] = field(default_factory=list)


class LendingPolicy(ABC):
    """Decides in books of teams, one per GPU type. `again_s`: how soon it looks again while GPUs are idle."""

    traits: PolicyTraits
    stops = False  # whether borrowers may be stopped
    in_cells = False  # whether quotas are cells of nodes
    tick_s: float | None = None
    waits = "It waits for its turn on the guarantee of its team, in order of submission."

    @cached_property
    def _homes(self) -> Homes:
        return Homes()

    @abstractmethod
    def decide(self, books: RoundBooks, round: Round) -> Decision:
        """Fill in the books, and return what changes."""

    def plan(self, round: Round) -> Plan:
        found = RoundBooks(round, self.stops, self._homes, self.in_cells)
        decision = self.decide(found, round)
        again = {start.at for start in decision.starts} & set(decision.stops)  # given back, and lent to anew
        stops = [at for at in decision.stops if at not in again]
        starts = [start for start in decision.starts if start.at not in again]
        placements, in_vain = found.placed(stops, starts)
        return self._plan(round, found, placements, in_vain, frozenset(decision.no_cell))

    def _plan(
        self,
        round: Round,
        found: RoundBooks,
        placements: Mapping[str, Placement],
        in_vain: Iterable[int],
        no_cell: frozenset[int],
    ) -> Plan:
        columns = round.columns
        ids, count = columns.ids.tolist(), len(columns.ids)
        use = np.zeros(count)
        for book in found.books.values():
            for pool in book.pools:
                use[[job.at for job in pool.dedicated]] = DEDICATED
                use[[job.at for job in pool.borrowing]] = BORROWED
        use[list(in_vain)] = 0.0
        missed = np.zeros(count)
        missed[list(no_cell)] = 1.0
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
            if i in no_cell:
                text = f"Its team has a cell for {n_gpus(gpus)} left, and no node has one free now."
                return Waiting(WaitReason.FRAGMENTED, text)
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
            figures={"use": use, "no_cell": missed},
            again_s=round.now + self.tick_s if again and self.tick_s else None,
            borrowed=frozenset(ids[i] for i in np.flatnonzero(use == BORROWED).tolist()),
            teams={} if sharing is None else stand(sharing, placements, round.cluster.gpu_types),
        )

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by whose GPUs it is on, until when, and why that is safe."""
        i = job_of(job, round)
        use, team = float(plan.figures["use"][i]), team_of(round, job)
        length, facts = expectation(round.jobs[i], self.without_length())
        said = self.waits
        if use == DEDICATED:
            said = f"It runs on the guarantee of its team{f' {team}' if team else ''}."
        elif use == BORROWED:
            owners = lenders_of(round, plan).get(job, {})
            facts = {"lenders": owners, **facts}
            said = f"It borrows {_whose(owners, plan.placements[job].gpu_type)}. {self.why_safe(round, i)}"
        return explained(job, round, plan, [said, length], {"borrows": use == BORROWED, **facts})

    def without_length(self) -> str:
        """Return what follows for a job of unknown length, as the second half of a sentence."""
        return "it is taken to need longest"

    def why_safe(self, round: Round, i: int) -> str:
        """Say in a sentence what becomes of the owner of GPUs that the job at a position borrows."""
        return "Their owner waits until it has ended."


def lenders_of(round: Round, plan: Plan) -> dict[str, dict[str, int]]:
    """Return how many idle GPUs of which team each borrower of a plan has, by its id."""
    found: dict[str, dict[str, int]] = {}
    use, ids = plan.figures["use"], round.columns.ids.tolist()
    for gpu_type, quotas in quotas_of(round).items():
        unused, borrowers = dict(quotas), list[tuple[str, str, int]]()
        for i in np.flatnonzero(use > 0).tolist():
            placement, team = plan.placements[ids[i]], team_of(round, ids[i])
            if placement.gpu_type != gpu_type:
                continue
            if use[i] == BORROWED:
                borrowers.append((ids[i], team, placement.gpus))
            else:
                unused[team] = max(unused.get(team, 0) - placement.gpus, 0)
        found |= lenders(unused, borrowers)
    return found


def _whose(owners: Mapping[str, int], gpu_type: str) -> str:
    """Return which teams leave the GPUs idle that a borrower has."""
    parts = [f"{gpus} {gpu_type} of team {owner}" for owner, gpus in sorted(owners.items()) if owner != NO_TEAM]
    if owners.get(NO_TEAM):
        parts.append(f"{owners[NO_TEAM]} {gpu_type} that no team was promised")
    return f"idle GPUs: {', '.join(parts)}" if parts else "GPUs that were idle when it started"
