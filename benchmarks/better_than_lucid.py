"""`packed` beside `lucid` and other policies in our semantics: Venus, September 2020, its 15 virtual clusters.

    python -m benchmarks.better_than_lucid [--only NAME …]

Profiling is part of the plan and takes the time it takes. No pair is faster than apart. A pair that was not
measured runs as a model foretells that is fitted to those that were. Estimates of lengths are the published
additive ones for all policies. A restart costs 40 s, or 60 s of more than 8 GPUs.
* non_intrusive: `packed` that stops nothing; preemptive: `packed`. jct_ratio: over `lucid` with published options.
* short_jobs_queued_ratio: waits of jobs of at most 60 s. Every idea is switched off alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.usage import Usage
from coadapt.estimators.affinity import pair_speeds
from coadapt.estimators.affinity.pair_table import PairTable
from coadapt.estimators.affinity.uses import row_of
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
from coadapt.simulator.jobs.shared_speeds import JobProfiles
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.cluster_file import SimulatedCluster, read_cluster
from coadapt.simulator.traces.workload import Workload

from .harness import finish, needs, table
from .lucid_data import ALONE, FILES, LENDERS, NODES, kind_of, rows_of, usage_in, venus

SHORT_S = 60.0
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
CASES: Mapping[str, Callable[[], Policy]] = {
    "lucid": lambda: LucidPolicy(LUCID, venus().models()),
    "lucid, work kept": lambda: LucidPolicy(
        LUCID.model_copy(update={"profile_progress": Progress.KEPT}), venus().models()
    ),
    "packed": lambda: packed(),
    "packed, stops nothing": lambda: packed(preempts=False, profiler=PROFILER),
    "packed, nothing shared": lambda: packed(packing=Packing.OFF),
    "packed, any pair that fits": lambda: packed(least_speed=0.0),
    "packed, waiting counts for nothing": lambda: packed(aging_h=None),
    "packed, first partner": lambda: packed(partner=Partner.FIRST),
    "packed, estimates as they are": lambda: packed(grows_with=0.0),
    "packed, with a profiler": lambda: packed(profiler=PROFILER),
    "fifo": lambda: make_policy("fifo"),
    "sjf": lambda: make_policy("sjf"),
    "qssf": lambda: make_policy("qssf"),
    "srtf": lambda: make_policy("srtf"),
    "las": lambda: make_policy("las"),
}


def packed(**options: object) -> PackedPolicy:
    """Return `packed` with other options. It knows what a model foretells that is fitted to measured pairs."""
    return PackedPolicy(PACKED.model_copy(update=options), models())


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


@cache
def foretold() -> np.ndarray:
    """Return (kinds, kinds) speeds that are foretold, from a model of the measured pairs."""
    pairs = measured()
    return np.minimum(pair_speeds.fit(pairs).matrix(pairs.uses, pairs.uses), 1.0)


@cache
def models() -> PackingModels:
    """Return the published labels, and speeds of pairs that are foretold."""
    known = measured()
    own = venus().models()
    at = {}
    for kind, usage in zip(venus().kinds, venus().profiles.usage, strict=True):
        if usage is not None:
            at[usage.gpu_util, usage.memory_util, usage.memory_gib] = known.positions[kind]
    speeds = foretold()

    def both(new: Usage, old: Usage) -> tuple[float, float]:
        a, b = (at[one.gpu_util, one.memory_util, one.memory_gib] for one in (new, old))
        return float(speeds[a, b]), float(speeds[b, a])

    return PackingModels(own.score, both, own.ahead)


@dataclass(frozen=True, eq=False)
class Ran:
    jct_s: np.ndarray
    queue_s: np.ndarray
    restarts: float


def with_profiler(nodes: SimulatedCluster, pool: str) -> SimulatedCluster:
    """Return the nodes with those that the authors took for the profiler in a pool of their own."""
    parts, taken = dict(nodes.parts), list[Node]()
    for name in LENDERS:
        *rest, last = parts[name].nodes
        parts[name] = Cluster(tuple(rest), name)
        taken.append(replace(last, pool=pool))
    return SimulatedCluster({**parts, pool: Cluster(tuple(taken), pool)})


def run(name: str) -> Ran:
    """Run a case on the whole cluster, all pools at once."""
    data, speeds, positions = venus(), foretold(), measured().positions
    kinds = [positions[kind] for kind in data.kinds]
    policy = CASES[name]()
    crosses = policy.traits.crosses_pools
    place = {id: at for at, id in enumerate(data.workload.ids)}
    estimates_s = dict(zip(data.workload.ids, data.estimates_s["ebm"].tolist(), strict=True))
    lengths = Lengths.TOLD if name in ("sjf", "srtf") else Lengths.ESTIMATED
    sources = Sources(estimates_s=estimates_s) if lengths is Lengths.ESTIMATED else None

    def engine(part: Workload, on: Cluster) -> Engine:
        at = [place[id] for id in part.ids]
        world = FixedLengthWorld(part, preemption_s, lengths, sources)
        world.pooled = crosses
        own = policy if crosses else CASES[name]()
        timing = Timing(60.0) if name == "las" else Timing(events=True)
        if not own.traits.shares_gpus:
            return Engine(world, on, own, timing)
        truth = data.true_pairs(1.0, lambda job, beside: float(speeds[kinds[at[job]], kinds[at[beside]]]))
        truth = type(truth)([data.kinds[i] for i in at], truth.table, truth.otherwise, truth.most)
        profiles = JobProfiles([data.profiles.usage[i] for i in at])
        return Engine(world, on, own, timing, pairs=truth, profiles=profiles)

    nodes = read_cluster(str(NODES))
    if isinstance(policy, LucidPolicy) and policy.options.profiler.pool is not None:
        nodes = with_profiler(nodes, policy.options.profiler.pool)
    outcome = Simulation(data.workload, nodes, engine, crosses_pools=crosses).run()
    return Ran(outcome.jct_s, outcome.queueing_s, float(outcome.restarts.mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(CASES), metavar="NAME", help="cases; by default all")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    needs(*FILES)
    names = list(dict.fromkeys(["lucid", *(options.only or CASES)]))
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        runs = dict(zip(names, pool.map(run, names), strict=True))
    base, short = runs["lucid"], venus().workload.duration_s <= SHORT_S
    figures, rows = dict[str, float](), list[list[object]]()
    for name, ran in runs.items():
        jct_s, queue_s = float(ran.jct_s.mean()), float(ran.queue_s.mean())
        p99_9_s, short_s = float(np.percentile(ran.queue_s, 99.9)), float(ran.queue_s[short].mean())
        ratio = jct_s / float(base.jct_s.mean())
        rows.append([name, jct_s, ratio, queue_s, p99_9_s, short_s, ran.restarts])
        key = {"packed": "preemptive", "packed, stops nothing": "non_intrusive"}.get(name)
        if key:
            figures |= {
                f"{key}/jct_ratio": ratio,
                f"{key}/mean_jct_s": jct_s,
                f"{key}/p99_9_queue_ratio": p99_9_s / float(np.percentile(base.queue_s, 99.9)),
                f"{key}/short_jobs_queued_ratio": short_s / float(base.queue_s[short].mean()),
            }
    figures["lucid/mean_jct_s"] = float(base.jct_s.mean())
    head = ["", "mean JCT (s)", "over lucid", "mean queue (s)", "P99.9 queue (s)", "queue of <= 60 s", "restarts"]
    table("Venus, our semantics", head, rows)
    finish("better_than_lucid", figures)


if __name__ == "__main__":
    main()
