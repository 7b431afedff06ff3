"""Each team against what it has alone on its guarantee, beside a static partition, counts and no teams.

    python -m benchmarks.fairness [--first N] [--policy sia] [--no-sia] [--no-lending] [--no-venus]
                                  [--flood philly]

**Sia's traces**: the jobs of every trace are dealt to 8 teams by a seeded Zipf law, on 64 GPUs of three types.
Each team is guaranteed an eighth of each type. *Alone* a team's jobs run on nodes that are its guarantee. So all
teams alone are the static partition. Ratios are of mean JCTs over a team's jobs of all traces: shared over alone.
`fifo` with the same guarantees does what borrowing of counts does, for jobs of tuned sizes.

**Lending**: one team fills the cluster, and another one whose guarantee is idle comes an hour later.
`lent_rounds`: rounds until nobody's guarantee is idle; `back_rounds`: until the owner has what it asks for of it,
beyond the lease of a job; the worst trace. `flood_ratio`: the others' mean JCT when the team with the fewest jobs
submits 100 times as many, over 10 times as many. `flood_worst_over_alone`: the mean JCT of the worst of the other
teams then, over what it has alone on its guarantee. Up to 1, others lose only what they borrowed.

**Venus**, September 2020: 15 virtual clusters as teams, under `qssf`. Each is guaranteed the nodes that it had.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import WHOLE, SimulatedCluster, read_cluster
from coadapt.simulator.traces.readers import read_trace

from .arguments import at_least
from .harness import DATA, finish, needs, table
from .lending import lending
from .team_traces import (
    CLUSTER,
    GUARANTEE,
    LEASE_S,
    NAMES,
    SETS,
    SIA,
    TEAMS,
    Ran,
    dealt,
    ran,
    ran_alone,
    terms,
    traces_of,
)

VENUS = DATA / "helios" / "venus_sept2020_gpu_jobs.csv.gz"
VENUS_NODES = DATA / "lucid" / "venus_vc_config.csv"
VENUS_LEASE_S = 1800.0


def one_trace(path: Path, number: int, policy: str, shares: Path | None, alone: bool) -> Ran:
    """Run a trace shared, or each team of it alone on its guarantee."""
    return (
        ran_alone(path, number, policy) if alone else ran(dealt(read_trace(path), number), CLUSTER, policy, shares)
    )


def team_means(paths: Sequence[Path], runs: Sequence[Ran]) -> dict[str, float]:
    """Return the mean JCT of each team over the jobs of some traces."""
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for number, (path, run) in enumerate(zip(paths, runs, strict=True)):
        workload = dealt(read_trace(path), number)
        for id, user in zip(workload.ids, workload.users, strict=True):
            found[user].append(run.jct_s[id])
    return {name: float(np.mean(values)) for name, values in found.items() if values}


def ratios(shared: Mapping[str, float], alone: Mapping[str, float]) -> dict[str, float]:
    each = {name: shared[name] / alone[name] for name in shared}
    return {"worst": max(each.values()), "median": float(np.median(list(each.values())))}


def sia_traces(policies: Sequence[str], first: int | None, processes: int) -> dict[str, float]:
    """Return the figures of Sia's traces."""
    paths = [path for name in SETS for path in traces_of(name)[:first]]
    shares = terms(dict.fromkeys(NAMES, GUARANTEE), LEASE_S)
    cases = {
        **{f"{policy}, shared": (policy, shares, False) for policy in policies},
        **{f"{policy}, static partition": (policy, None, True) for policy in policies},
        **{f"{policy}, no teams": (policy, None, False) for policy in policies},
        "borrowing of counts": ("fifo", shares, False),
    }
    found: dict[str, list[Ran]] = {}
    with pool_of(processes) as pool:
        futures = {
            name: [pool.submit(one_trace, path, n, policy, at, alone) for n, path in enumerate(paths)]
            for name, (policy, at, alone) in cases.items()
        }
        for name, several in futures.items():
            found[name] = [future.result() for future in several]
            print(f"{name}: {len(several)} traces", flush=True)
    figures, rows = dict[str, float](), list[list[object]]()
    for policy in policies:
        alone = found[f"{policy}, static partition"]
        base, all_alone = team_means(paths, alone), np.mean([v for run in alone for v in run.jct_s.values()])
        for name, runs in found.items():
            if not name.startswith(policy) and name != "borrowing of counts":
                continue
            of = ratios(team_means(paths, runs), base)
            every = float(np.mean([v for run in runs for v in run.jct_s.values()]) / all_alone)
            single = max(
                ratios(team_means([path], [run]), team_means([path], [own]))["worst"]
                for path, run, own in zip(paths, runs, alone, strict=True)
            )
            rows.append([f"{name} (over {policy})", of["worst"], of["median"], every, single])
            if name.endswith("shared"):
                figures |= {
                    f"{policy}/worst_team_jct_ratio": of["worst"],
                    f"{policy}/median_team_jct_ratio": of["median"],
                    f"{policy}/all_jobs_jct_ratio": every,
                    f"{policy}/worst_single_trace": single,
                }
            elif name != f"{policy}, static partition":
                figures[f"{policy}/{name.split(', ')[-1].replace(' ', '_')}/worst_team_jct_ratio"] = of["worst"]
    head = ["mean JCT over that alone", "worst team", "median team", "all jobs", "worst team, worst trace"]
    table(f"Sia's traces, {len(paths)}, dealt to {TEAMS} teams", head, rows)
    return figures


def lends_and_floods(
    policies: Sequence[str], first: int | None, sets: Sequence[str], processes: int
) -> dict[str, float]:
    """Return the figures of lending, over the traces of each set, and of floods, over the first of some sets."""
    paths = [path for name in SETS for path in traces_of(name)[:first]]
    flood = {SETS.index(name): traces_of(name)[0] for name in sets}
    shares = terms(dict.fromkeys(NAMES, GUARANTEE), LEASE_S)
    with pool_of(processes) as pool:
        figures, rows = lending(pool, paths, flood, policies, shares)
    flooded = ["others' JCT, 100 over 10 times", "without teams", "worst team over alone", "without teams"]
    head = ["", "lent after rounds", "back after rounds", *flooded]
    table("An idle guarantee, and a flood", head, rows)
    return figures


def pool_of(processes: int) -> ProcessPoolExecutor:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn"))


def venus_case(shared: str) -> Ran:
    """Run Venus under qssf: "alone", "shared", "counts" or "none"."""
    workload, parts = read_trace(VENUS), read_cluster(str(VENUS_NODES))
    whole = SimulatedCluster({WHOLE: Cluster(tuple(_renamed(parts)))})
    guarantee = {name: dict(part.capacity()) for name, part in parts.parts.items()}
    shares = None
    if shared in ("shared", "counts"):
        shares = terms(guarantee, VENUS_LEASE_S if shared == "shared" else 0.0)
    nodes, policy = (parts if shared == "alone" else whole), ("fifo" if shared == "counts" else "qssf")
    source = source_of(False, None, nodes)
    outcome = simulation(workload, nodes, policy, {}, source, Conditions(Timing(early_s=0.0), shares=shares)).run()
    wait_s = outcome.queueing_s
    ids = outcome.workload.ids
    return Ran(dict(zip(ids, outcome.jct_s.tolist(), strict=True)), dict(zip(ids, wait_s.tolist(), strict=True)))


def _renamed(parts: SimulatedCluster) -> list[Node]:
    return [
        replace(node, id=f"{name}-{node.id}", pool="") for name, part in parts.parts.items() for node in part.nodes
    ]


def venus(processes: int) -> dict[str, float]:
    """Return the figures of Venus' virtual clusters as teams."""
    workload = read_trace(VENUS)
    cases = ("alone", "shared", "counts", "none")
    with pool_of(processes) as pool:
        found = dict(zip(cases, pool.map(venus_case, cases), strict=True))
    teams = np.array(workload.virtual_clusters)

    def means(of: Mapping[str, float]) -> dict[str, float]:
        values = np.array([of[id] for id in workload.ids])
        return {name: float(values[teams == name].mean()) for name in np.unique(teams).tolist()}

    alone_jct, alone_wait = means(found["alone"].jct_s), means(found["alone"].wait_s)
    figures, rows = dict[str, float](), list[list[object]]()
    for name, run in found.items():
        jct, wait = means(run.jct_s), means(run.wait_s)
        worst = max(jct[team] / alone_jct[team] for team in jct)
        median = float(np.median([wait[team] / max(alone_wait[team], 1.0) for team in wait]))
        rows.append([name, worst, median, float(np.mean(list(run.jct_s.values()))) / 3600])
        if name == "shared":
            figures = {"venus_worst_jct_ratio": worst, "venus_median_wait_ratio": median}
    table(
        "Venus, 15 virtual clusters as teams", ["", "worst JCT ratio", "median wait ratio", "mean JCT (h)"], rows
    )
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=at_least(1), help="traces of each set; by default all")
    parser.add_argument("--policy", action="append", help="by default sia and coadapt")
    parser.add_argument("--flood", action="append", choices=SETS, help="sets whose first trace is flooded; all")
    parser.add_argument("--processes", type=at_least(1), default=2)
    parser.add_argument("--no-sia", action="store_true")
    parser.add_argument("--no-lending", action="store_true")
    parser.add_argument("--no-venus", action="store_true")
    options = parser.parse_args()
    needs(SIA, VENUS, VENUS_NODES)
    figures: dict[str, float] = {}
    if not options.no_sia:
        figures |= sia_traces(options.policy or ["sia", "coadapt"], options.first, options.processes)
    if not options.no_lending:
        policies, sets = options.policy or ["sia", "coadapt"], options.flood or SETS
        figures |= lends_and_floods(policies, options.first, sets, options.processes)
    if not options.no_venus:
        figures |= venus(options.processes)
    finish("fairness", figures)


if __name__ == "__main__":
    main()
