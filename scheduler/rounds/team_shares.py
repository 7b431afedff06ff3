"""What live rounds go by of teams: what they used of late, and which leases of jobs run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from ...core.teams import Teams, price_of
from ...policies.contract.sharing import Sharing
from ..jobs.held_time import TRAINING
from ..jobs.record import JobRecord
from ..sharing.leases import JobLeases
from ..sharing.shares import TeamJob, sharing_of
from ..sharing.used import DecayedUse, units_per_hour
from ..store import used
from ..store.store import Store

LEAST = 1e-3  # the factor of jobs that have only what nobody else wants
HALF_LIVES = 6  # so far back use counts when the service starts


class TeamShares:
    """Keeps the use of teams and the leases of jobs from round to round. Both come back from the store.

    Profile runs are of no team.

    Args:
        duals: returns the mean price of a GPU of each type, where the operator has set none.
    """

    def __init__(self, store: Store, duals: Callable[[], Mapping[str, float]]) -> None:
        self._store, self._duals = store, duals
        self._use: DecayedUse | None = None
        self._leases = JobLeases(0.0)
        self._rates: dict[str, float] = {}

    def now(
        self, teams: Teams | None, jobs: Iterable[JobRecord], least: Collection[str], now: float
    ) -> Sharing | None:
        """Return what a round of these jobs goes by; None: there are no teams, and no job counts more or less.

        Args:
            least: jobs that have only what nobody else wants.
        """
        if teams is None or not teams.teams:
            self._use = None
            return _without_teams(jobs, least)
        jobs, duals = list(jobs), self._duals()
        if self._use is None or self._use.half_life_s != 3600.0 * teams.half_life_h:
            self._use, self._rates = self._since_before(teams, duals, now), {}
        self._use.add(self._rates, now)
        held = {job.id: job.placement for job in jobs if job.placement is not None}
        begun_s = {id: begun[0] for id in held if (begun := self._store.held_time(id).open.get(TRAINING))}
        self._leases.lease_s = teams.lease_s
        self._leases.note(held, now, begun_s)
        of = [TeamJob(job.id, teams.counted_for(job.spec.team) or "", job.spec.worth) for job in jobs]
        rates: defaultdict[str, float] = defaultdict(float)
        for job, record in zip(of, jobs, strict=True):
            if job.id in held:
                rates[job.team] += units_per_hour(held[job.id], record.spec.pool, teams.prices, duals)
        self._rates = dict(rates)
        found = sharing_of(teams, of, self._use.units, self._leases.until_s())
        # A job of no team counts by its priority, too.
        factor = _factors(jobs, least) | {id: one * _least(id, least) for id, one in found.factor.items()}
        return replace(found, factor=factor)

    def _since_before(self, teams: Teams, duals: Mapping[str, float], now: float) -> DecayedUse:
        """Return the use of the last half-lives as the store has it, each counted as at its middle."""
        use, before = DecayedUse(3600.0 * teams.half_life_h), dict[str, float]()
        units: defaultdict[str, float] = defaultdict(float)
        with self._store.database.reading() as connection:
            for back in range(HALF_LIVES):
                total: defaultdict[str, float] = defaultdict(float)
                for one in used.read(connection, now - (back + 1) * use.half_life_s, now):
                    price = price_of(teams.prices, duals, one.gpu_type)
                    total[teams.counted_for(one.team or None) or ""] += one.gpu_s / 3600 * price
                for team, some in total.items():
                    units[team] += (some - before.get(team, 0.0)) * 0.5 ** (back + 0.5)
                before = dict(total)
        use.begin(units, now)
        return use


def _least(job: str, least: Collection[str]) -> float:
    return LEAST if job in least else 1.0


def _factors(jobs: Iterable[JobRecord], least: Collection[str]) -> dict[str, float]:
    """Return what progress is worth by priority and weight alone, of the jobs for which it is not 1."""
    found = {job.id: job.spec.worth * _least(job.id, least) for job in jobs}
    return {id: factor for id, factor in found.items() if factor != 1.0}


def _without_teams(jobs: Iterable[JobRecord], least: Collection[str]) -> Sharing | None:
    """Return what rounds go by where there are no teams; None: no job counts more or less than others."""
    factor = _factors(jobs, least)
    return Sharing({}, {}, factor) if factor else None
