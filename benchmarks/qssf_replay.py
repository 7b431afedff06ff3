"""`qssf` on Venus' September of 2020 and on Philly's October and November of 2017, beside its peers.

    python -m benchmarks.qssf_replay

Venus: 23,859 jobs in 15 virtual clusters. `sjf` knows true lengths, as in the paper (Helios, SC'21, Table 2.3).
`qssf` knows what the service `durations` has learned online, from nothing. Its figures are means over seeds of the
fit. Backfill is the option `reserve` with its default patience; `fill` stands beside it. Estimates that others
have made of the same jobs are read from files, and serve under the same policy.

Philly: half the nodes of the file's virtual clusters, true lengths with the errors of Helios' estimates. That load
is light: even with exact lengths little can be won. So a quarter of the nodes stands beside it.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.core.cluster import Cluster
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import SimulatedCluster, read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least
from .harness import DATA, finish, needs, table

VENUS = DATA / "helios" / "venus_sept2020_gpu_jobs.csv.gz"
VENUS_NODES = DATA / "lucid" / "venus_vc_config.csv"
ESTIMATES = {name: DATA / "lucid" / f"venus_sept_{name}_estimate.csv.gz" for name in ("lgb", "ebm")}
PHILLY, PHILLY_NODES = DATA / "philly" / "philly_jobs_pollux_82k.csv.gz", DATA / "philly" / "philly_vc_nodes.csv"
SHORT_S, LONG_S = 900.0, 21_600.0  # groups of Table 2.4
DAY_S = 86_400.0
# Table 2.3, Venus: mean JCT and wait in seconds, and jobs that waited.
PAPER = {"fifo": (64_702, 52_933, 15_336), "sjf": (21_095, 9_325, 8_353), "qssf": (18_349, 6_580, 3_713)}


@dataclass(frozen=True)
class Case:
    """One run. `trace`: venus or philly."""

    name: str
    policy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    lengths: Lengths = Lengths.TOLD
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    estimates: Path | None = None
    seed: int = 0
    trace: str = "venus"
    nodes: float = 1.0  # part of the file's nodes


@dataclass(frozen=True)
class Ran:
    """What came of a run: (jobs,) seconds, and the virtual cluster of each job."""

    wait_s: np.ndarray
    length_s: np.ndarray
    pools: tuple[str, ...]

    @classmethod
    def of(cls, outcome: Outcome) -> Ran:
        wait_s = np.maximum(outcome.started_s - outcome.workload.submit_s, 0.0)
        return cls(wait_s, outcome.workload.duration_s, outcome.workload.virtual_clusters)

    def figures(self) -> dict[str, float]:
        """Return means, the jobs that waited, and the waits of the groups of Table 2.4."""
        short, long = self.length_s < SHORT_S, self.length_s > LONG_S
        return {
            "mean_jct_s": float((self.wait_s + self.length_s).mean()),
            "mean_wait_s": float(self.wait_s.mean()),
            "jobs_waited": float((self.wait_s > 0).sum()),
            "p99_9_wait_h": float(np.percentile(self.wait_s, 99.9) / 3600),
            "short_wait_s": float(self.wait_s[short].mean()),
            "middle_wait_s": float(self.wait_s[~short & ~long].mean()),
            "long_wait_s": float(self.wait_s[long].mean()),
            "jct_minus_wait_s": float(self.length_s.mean()),
        }


def venus() -> tuple[Workload, SimulatedCluster]:
    """Return Venus' jobs and nodes."""
    return read_trace(VENUS), read_cluster(str(VENUS_NODES))


def philly(share: float) -> tuple[Workload, SimulatedCluster]:
    """Return Philly's jobs of October and November 2017, and a part of the nodes of each virtual cluster.

    A virtual cluster keeps the nodes that its largest job needs.
    """
    workload, nodes = read_trace(PHILLY), read_cluster(str(PHILLY_NODES))
    at_s = workload.began_s + workload.submit_s
    first, last = (
        np.datetime64(day).astype("datetime64[s]").astype(float) for day in ("2017-10-01", "2017-12-01")
    )
    known = np.isin(np.array(workload.virtual_clusters), list(nodes.parts))
    within = (at_s >= first) & (at_s < last)
    if missing := int((within & ~known).sum()):
        warnings.warn(
            f"{PHILLY.name}: {missing} jobs of virtual clusters without nodes are left out", stacklevel=2
        )
    workload = workload.select(within & known)
    names = np.array(workload.virtual_clusters)
    parts = {}
    for name, part in nodes.parts.items():
        largest = int(workload.gpus[names == name].max(initial=1))
        count = max(int(len(part.nodes) * share), -(-largest // 8))
        parts[name] = Cluster(part.nodes[:count], part.pool)
    return workload, SimulatedCluster(parts)


def run(case: Case) -> Ran:
    """Run a case."""
    workload, nodes = venus() if case.trace == "venus" else philly(case.nodes)
    under = Conditions(
        Timing(events=True), seed=case.seed, lengths=case.lengths, estimates=case.estimates, services=case.services
    )
    source = source_of(False, None, nodes)
    return Ran.of(simulation(workload, nodes, case.policy, dict(case.options), source, under).run())


def positive(path: Path, folder: Path) -> Path:
    """Return a copy of a file of estimates in which those below 0 are 1000 s, as their authors load them.

    Jobs that the trace does not have are left out.
    """
    ids = set(venus()[0].ids)
    copy = folder / path.name.removesuffix(".gz")
    with gzip.open(path, "rt") as given, copy.open("w") as out:
        rows = csv.DictReader(given)
        writer = csv.writer(out)
        writer.writerow(("job_id", "estimate_s"))
        for row in rows:
            if row["job_id"] in ids:
                value = float(row["priority"])
                writer.writerow((row["job_id"], value if value >= 0 else 1000.0))
    return copy


def cases(seeds: int, folder: Path) -> list[Case]:
    """Return all runs."""
    learned = Case("qssf", "qssf", lengths=Lengths.FORETOLD)
    published = {"durations": {"form": "published"}}
    found = [Case("fifo", "fifo"), Case("sjf", "sjf"), Case("exact", "qssf")]
    found += [Case(f"exact {how}", "qssf", {"backfill": how}) for how in ("fill", "reserve")]
    for seed in range(seeds):
        of_seed = replace(learned, services={"durations": {"seed": seed}}, seed=seed)
        found += [of_seed, replace(of_seed, name="qssf reserve", options={"backfill": "reserve"})]
    found.append(replace(learned, name="qssf fill", services={"durations": {}}, options={"backfill": "fill"}))
    found.append(replace(learned, name="qssf published form", services=published))
    for name, path in ESTIMATES.items():
        told = Case(f"{name} estimates", "qssf", lengths=Lengths.ESTIMATED, estimates=positive(path, folder))
        found += [told, replace(told, name=f"{name} estimates reserve", options={"backfill": "reserve"})]
    for part, nodes in (("half", 0.5), ("quarter", 0.25)):
        fifo = Case(f"philly {part} fifo", "fifo", trace="philly", nodes=nodes)
        qssf = replace(fifo, name=f"philly {part} qssf", policy="qssf", lengths=Lengths.PERTURBED)
        found += [fifo, replace(fifo, name=f"philly {part} exact", policy="qssf")]
        found += [replace(qssf, seed=seed) for seed in range(seeds)]
    return found


def mean_of(runs: Sequence[Ran]) -> dict[str, float]:
    """Return each figure as the mean over runs."""
    each = [run.figures() for run in runs]
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}


def worst_pools(by_name: Mapping[str, Sequence[Ran]]) -> list[list[object]]:
    """Return the ten virtual clusters with the longest mean wait under `fifo`, and their waits in hours."""
    (fifo,) = by_name["fifo"]
    pools = np.array(fifo.pools)
    names = sorted(set(pools.tolist()), key=lambda name: -float(fifo.wait_s[pools == name].mean()))[:10]
    shown = ("fifo", "sjf", "qssf", "qssf reserve")

    def hours(name: str, pool: str) -> float:
        return float(np.mean([one.wait_s[np.array(one.pools) == pool].mean() for one in by_name[name]]) / 3600)

    return [[pool, int((pools == pool).sum()), *(hours(name, pool) for name in shown)] for pool in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=at_least(1), default=5)
    parser.add_argument("--workers", type=at_least(1), default=2, help="runs at a time")
    parser.add_argument("--only", choices=("venus", "philly"))
    options = parser.parse_args()
    needs(VENUS, VENUS_NODES, PHILLY, PHILLY_NODES, *ESTIMATES.values())
    by_name: dict[str, list[Ran]] = {}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(options.workers) as workers:
        asked = [case for case in cases(options.seeds, Path(folder)) if options.only in (None, case.trace)]
        for case, ran in zip(asked, workers.map(run, asked), strict=True):
            by_name.setdefault(case.name, []).append(ran)
    means = {name: mean_of(runs) for name, runs in by_name.items()}
    shown = ("mean_jct_s", "mean_wait_s", "jobs_waited", "p99_9_wait_h")
    rows: list[list[object]] = [
        [f"{name} (paper)", *map(str, PAPER[name]), "-", "-"] for name in PAPER if options.only != "philly"
    ]
    for name, found in means.items():
        waits = sorted(one.figures()["mean_wait_s"] for one in by_name[name])
        by_seed = f"{waits[0]:.0f} to {waits[-1]:.0f}" if len(waits) > 1 else "-"
        rows.append([name, *(f"{found[key]:.0f}" for key in shown), by_seed])
    heads = ["policy", "JCT", "wait", "jobs waited", "p99.9 wait (h)", "wait by seed"]
    table("Mean JCT and wait in seconds", heads, rows)
    figures: dict[str, float] = {}
    if options.only != "philly":
        columns = ["virtual cluster", "jobs", "fifo", "sjf", "qssf", "qssf reserve"]
        table("Mean wait in hours, the ten worst", columns, worst_pools(by_name))
        figures |= venus_figures(means)
    if options.only != "venus":
        for part, prefix in (("half", "philly"), ("quarter", "philly_quarter")):
            fifo = means[f"philly {part} fifo"]
            for name in ("qssf", "exact"):
                than = means[f"philly {part} {name}"]
                figures[f"{prefix}/jct_fifo_over_{name}"] = fifo["mean_jct_s"] / than["mean_jct_s"]
                figures[f"{prefix}/wait_fifo_over_{name}"] = fifo["mean_wait_s"] / than["mean_wait_s"]
    finish("qssf_replay", {name: round(value, 4) for name, value in figures.items()})


def venus_figures(means: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the figures of Venus by name."""
    found = {
        f"{name.replace(' ', '_')}/{key}": of[key]
        for name, of in means.items()
        if not name.startswith("philly")
        for key in ("mean_jct_s", "mean_wait_s", "jobs_waited", "p99_9_wait_h")
    }
    for name in ("fifo", "sjf"):
        for key, paper in zip(("mean_jct_s", "mean_wait_s", "jobs_waited"), PAPER[name], strict=True):
            found[f"{name}/{key}_over_paper"] = means[name][key] / paper
    for group in ("short", "middle", "long"):
        for name in ("qssf", "qssf reserve"):
            ratio = means["fifo"][f"{group}_wait_s"] / means[name][f"{group}_wait_s"]
            found[f"{name.replace(' ', '_')}/{group}_fifo_over_this"] = ratio
    apart = [one["jct_minus_wait_s"] for name, one in means.items() if not name.startswith("philly")]
    found["jct_minus_wait_spread_s"] = max(apart) - min(apart)
    return found


if __name__ == "__main__":
    main()
