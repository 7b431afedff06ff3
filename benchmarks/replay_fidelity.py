"""Our simulator beside the public ones: the same traces, semantics and policies, figure by figure.

`python -m benchmarks.replay_fidelity` replays every row of the table below and prints ours beside the published
simulator's figure. Set A is Sia's artifact on its mixed cluster of 64 GPUs, and B is Lucid's simulator on
Helios Venus. C is Gavel's simulator on its cluster of 48 GPUs, where the policy is Gavel's objective.
Another trace:

    python -m benchmarks.replay_fidelity --trace FILE --policy sia --cluster "6x t4:4, 3x rtx:8, 2x a100:8" \\
        --compat sia-artifact

Sia's solver finds one of many equal plans and Pollux searches at random, so one run is one draw. Ours is the mean
of several, with their standard deviation.

Figures: `<set>/<trace>/<policy>/<figure>`, `.../rel_err_<figure>` and, of several draws, `.../sd_<figure>`.
"""

from __future__ import annotations

import argparse
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from coadapt.core.cluster import Cluster
from coadapt.policies.catalogue import make_policy
from coadapt.policies.pollux import PolluxOptions
from coadapt.simulator.compat import gavel as gavel_compat
from coadapt.simulator.compat import lucid, sia_gavel
from coadapt.simulator.compat.sia_artifact import SLOWDOWN, ArtifactKnowledge, ArtifactSia
from coadapt.simulator.compat.sia_gavel import ArtifactGavel, AsAsked
from coadapt.simulator.compat.sia_pollux import ArtifactPollux, BlindKnowledge
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.applications import MeasuredApplications
from coadapt.simulator.jobs.measured_rates import read_rates
from coadapt.simulator.run import simulate
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .harness import DATA, finish, needs, table

SIA = DATA / "sia" / "sia-simulator"
GAVEL = DATA / "gavel"
MIXED_64 = "6x t4:4, 3x rtx:8, 2x a100:8"
GAVEL_48 = "8x v100:1, 16x p100:1, 24x k80:1"
DRAWS = {"sia": 10, "pollux": 3}
Make = Callable[[Workload, Cluster], Engine]


def sia_artifact(policy: str, seed: int = 0) -> Make:
    """Return the semantics of Sia's published simulator; `seed`: of what its policy leaves to chance."""

    def make(workload: Workload, cluster: Cluster) -> Engine:
        applications = MeasuredApplications(SIA / "traces", cluster.gpu_types)
        mine = [applications[name] for name in workload.applications]
        asked = workload.batch_size.tolist()
        position = {id: i for i, id in enumerate(workload.ids)}
        if policy == "gavel":
            workload = workload.tuned()
            tuned = AsAsked(workload, mine)
            return Engine(
                AdaptiveWorld(workload, mine, tuned, SLOWDOWN),
                cluster,
                ArtifactGavel(tuned, position.__getitem__),
                Timing(sia_gavel.ROUND_S),
            )
        if policy == "pollux":
            blind = BlindKnowledge(mine, asked)
            return Engine(
                AdaptiveWorld(workload, mine, blind, SLOWDOWN),
                cluster,
                ArtifactPollux(blind, position.__getitem__, PolluxOptions(seed=seed)),
                Timing(60.0),
            )
        if policy != "sia":
            raise ValueError(f"policy: {policy!r} has no artifact semantics; accepted: gavel, pollux, sia")
        knowledge = ArtifactKnowledge(mine, asked)
        world = AdaptiveWorld(workload, mine, knowledge, SLOWDOWN)
        return Engine(world, cluster, ArtifactSia(knowledge, position.__getitem__, seed), Timing(60.0))

    return make


def gavel(objective: str) -> Make:
    """Return the semantics of Gavel's published simulator, and its policy with this objective."""

    def make(workload: Workload, cluster: Cluster) -> Engine:
        rates = read_rates(GAVEL / "simulation_throughputs.json.gz")
        policy = make_policy("gavel", objective=objective, **gavel_compat.OPTIONS)
        return gavel_compat.engine(workload, rates, cluster, policy)

    return make


@dataclass(frozen=True)
class Replay:
    """One row: a trace under a policy, and what the published simulator says of it."""

    name: str
    trace: Path
    policy: str
    compat: str
    cluster: str
    published: Mapping[str, float]
    member: str = ""  # of the trace, an archive


VENUS = DATA / "helios" / "venus_sept2020_gpu_jobs.csv.gz"
VENUS_NODES = str(DATA / "lucid" / "venus_vc_config.csv")
REPLAYS = (
    Replay(
        "A/saturn-1/sia", SIA / "workloads/saturn/workload-1.csv", "sia", "sia-artifact", MIXED_64,
        {"mean_jct_h": 0.5809, "p99_jct_h": 7.545, "makespan_h": 12.461, "gpu_hours_per_job": 3.612,
        "restarts_per_job": 4.119},
    ),
    Replay(
        "A/philly-1/sia", SIA / "workloads/philly/workload-1.csv", "sia", "sia-artifact", MIXED_64,
        {"mean_jct_h": 0.5416, "p99_jct_h": 7.840, "makespan_h": 15.531, "gpu_hours_per_job": 4.027,
        "restarts_per_job": 4.256},
    ),
    Replay(
        "A/saturn-1/gavel", SIA / "workloads/saturn/workload-1.csv", "gavel", "sia-artifact", MIXED_64,
        {"mean_jct_h": 1.7984, "p99_jct_h": 21.767, "makespan_h": 27.274, "gpu_hours_per_job": 7.143,
        "restarts_per_job": 3.719},
    ),
    Replay(
        "A/saturn-1/pollux", SIA / "workloads/saturn/workload-1.csv", "pollux", "sia-artifact", MIXED_64,
        {"mean_jct_h": 0.880, "p99_jct_h": 11.16, "makespan_h": 20.38, "gpu_hours_per_job": 4.33,
        "restarts_per_job": 5.1},
    ),
    Replay(
        "A/philly-1/gavel", SIA / "workloads/philly/workload-1.csv", "gavel", "sia-artifact", MIXED_64,
        {"mean_jct_h": 1.6712, "p99_jct_h": 27.562, "makespan_h": 35.629, "gpu_hours_per_job": 10.271,
        "restarts_per_job": 6.419},
    ),
    Replay(
        "B/venus/fifo", VENUS, "fifo", "lucid", VENUS_NODES,
        {"mean_jct_h": 65_720 / 3600, "mean_queueing_h": 53_951 / 3600},
    ),
    Replay(
        "B/venus/las", VENUS, "las", "lucid", VENUS_NODES,
        {"mean_jct_h": 14_700 / 3600, "mean_queueing_h": 2_915 / 3600, "preemptions": 7_466.0},
    ),
    Replay("B/venus/sjf", VENUS, "sjf", "lucid", VENUS_NODES, {}),
    Replay("B/venus/srtf", VENUS, "srtf", "lucid", VENUS_NODES, {}),
    *(
        Replay(
            f"C/physical/{objective}", GAVEL / "traces.tar.xz", objective, "gavel", GAVEL_48,
            {"mean_jct_h": jct_s / 3600, "makespan_h": total_s / 3600, "utilisation": utilisation},
            "traces/physical_cluster/max_min_fairness.trace",
        )
        for objective, jct_s, total_s, utilisation in (
            ("max_min_fairness_perf", 14_622.8, 63_944.5, 0.790),
            ("max_sum_throughput_perf", 17_071.7, 63_937.3, 0.785),
            ("max_min_fairness", 19_989.3, 77_141.3, 0.743),
        )
    ),
)  # fmt: skip


def make_of(row: Replay, seed: int = 0) -> Make:
    if row.compat == "sia-artifact":
        return sia_artifact(row.policy, seed)
    if row.compat == "gavel":
        return gavel(row.policy)
    return lambda workload, cluster: lucid.engine(row.policy, workload, cluster)


def figures_of(outcome: Outcome, policy: str, compat: str) -> dict[str, float]:
    """Return the published simulators' definitions of our figures."""
    found = outcome.summary()
    if compat == "sia-artifact":
        # There a job that ends within a round holds its GPUs to the round's end.
        jct_h = np.sort(outcome.jct_s) / 3600
        found["p99_jct_h"] = float(jct_h[int(0.99 * len(jct_h))])
        last = np.zeros(len(jct_h))
        for holding in outcome.holdings:
            if holding.gpus:
                last[holding.job] = holding.gpus
        interval_s = sia_gavel.ROUND_S if policy == "gavel" else 60.0
        more_s = np.ceil(outcome.finished_s / interval_s) * interval_s - outcome.finished_s
        found["gpu_hours_per_job"] = float((outcome.attained_gpu_s + last * more_s).mean() / 3600)
    if compat == "gavel":
        gpus = sum(outcome.cluster.capacity().values())
        found["utilisation"] = float(outcome.attained_gpu_s.sum() / gpus / outcome.finished_s.max())
    return found


def read(trace: Path, member: str = "") -> Workload:
    """Read a trace, or the one that is this member of an archive."""
    if not member:
        return read_trace(trace)
    with tempfile.TemporaryDirectory() as folder, tarfile.open(trace) as archive:
        archive.extract(member, folder, filter="data")
        return read_trace(Path(folder) / member)


def replay(row: Replay) -> tuple[list[dict[str, float]], float]:
    """Return (figures of each draw, CPU seconds of one run)."""
    workload, cluster = read(row.trace, row.member), read_cluster(row.cluster)
    draws = DRAWS.get(row.policy, 1) if row.compat == "sia-artifact" else 1
    start = time.process_time()
    found = [
        figures_of(simulate(workload, cluster, make_of(row, seed)), row.policy, row.compat)
        for seed in range(draws)
    ]
    return found, (time.process_time() - start) / draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--policy", default="sia")
    parser.add_argument("--cluster", default=MIXED_64)
    parser.add_argument("--compat", choices=("sia-artifact", "lucid", "gavel"), default="sia-artifact")
    parser.add_argument("--only", help="a part of a row's name")
    options = parser.parse_args()
    rows = REPLAYS
    if options.trace is not None:
        name = f"given/{options.trace.stem}/{options.policy}"
        rows = (Replay(name, options.trace, options.policy, options.compat, options.cluster, {}),)
    else:
        needs(SIA)
    figures: dict[str, float] = {}
    lines: list[list[object]] = []
    for row in rows:
        if options.only and options.only not in row.name:
            continue
        draws, cpu_s = replay(row)
        for key in row.published or (
            "mean_jct_h",
            "p99_jct_h",
            "makespan_h",
            "gpu_hours_per_job",
            "mean_queueing_h",
        ):
            drawn = [found[key] for found in draws]
            ours = figures[f"{row.name}/{key}"] = float(np.mean(drawn))
            published = row.published.get(key)
            off = "" if published is None else 100 * (ours / published - 1)
            if published is not None:
                figures[f"{row.name}/rel_err_{key}"] = ours / published - 1
            if len(draws) > 1:
                figures[f"{row.name}/sd_{key}"] = float(np.std(drawn, ddof=1))
            spread = figures.get(f"{row.name}/sd_{key}", "")
            lines.append([row.name, key, "" if published is None else published, ours, spread, off, cpu_s])
    heads = ["row", "figure", "published", "ours", "± sd", "off [%]", "CPU s"]
    table("Ours beside the published simulators", heads, lines)
    finish("replay_fidelity", figures)


if __name__ == "__main__":
    main()
