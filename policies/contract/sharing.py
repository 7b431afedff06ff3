"""What teams were promised, as the round of one pool sees it, and whose each job is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...core.placement import Placement
from ...core.teams import in_pool


@dataclass(frozen=True)
class TeamTerms:
    """GPUs by GPU type that a team has whenever it asks for them, and that it never exceeds.

    A type without a cap is absent. `a100@lab` names the GPUs of a pool until `Sharing.of_pool` picks them out.
    `cells`: in which cells of nodes the guarantee of a type comes; absent: as large as nodes are.
    """

    guarantee: Mapping[str, int] = field(default_factory=dict)
    cap: Mapping[str, int] = field(default_factory=dict)
    cells: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Sharing:
    """The terms of teams in a round, and what concerns single jobs. A job that is not named has no team.

    terms: by team.
    team: job id -> its team.
    factor: job id -> what its progress is worth beside that of others: priority times time-decayed share.
    leased_until_s: job id -> end of the lease of the job, on the clock of `Round.now`.
    measured_for: id of a profile run -> the team of the job that it measures.
    """

    terms: Mapping[str, TeamTerms]
    team: Mapping[str, str]
    factor: Mapping[str, float] = field(default_factory=dict)
    leased_until_s: Mapping[str, float] = field(default_factory=dict)
    measured_for: Mapping[str, str] = field(default_factory=dict)

    def is_leased(self, job: str, now: float) -> bool:
        """Return whether a reclaim may not take the job's GPUs now."""
        return self.leased_until_s.get(job, -math.inf) > now

    def of_pool(self, pool: str) -> Sharing:
        """Return the same with the terms of one pool's GPU types; "": of the nodes outside pools."""
        own = pool or None
        terms = {
            name: TeamTerms(in_pool(one.guarantee, own), in_pool(one.cap, own), in_pool(one.cells, own))
            for name, one in self.terms.items()
        }
        return replace(self, terms=terms)


@dataclass(frozen=True)
class Standing:
    """What a team has of one GPU type after a round, beside its terms.

    cap: None for none. asked: GPUs of the guarantee that its jobs ask for in this round.
    price: of a GPU on the market, in units of the objective. over: what each costs the team beyond that, at its
        cap. under: what is off for it, below its guarantee. All are 0 for policies without prices.
    """

    used: int
    guarantee: int = 0
    cap: int | None = None
    asked: int = 0
    price: float = 0.0
    over: float = 0.0
    under: float = 0.0

    @property
    def borrowed(self) -> int:
        """GPUs beyond the guarantee."""
        return max(self.used - self.guarantee, 0)

    @property
    def is_at_cap(self) -> bool:
        """Whether one more GPU would exceed the cap."""
        return self.cap is not None and self.used >= self.cap

    def told(self, team: str, gpu_type: str) -> str:
        """Say in a sentence how the team stands."""
        if self.is_at_cap:
            more = ""
            if self.over > 0 and self.price > 0:  # nobody asks for GPUs whose price is 0
                more = f"; each further one costs {1 + self.over / self.price:.2g} x the market price"
            return f"Its team {team} is at its cap of {self.cap} {gpu_type}{more}."
        if self.borrowed:
            borrowed = f"{self.borrowed} {'is' if self.borrowed == 1 else 'are'} borrowed"
            return f"Its team {team} has {self.used} {gpu_type}, of which {borrowed}."
        if not self.guarantee:
            return f"Its team {team} has no {gpu_type}, and none are guaranteed to it."
        return f"Its team {team} has {self.used} {gpu_type} of its guarantee of {self.guarantee}."


def standings(
    sharing: Sharing, used: Mapping[tuple[str, str], int], gpu_types: tuple[str, ...]
) -> dict[str, dict[str, Standing]]:
    """Return how teams stand by team and GPU type, from the GPUs that they use by (team, type)."""
    return {
        team: {
            t: Standing(used.get((team, t), 0), terms.guarantee.get(t, 0), terms.cap.get(t))
            for t in gpu_types
            if used.get((team, t)) or terms.guarantee.get(t) or t in terms.cap
        }
        for team, terms in sharing.terms.items()
    }


def used_by_teams(sharing: Sharing, placements: Mapping[str, Placement]) -> dict[tuple[str, str], int]:
    """Return the GPUs that teams hold, by (team, GPU type)."""
    used: dict[tuple[str, str], int] = {}
    for job, placement in placements.items():
        if (team := sharing.team.get(job)) is not None:
            used[team, placement.gpu_type] = used.get((team, placement.gpu_type), 0) + placement.gpus
    return used


def stand(
    sharing: Sharing, placements: Mapping[str, Placement], gpu_types: tuple[str, ...]
) -> dict[str, dict[str, Standing]]:
    """Return how teams stand with these placements, by team and GPU type."""
    return standings(sharing, used_by_teams(sharing, placements), gpu_types)
