"""Teams in a simulated run: whose each job is, what teams used of late, and which leases of jobs run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...core.cluster import Cluster
from ...core.placement import Placement
from ...core.teams import Teams, kind_of, misfits
from ...policies.contract.round import Plan
from ...policies.contract.sharing import Sharing
from ...scheduler.sharing.leases import JobLeases
from ...scheduler.sharing.shares import TeamJob, sharing_of
from ...scheduler.sharing.used import DecayedUse, units_per_hour
from ..traces.workload import Workload


def teams_of_jobs(workload: Workload, teams: Teams) -> dict[str, str]:
    """Return the team of each job: that of its virtual cluster's name, else the first one of its user.

    Raises:
        ValueError: for a job of neither, in one sentence.
    """
    found = {}
    for id, cluster, user in zip(workload.ids, workload.virtual_clusters, workload.users, strict=True):
        own = (cluster,) if cluster in teams.teams else teams.teams_of(user)
        if not own:
            of = f"user {user!r}, virtual cluster {cluster!r}"
            raise ValueError(f"--shares: job {id} ({of}) is of no team, and there is no default team")
        found[id] = own[0]
    return found


def check_fit(teams: Teams, clusters: Iterable[Cluster]) -> None:
    """Raise ValueError, in one sentence, where the nodes lack what teams are promised."""
    nodes = tuple(node for cluster in clusters for node in cluster.nodes)
    for wrong in misfits(teams, Cluster(nodes)):
        raise ValueError(f"--shares: {wrong}")


@dataclass
class SimulatedShares:
    """The terms of teams for the jobs of one engine. Use is counted from round to round.

    team: job id -> its team. pool: whose GPU types the terms are; "": those outside pools.
    """

    teams: Teams
    team: Mapping[str, str]
    pool: str = ""
    leases: JobLeases = field(init=False)
    used: DecayedUse = field(init=False)
    _jobs: dict[str, TeamJob] = field(init=False, repr=False)
    _rates: dict[str, float] = field(default_factory=dict)  # value units an hour by team, since the last round
    _duals: dict[str, tuple[float, int]] = field(default_factory=dict)  # GPU type -> sum of prices, rounds

    def __post_init__(self) -> None:
        self.leases, self.used = JobLeases(self.teams.lease_s), DecayedUse(3600.0 * self.teams.half_life_h)
        self._jobs = {id: TeamJob(id, team) for id, team in self.team.items()}

    def sharing(self, ids: Sequence[str], now: float) -> Sharing:
        """Return what a round of these jobs goes by."""
        self.used.add(self._rates, now)
        jobs = [self._jobs[id] for id in ids]
        return sharing_of(self.teams, jobs, self.used.units, self.leases.until_s()).of_pool(self.pool)

    def decided(self, plan: Plan, now: float) -> None:
        """Note what jobs hold from a round on."""
        for gpu_type, price in plan.prices.items():
            total, rounds = self._duals.get(gpu_type, (0.0, 0))
            self._duals[gpu_type] = total + price, rounds + 1
        self.leases.note(plan.placements, now)
        self._rates = self._units_per_hour(plan.placements)

    @property
    def prices(self) -> dict[str, float]:
        """Return the mean price of a GPU of each type over the rounds so far."""
        return {t: total / rounds for t, (total, rounds) in self._duals.items()}

    @property
    def named_prices(self) -> dict[str, float]:
        """Return `prices` with the pool in each name, as files name GPU types."""
        return {kind_of(t, self.pool): price for t, price in self.prices.items()}

    def _pool_of(self, job: str) -> str:
        return self.pool

    def _units_per_hour(self, placements: Mapping[str, Placement]) -> dict[str, float]:
        rates: defaultdict[str, float] = defaultdict(float)
        duals = self.named_prices
        for job, placement in placements.items():
            rates[self.team[job]] += units_per_hour(placement, self._pool_of(job), self.teams.prices, duals)
        return dict(rates)
