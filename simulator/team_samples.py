"""Teams from virtual clusters of traces: drawn at random, resized, without donors, with jobs that follow others.

Pure, with seeds ("Anticipatory Resource Allocation for ML Training", section 6.1). A team's guarantee is what
makes its jobs load it as drawn.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from .traces.tables import DAY_S
from .traces.workload import Workload

LOADS = (0.6, 1.1)  # from which the load of a team is drawn, as the paper has it
LEAST_JOBS = 20  # of a team in the days that are drawn


@dataclass(frozen=True, eq=False)
class TeamJobs:
    """Jobs whose virtual clusters are teams, and how many GPUs each team is guaranteed."""

    jobs: Workload
    gpus: Mapping[str, int]

    def text(self, gpu_type: str = "gpu") -> str:
        """Return the file of teams."""
        rows = "".join(f"  {name}: {{guarantee: {{{gpu_type}: {gpus}}}}}\n" for name, gpus in self.gpus.items())
        return f"teams:\n{rows}"

    def sized(self, factor: float) -> TeamJobs:
        """Return the teams with guarantees that are so many times as large; jobs that are too wide then go.

        Raises ValueError for a factor that is not above 0.
        """
        if not 0 < factor < math.inf:
            raise ValueError(f"size: {factor:g}; a factor above 0 is accepted")
        gpus = {name: max(round(factor * count), 1) for name, count in self.gpus.items()}
        return TeamJobs(self.jobs, gpus).fitting()

    def without_donors(self, count: int) -> TeamJobs:
        """Return the teams but the `count` largest, with their jobs."""
        by_size = sorted(self.gpus.items(), key=lambda row: (-row[1], row[0]))
        return TeamJobs(self.jobs, dict(by_size[count:])).fitting()

    def fitting(self) -> TeamJobs:
        """Return the same without jobs of other teams, and without those that are wider than their team."""
        widths = zip(self.jobs.virtual_clusters, self.jobs.gpus.tolist(), strict=True)
        fits = np.array([width <= self.gpus.get(team, 0) for team, width in widths], bool)
        return TeamJobs(self.jobs.select(fits), self.gpus)


def drawn_teams(
    traces: Mapping[str, Workload],
    teams: int,
    seed: int,
    days: float = 14.0,
    loads: tuple[float, float] = LOADS,
) -> TeamJobs:
    """Draw virtual clusters of traces as teams that exist at the same time, each with a load drawn at random.

    Each takes the jobs of `days` days from a random moment of its trace on. Its guarantee is its work over the
    time and the drawn load, and at least its widest job.

    Args:
        traces: workloads with lengths by name.

    Raises:
        ValueError: in one sentence, if there are not so many virtual clusters.
    """
    random = np.random.default_rng([seed, 83])
    known = [(name, cluster) for name, trace in traces.items() for cluster in sorted(set(trace.virtual_clusters))]
    found: list[Workload] = []
    gpus: dict[str, int] = {}
    for place in random.permutation(len(known)).tolist():
        name, cluster = known[place]
        load = random.uniform(*loads)
        own = _days_of(traces[name], cluster, days, random)
        if own is None or len(found) == teams:
            continue
        team = f"{name}-{cluster}"
        ids = tuple(f"{team}-{id}" for id in own.ids)
        found.append(replace(own, ids=ids, virtual_clusters=(team,) * len(own)))
        work = float(own.gpus @ own.duration_s) / (DAY_S * days)
        gpus[team] = max(int(own.gpus.max()), round(work / load), 1)
    if len(found) < teams:
        raise ValueError(
            f"teams: {teams}, and only {len(found)} virtual clusters have {LEAST_JOBS} jobs in that time"
        )
    jobs = found[0]
    for more in found[1:]:
        jobs = jobs.and_also(more)
    return TeamJobs(jobs, gpus)


def _days_of(trace: Workload, cluster: str, days: float, random: np.random.Generator) -> Workload | None:
    """Return the jobs of some days of a virtual cluster, from second 0 on; None: they are too few."""
    own = trace.select(np.array([name == cluster for name in trace.virtual_clusters], bool))
    latest_s = max(float(trace.submit_s.max()) - DAY_S * days, 0.0)
    begin_s = random.uniform(0, latest_s) if latest_s else 0.0
    own = own.select((own.submit_s >= begin_s) & (own.submit_s < begin_s + DAY_S * days))
    if len(own) < LEAST_JOBS:
        return None
    return replace(own, submit_s=own.submit_s - begin_s, duration_s=np.maximum(own.duration_s, 1.0), began_s=0.0)


def following(teams: TeamJobs, part: float, seed: int, gap_s: float = 60.0) -> TeamJobs:
    """Let jobs come when others end, as users who wait for results submit them.

    A part of each team's jobs, drawn at random, comes after an earlier job of the team has ended with nothing
    lent, and after an exponential gap. The others come as in the trace.

    Args:
        gap_s: mean seconds from the end of the one to the submission of the other.

    Raises:
        ValueError: in one sentence, for a part outside [0, 1] or a gap that is not above 0.
    """
    if not 0 <= part <= 1:
        raise ValueError(f"part: {part:g}; a part of all jobs from 0 to 1 is accepted")
    if not 0 < gap_s < math.inf:
        raise ValueError(f"gap_s: {gap_s:g}; seconds above 0 are accepted")
    random = np.random.default_rng([seed, 64])
    jobs, submit_s = teams.jobs, teams.jobs.submit_s.copy()
    for team, quota in teams.gpus.items():
        own = np.flatnonzero(np.array([name == team for name in jobs.virtual_clusters], bool))
        after = [-1, *(int(random.integers(at)) if random.random() < part else -1 for at in range(1, len(own)))]
        gaps_s = random.exponential(gap_s, len(own))
        submit_s[own] = _submissions(submit_s[own], jobs.gpus[own], jobs.duration_s[own], quota, after, gaps_s)
    moved = replace(jobs, submit_s=submit_s)
    return TeamJobs(moved.select(np.argsort(submit_s, kind="stable")), teams.gpus)


def _submissions(
    submit_s: np.ndarray,
    gpus: np.ndarray,
    takes_s: np.ndarray,
    quota: int,
    after: Sequence[int],
    gaps_s: np.ndarray,
) -> np.ndarray:
    """Return (jobs,) when each is submitted, where some come after the end of another under strict order."""
    found, children = submit_s.copy(), dict[int, list[int]]()
    for job, parent in enumerate(after):
        children.setdefault(parent, []).append(job)
    comes = [(float(submit_s[job]), job) for job in children.get(-1, [])]
    heapq.heapify(comes)
    ends, used, now = list[tuple[float, int]](), 0, 0.0
    while comes:
        at, job = heapq.heappop(comes)
        found[job], now = at, max(now, at)
        width = min(int(gpus[job]), quota)
        while ends and (ends[0][0] <= now or used + width > quota):
            end, freed = heapq.heappop(ends)
            used, now = used - freed, max(now, end)
        end = now + float(takes_s[job])
        heapq.heappush(ends, (end, width))
        used += width
        for child in children.get(job, []):
            heapq.heappush(comes, (end + float(gaps_s[child]), child))
    return found
