"""Teams in a world that begins from the live state. What teams used before it counts as nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...core.teams import Teams
from ...forecasts.state import LiveJob
from ...policies.contract.sharing import Sharing
from ...scheduler.sharing.shares import TeamJob, sharing_of
from ..engine.shares import SimulatedShares


class LiveShares(SimulatedShares):
    """The terms of teams for live jobs and those to come, of all pools; each with what its progress is worth."""

    def __init__(self, teams: Teams, jobs: Iterable[LiveJob]) -> None:
        known = list(jobs)
        self._pools = {job.id: job.spec.pool or "" for job in known}
        self._worth = {job.id: job.spec.worth for job in known}
        super().__init__(teams, {job.id: teams.counted_for(job.spec.team) or "" for job in known})

    def _pool_of(self, job: str) -> str:
        return self._pools[job]

    def sharing(self, ids: Sequence[str], now: float) -> Sharing:
        """Return what a round of these jobs goes by. The policy of each pool picks its own terms."""
        self.used.add(self._rates, now)
        jobs = [TeamJob(id, self.team[id], self._worth[id]) for id in ids]
        return sharing_of(self.teams, jobs, self.used.units, self.leases.until_s())
