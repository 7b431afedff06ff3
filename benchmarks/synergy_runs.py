"""What the benchmarks of CPUs and memory share: the servers of Synergy's paper, runs, and windows of jobs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from typing import Any

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Planner, Round
from coadapt.policies.provisioning.told import SPEED
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.input_bound import InputBoundWorld
from coadapt.simulator.traces.input_profiles import InputProfiles, read_profiles
from coadapt.simulator.traces.workload import Workload

from .harness import DATA, needs

PROFILES = DATA / "synergy" / "synergy_profiles.json"
STATIC, DYNAMIC = DATA / "synergy" / "static_100job.csv", DATA / "synergy" / "dynamic_srtf_100job.csv"
ROUND_S = 300.0
GPUS, CPUS, MEMORY_GIB = 8, 24.0, 500.0  # of a server
HOUR = 3600.0
SATURATED, IDEAL = "saturated", "ideal"  # not mechanisms but what none can be better than


def servers(gpus: int, cpus_per_gpu: float = CPUS / GPUS) -> Cluster:
    """Return the paper's servers with so many GPUs in all."""
    return Cluster(
        tuple(Node(f"v100-{at:04d}", "v100", GPUS, GPUS * cpus_per_gpu, MEMORY_GIB) for at in range(gpus // GPUS))
    )


def machine_of(gpus: int, cpus_per_gpu: float = CPUS / GPUS) -> Cluster:
    """Return all of these servers as one machine: no real servers do better."""
    return Cluster((Node("all", "v100", gpus, gpus * cpus_per_gpu, gpus * MEMORY_GIB / GPUS),))


def rich(gpus: int) -> Cluster:
    """Return servers that have for each job all CPUs and all memory that profiles tell of."""
    return Cluster(
        tuple(Node(f"v100-{at:04d}", "v100", GPUS, GPUS * 24.0, GPUS * 250.0) for at in range(gpus // GPUS))
    )


@cache
def profiles() -> InputProfiles:
    needs(PROFILES)
    return read_profiles(PROFILES)


@dataclass
class Watched:
    """What a run is watched for.

    moves: jobs that go on, on other GPUs. idle: rounds with idle GPUs that a waiting job could use.
    cpus: (rounds,) parts of the CPUs that jobs have and gain by. least_speed: of any job, over that at its share.
    """

    saturating: Callable[[str], float] = lambda id: np.inf  # CPUs with which a job gains no more, by its id
    moves: int = 0
    idle: int = 0
    cpus: list[float] = field(default_factory=list)
    least_speed: float = np.inf

    def __call__(self, round: Round, plan: Plan) -> None:
        """Take note of a round."""
        columns = round.columns
        held, gets = columns.placements.tolist(), plan.placements
        ids = columns.ids.tolist()
        free = sum(round.cluster.capacity().values())
        used = 0.0
        for id, before in zip(ids, held, strict=True):
            now = gets.get(id)
            if now is None:
                continue
            free -= now.gpus
            demand = self.saturating(id)
            used += min(sum(share.cpus for share in now.shares), demand)
            if before is not None and before.place != now.place:
                self.moves += 1
        if SPEED in plan.figures and plan.placements:
            self.least_speed = min(self.least_speed, float(np.nanmin(plan.figures[SPEED])))
        if free:
            waits = np.array([id not in gets for id in ids], bool)
            self.idle += bool((columns.gpus[waits] <= free).any())
        self.cpus.append(used / sum(node.cpus for node in round.cluster.nodes))


@dataclass(frozen=True)
class Asked:
    """One run. `window`: the jobs that figures are of, by position; None: all."""

    workload: Callable[[], Workload]
    policy: str
    mechanism: str
    gpus: int
    cpus_per_gpu: float = CPUS / GPUS
    window: tuple[int, int] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Found:
    """What came of a run: (jobs,) completion times in s of its window, and what was watched."""

    jct_s: np.ndarray
    makespan_s: float
    watched: Watched
    round_ms: float

    @property
    def use(self) -> float:
        """The mean part of all CPUs that jobs hold and gain by, while the middle half of rounds goes on."""
        return float(np.mean(self._middle))

    @property
    def full_use(self) -> float:
        """The same in the fullest of these rounds, the 95th percentile."""
        return float(np.percentile(self._middle, 95))

    @property
    def _middle(self) -> Sequence[float]:
        count = len(self.watched.cpus)
        return self.watched.cpus[count // 4 : 3 * count // 4]

    @property
    def mean_h(self) -> float:
        return float(self.jct_s.mean()) / HOUR

    def percentile_h(self, q: float) -> float:
        return float(np.percentile(self.jct_s, q)) / HOUR


def run(asked: Asked) -> Found:
    """Simulate a run. A restart costs nothing, as in the paper's simulator."""
    cluster = servers(asked.gpus, asked.cpus_per_gpu)
    mechanism = asked.mechanism
    if mechanism == SATURATED:
        cluster, mechanism = rich(asked.gpus), "tune"
    elif mechanism == IDEAL:
        cluster, mechanism = machine_of(asked.gpus, asked.cpus_per_gpu), "priced"
    options = dict(asked.options)
    if asked.policy == "fifo":
        options["preempts"] = True
    policy: Planner = make_policy(asked.policy, provisioning=mechanism, **options)
    work = asked.workload()
    needed = dict(zip(work.ids, saturating_cpus(work).tolist(), strict=True))
    watched = Watched(needed.__getitem__)
    world = InputBoundWorld(work, profiles(), cluster, lambda gpus: 0.0)
    outcome: Outcome = Engine(world, cluster, policy, Timing(ROUND_S), watch=watched).run()
    first, last = asked.window or (0, len(outcome.workload))
    return Found(outcome.jct_s[first:last], outcome.makespan_s, watched, float(np.median(outcome.policy_s)) * 1e3)


def run_all(asked: Sequence[Asked], processes: int) -> list[Found]:
    """Simulate several runs, so many at a time."""
    if processes < 2 or len(asked) < 2:
        return [run(one) for one in asked]
    with ProcessPoolExecutor(processes) as pool:
        return list(pool.map(run, asked))


def saturating_cpus(workload: Workload) -> np.ndarray:
    """Return (jobs,) the least CPUs with which each job is as fast as with all."""
    models = profiles().models
    found: dict[tuple[str, int], float] = {}
    for pair in set(zip(workload.applications, workload.gpus.tolist(), strict=True)):
        name, gpus = pair
        cpus, memory = models[name].sensitivity.axes(gpus)
        rate = models[name].sensitivity.rate(gpus, cpus, np.array(memory[-1]))
        found[pair] = float(cpus[int(np.argmax(rate >= rate.max() * (1 - 1e-9)))])
    return np.array([found[pair] for pair in zip(workload.applications, workload.gpus.tolist(), strict=True)])


def best_speeds(workload: Workload) -> np.ndarray:
    """Return (jobs,) how much faster each job of 1 GPU is with all that it gains by than at the paper's share."""
    models = profiles().models
    best = {
        name: float(models[name].sensitivity.rate(1, np.array(24.0), np.array(250.0)))
        for name in set(workload.applications)
    }
    return np.array([best[name] for name in workload.applications])


def proportional_fifo_s(workload: Workload, gpus: int, speeds: np.ndarray | None = None) -> np.ndarray:
    """Return (jobs,) the completion times of jobs of 1 GPU in order of arrival, at their share, in rounds.

    It is what `fifo` with `proportional` gives, from the times alone. `speeds`: (jobs,) relative to the share.
    """
    times_s = workload.duration_s if speeds is None else workload.duration_s / speeds
    free = [0.0] * gpus
    found = np.empty(len(workload))
    for at, (arrives, takes) in enumerate(zip(workload.submit_s.tolist(), times_s.tolist(), strict=True)):
        start = ceil(max(arrives, heapq.heappop(free)) / ROUND_S - 1e-9) * ROUND_S
        heapq.heappush(free, start + takes)
        found[at] = start + takes - arrives
    return found
