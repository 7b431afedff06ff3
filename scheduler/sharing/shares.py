"""From teams, their past use and the leases of jobs to what a round goes by; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from ...core.teams import Teams
from ...policies.contract.sharing import Sharing, TeamTerms

MOST = 2.0  # by which the past of a team changes what its progress is worth, as a step of priority does
_SOON = 0.1  # part of its share by which a team counts as served that has used nothing


@dataclass(frozen=True)
class TeamJob:
    """A job of a round: its team ("": none), and what its progress is worth by its priority and weight."""

    id: str
    team: str
    worth: float = 1.0


def share_factors(
    shares: Mapping[str, float], used: Mapping[str, float], asking: Collection[str]
) -> dict[str, float]:
    """Return by team that asks what its past makes its progress worth: 1 for one that had its share.

    A team that used less than its share of what the asking teams used counts up to 2, one that used more down to
    1/2. The square root keeps the way between these gentle.

    Args:
        shares: weights of teams, above 0.
        used: decayed value units by team.
        asking: teams that have jobs in the round.
    """
    teams = sorted(team for team in asking if team in shares)
    weight, total = sum(shares[team] for team in teams), sum(used.get(team, 0.0) for team in teams)
    found = {}
    for team in teams:
        due = shares[team] / weight
        had = used.get(team, 0.0) / total if total > 0 else due
        found[team] = min(max(((1 + _SOON) * due / (had + _SOON * due)) ** 0.5, 1 / MOST), MOST)
    return found


def sharing_of(
    teams: Teams, jobs: Iterable[TeamJob], used: Mapping[str, float], leased_until_s: Mapping[str, float]
) -> Sharing:
    """Return what a round goes by. A job of a team that the file does not know has none.

    Args:
        used: decayed value units by team.
        leased_until_s: job id -> end of its lease.
    """
    known = [job for job in jobs if job.team in teams.teams]
    shares = {name: team.share for name, team in teams.teams.items()}
    factors = share_factors(shares, used, {job.team for job in known})
    return Sharing(
        terms={
            name: TeamTerms(team.guarantee, team.cap, {t: tuple(own) for t, own in team.cells.items()})
            for name, team in teams.teams.items()
        },
        team={job.id: job.team for job in known},
        factor={job.id: job.worth * factors[job.team] for job in known},
        leased_until_s=leased_until_s,
    )
