"""How fast the simulator is: Sia's artifact trace, and a day of 40,000 jobs on 10,240 GPUs.

`python -m benchmarks.simulator_speed` prints the figures

* `saturn1_sia_s`: CPU seconds of `A/saturn-1/sia` of `benchmarks.replay_fidelity`, reading excluded;
* `pai40k_las_s`: wall seconds of COpter's Alibaba-PAI trace of 40k jobs under `las`, reading excluded;
* `pai40k_cpu_s`: CPU seconds of the same;
* `pai40k_peak_gib`: the most memory that this run's process ever held.

The 40k trace is 24 h on 40 times COpter's cluster of 256 GPUs of 7 types. Its jobs ask for the most
GPUs at which they are half as efficient as on the fewest ("TunedJobs"; `GoodputTable.request`). The type of median
speed counts.
`--jobs 2k` or `10k` runs the smaller traces on clusters of 2 and 10 times 256 GPUs; `--profile` prints where time
goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import time

from coadapt.policies.catalogue import make_policy
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.goodput_tables import GoodputTableWorld, read_tables, requested
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.readers import read_trace

from .harness import DATA, finish, needs, table
from .replay_fidelity import REPLAYS, replay

COPTER = DATA / "sia" / "copter-continuous-scheduling"
# Nodes and GPUs per node of COpter's base cluster of 256 GPUs, and how often it stands for each trace.
BASE = {
    "azure": (6, 8), "aws": (8, 4), "dgx-ext": (4, 8), "quad": (8, 4), "rtx": (6, 8), "a10-pcie": (8, 4),
    "a100-pcie": (8, 4),
}  # fmt: skip
SCALES = {"2k": 2, "10k": 10, "40k": 40}


def pai(jobs: str, policy: str = "las") -> tuple[Outcome, float, float]:
    """Return (outcome, wall seconds, CPU seconds) of one of COpter's traces."""
    scale = SCALES[jobs]
    cluster = cluster_of(", ".join(f"{scale * nodes}x {t}:{gpus}" for t, (nodes, gpus) in BASE.items()))
    trace = read_trace(COPTER / "workloads" / f"{jobs}jobs_24hrs_pai" / "workload-1.csv")
    workload, tables = requested(trace, read_tables(COPTER / "profiles"), cluster.gpu_types)
    wall, cpu = time.perf_counter(), time.process_time()
    engine = Engine(GoodputTableWorld(workload, tables), cluster, make_policy(policy), Timing(60.0))
    outcome = engine.run()
    return outcome, time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", choices=sorted(SCALES), default="40k")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", choices=("saturn1", "pai"))
    options = parser.parse_args()
    needs(COPTER)
    figures: dict[str, float] = {}
    profile = cProfile.Profile()
    if options.only != "saturn1":
        if options.profile:
            profile.enable()
        outcome, wall_s, cpu_s = pai(options.jobs)
        profile.disable()
        name = f"pai{options.jobs}"
        figures |= {f"{name}_las_s": wall_s, f"{name}_cpu_s": cpu_s}
        # Before anything else runs, so that the peak is this run's.
        figures[f"{name}_peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        kept = ("mean_jct_h", "p99_jct_h", "makespan_h", "mean_queueing_h", "preemptions", "mean_contention")
        figures |= {f"{name}_{key}": value for key, value in outcome.summary().items() if key in kept}
    if options.only != "pai":
        row = next(row for row in REPLAYS if row.name == "A/saturn-1/sia")
        if options.profile:
            profile.enable()
        _, figures["saturn1_sia_s"] = replay(row)
        profile.disable()
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    table("The simulator's speed", ["figure", "value"], [[key, value] for key, value in figures.items()])
    finish("simulator_speed", figures)


if __name__ == "__main__":
    main()
