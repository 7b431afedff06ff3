"""`packed` beside `lucid` and other policies in our semantics: Venus, September 2020, its 15 virtual clusters.

    python -m benchmarks.better_than_lucid [--only NAME …] [--where venus|half|double|philly|philly_week]

Profiling is part of the plan and takes the time it takes. No pair is faster than apart. A pair that was not
measured runs as a model foretells that is fitted to those that were. Estimates of lengths are the published
additive ones for all policies. A restart costs 40 s, or 60 s of more than 8 GPUs.
`half` and `double`: all utilisations are half or twice as high, and all speeds of pairs are foretold from them.
`philly`: October and November 2017 on a quarter of the nodes, kinds of jobs drawn with a seed, lengths learned
online; `philly_week`: its first seven days.
Options of `packed` were chosen on the first ten days of Venus.
* non_intrusive: `packed` that stops nothing; preemptive: `packed`. jct_ratio: over `lucid` with published options.
* short_jobs_queued_ratio: waits of jobs of at most 60 s. Every idea is switched off alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import repeat
from multiprocessing import get_context

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.usage import Usage
from coadapt.estimators.affinity import pair_speeds, sharing
from coadapt.estimators.affinity.pair_table import PairTable
from coadapt.estimators.affinity.uses import row_of, usage_of
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.policy import Policy
from coadapt.policies.lucid import LucidOptions, LucidPolicy, Progress
from coadapt.policies.packed import PackedOptions, PackedPolicy
from coadapt.policies.packing.binder import ModeOptions, Packing, Partner
from coadapt.policies.packing.models import PackingModels
from coadapt.policies.packing.profiler import ProfilerOptions
from coadapt.simulator.compat.lucid import preemption_s
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.lengths import Lengths, Sources
from coadapt.simulator.jobs.shared_speeds import JobProfiles, MeasuredPairs
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.cluster_file import SimulatedCluster, read_cluster
from coadapt.simulator.traces.workload import Workload

from .harness import finish, needs, table
from .lucid_data import ALONE, FILES, LENDERS, NODES, Lucid, kind_of, rows_of, usage_in, venus
from .qssf_replay import philly

SHORT_S = 60.0
PHILLY_NODES_PART = 0.25
MEMORY = {"gpu": 24.0}
PROFILER = ProfilerOptions(pool="profiler")
LUCID = LucidOptions(
    modes=ModeOptions(forecast_only=True, off_jobs=2.0),
    partner=Partner.FIRST,
    compare_totals=True,
    profile_progress=Progress.LOST,
    gpu_memory_gib=MEMORY,
    profiler=PROFILER,
)
PACKED = PackedOptions(gpu_memory_gib=MEMORY)
CASES: Mapping[str, Callable[[str], Policy]] = {
    "lucid": lambda where: lucid(where),
    "lucid, work kept": lambda where: lucid(where, profile_progress=Progress.KEPT),
    "packed": lambda where: packed(where),
    "packed, stops nothing": lambda where: packed(where, preempts=False, profiler=PROFILER, aging_h=None),
    "packed, nothing shared": lambda where: packed(where, packing=Packing.OFF),
    "packed, pairs of any speed": lambda where: packed(where, least_speed=0.0),
    "packed, waiting counts for nothing": lambda where: packed(where, aging_h=None),
    "packed, no pair at once": lambda where: packed(where, eager_cost_s=None),
    "packed, first partner": lambda where: packed(where, partner=Partner.FIRST),
    "packed, estimates as they are": lambda where: packed(where, grows_with=0.0),
    "packed, with a profiler": lambda where: packed(where, profiler=PROFILER),
    "fifo": lambda where: make_policy("fifo"),
    "sjf": lambda where: make_policy("sjf"),
    "qssf": lambda where: make_policy("qssf"),
    "srtf": lambda where: make_policy("srtf"),
    "las": lambda where: make_policy("las"),
}
DAYS = {"philly": np.inf, "philly_week": 7.0}  # of Philly's months
WHERE = ("venus", "half", "double", *DAYS)
FACTOR = {"half": 0.5, "double": 2.0}
ELSEWHERE = ("lucid", "packed", "packed, stops nothing", "las")  # what runs in other settings than Venus' own


def lucid(where: str, **options: object) -> LucidPolicy:
    """Return `lucid` with its published options, or others."""
    return LucidPolicy(LUCID.model_copy(update=options), models(where))


def packed(where: str, **options: object) -> PackedPolicy:
    """Return `packed` with other options. It knows what a model foretells that is fitted to measured pairs."""
    return PackedPolicy(PACKED.model_copy(update=options), models(where))


@cache
def measured() -> PairTable:
    """Return the measured pairs with what each kind uses."""
    rows = {kind_of(row): usage_in(row) for row in rows_of(ALONE)}
    names = tuple(sorted(rows))
    speeds = np.full((len(names), len(names)), np.nan)
    for (a, b), speed in venus().pairs.items():
        if a in rows and b in rows:
            speeds[names.index(a), names.index(b)] = speed
    return PairTable(names, speeds, np.array([row_of(rows[name], name.endswith("-1")) for name in names]))


def uses(where: str) -> np.ndarray:
    """Return (kinds, 4) what each kind uses; half of it or twice as much in settings that say so."""
    found = measured().uses.copy()
    found[:, :2] = np.minimum(found[:, :2] * FACTOR.get(where, 1.0), 1.0)
    return found


@cache
def foretold(where: str) -> np.ndarray:
    """Return (kinds, kinds) speeds that are foretold, from a model of the measured pairs."""
    return np.minimum(pair_speeds.fit(measured()).matrix(uses(where), uses(where)), 1.0)


@cache
def jobs_of(where: str) -> Lucid:
    """Return the jobs of a setting, with a use for each kind that stands for it."""
    data = venus()
    if where in DAYS:
        workload, nodes = philly(PHILLY_NODES_PART)
        workload = workload.select(workload.submit_s < workload.submit_s.min() + DAYS[where] * 86_400)
        drawn = np.random.default_rng(0).choice(data.kinds, len(workload))
        data = replace(data, workload=workload, nodes=nodes, kinds=tuple(drawn.tolist()))
    rows, at = uses(where), measured().positions
    usage = [usage_of(*rows[at[kind], :3].tolist()) for kind in data.kinds]
    return replace(data, profiles=JobProfiles(usage), pairs={} if where in FACTOR else data.pairs)


@cache
def models(where: str) -> PackingModels:
    """Return Sharing Scores, and speeds of pairs that are foretold.

    Scores are the published labels; where uses are other ones, a tree gives them that is fitted to measured pairs.
    """
    rows, known, speeds = uses(where), measured(), foretold(where)
    at = {tuple(row[:3]): i for i, row in enumerate(rows.tolist())}  # kinds of one use are alike
    scores = sharing.fit_to_pairs(known).of(rows).tolist()
    if where not in FACTOR:
        scores = [venus().labels[name] for name in known.names]

    def place(usage: Usage) -> int:
        return at[usage.gpu_util, usage.memory_util, usage.memory_gib]

    def both(new: Usage, old: Usage) -> tuple[float, float]:
        a, b = place(new), place(old)
        return float(speeds[a, b]), float(speeds[b, a])

    ahead = None if where in DAYS else venus().models().ahead
    return PackingModels(lambda usage: scores[place(usage)], both, ahead)


@dataclass(frozen=True, eq=False)
class Ran:
    jct_s: np.ndarray
    queue_s: np.ndarray
    restarts: float
    short: np.ndarray  # (jobs,) a mask of those of at most `SHORT_S`


def with_profiler(nodes: SimulatedCluster, pool: str, lenders: Sequence[str]) -> SimulatedCluster:
    """Return the nodes with one of each lender in a pool of its own, that measures new jobs."""
    parts, taken = dict(nodes.parts), list[Node]()
    for name in lenders:
        *rest, last = parts[name].nodes
        parts[name] = Cluster(tuple(rest), name)
        taken.append(replace(last, pool=pool))
    return SimulatedCluster({**parts, pool: Cluster(tuple(taken), pool)})


def run(name: str, where: str = "venus") -> Ran:
    """Run a case on the whole cluster, all pools at once."""
    data, speeds, positions = jobs_of(where), foretold(where), measured().positions
    kinds = [positions[kind] for kind in data.kinds]
    policy = CASES[name](where)
    crosses = policy.traits.crosses_pools
    place = {id: at for at, id in enumerate(data.workload.ids)}
    lengths, sources = Lengths.LEARNED, None  # of Philly there are no published estimates
    if name in ("sjf", "srtf"):
        lengths = Lengths.TOLD
    elif where not in DAYS:
        estimates_s = dict(zip(data.workload.ids, data.estimates_s["ebm"].tolist(), strict=True))
        lengths, sources = Lengths.ESTIMATED, Sources(estimates_s=estimates_s)

    def engine(part: Workload, on: Cluster) -> Engine:
        at = [place[id] for id in part.ids]
        world = FixedLengthWorld(part, preemption_s, lengths, sources)
        world.pooled = crosses
        own = policy if crosses else CASES[name](where)
        timing = Timing(60.0) if name == "las" else Timing(events=True)
        if not own.traits.shares_gpus:
            return Engine(world, on, own, timing)
        truth = MeasuredPairs(
            [data.kinds[i] for i in at],
            data.pairs,
            lambda job, beside: float(speeds[kinds[at[job]], kinds[at[beside]]]),
        )
        profiles = JobProfiles([data.profiles.usage[i] for i in at])
        return Engine(world, on, own, timing, pairs=truth, profiles=profiles)

    nodes = data.nodes if where in DAYS else read_cluster(str(NODES))
    if isinstance(policy, LucidPolicy) and policy.options.profiler.pool is not None:
        largest = sorted(nodes.parts, key=lambda pool: (-len(nodes.parts[pool].nodes), pool))[:2]
        lenders = largest if where in DAYS else LENDERS
        nodes = with_profiler(nodes, policy.options.profiler.pool, lenders)
    outcome = Simulation(data.workload, nodes, engine, crosses_pools=crosses).run()
    short = outcome.workload.duration_s <= SHORT_S
    return Ran(outcome.jct_s, outcome.queueing_s, float(outcome.restarts.mean()), short)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="NAME", help="cases; by default all")
    parser.add_argument("--where", choices=WHERE, default="venus")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    needs(*FILES)
    names = list(dict.fromkeys(["lucid", *(options.only or (CASES if options.where == "venus" else ELSEWHERE))]))
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        runs = dict(zip(names, pool.map(run, names, repeat(options.where)), strict=True))
    base = runs["lucid"]
    figures, rows = dict[str, float](), list[list[object]]()
    for name, ran in runs.items():
        jct_s, queue_s = float(ran.jct_s.mean()), float(ran.queue_s.mean())
        p99_9_s, short_s = float(np.percentile(ran.queue_s, 99.9)), float(ran.queue_s[ran.short].mean())
        ratio = jct_s / float(base.jct_s.mean())
        rows.append([name, jct_s, ratio, queue_s, p99_9_s, short_s, ran.restarts])
        key = {"packed": "preemptive", "packed, stops nothing": "non_intrusive"}.get(name)
        if key:
            figures |= {
                f"{key}/jct_ratio": ratio,
                f"{key}/mean_jct_s": jct_s,
                f"{key}/p99_9_queue_ratio": p99_9_s / float(np.percentile(base.queue_s, 99.9)),
                f"{key}/short_jobs_queued_ratio": short_s / max(float(base.queue_s[base.short].mean()), 1.0),
            }
    figures["lucid/mean_jct_s"] = float(base.jct_s.mean())
    if options.where != "venus":
        figures = {f"{options.where}/{name}": value for name, value in figures.items()}
    head = ["", "mean JCT (s)", "over lucid", "mean queue (s)", "P99.9 queue (s)", "queue of <= 60 s", "restarts"]
    table(f"{options.where}, our semantics", head, rows)
    finish("better_than_lucid", figures)


if __name__ == "__main__":
    main()
