"""Lucid on Venus' September of 2020 with its published semantics, beside Tables 4.4 to 4.6 of the thesis.

    python -m benchmarks.lucid_replay [--pictures FOLDER]

The estimates, profiles and speeds of pairs are the authors'. `fifo` and `las` run beside it in the same semantics.
* rel_err_…: of mean JCT, mean queue and the 99.9th percentile of queues, over Tables 4.4 and 4.6.
* finished_in_profiler_N: part of all jobs that end within T_prof of N s; …_error: the largest difference from
  Table 4.6. profiling_queue_s: their wait for it.
* large_jct_h, small_jct_h: jobs of more than 8 GPUs, and the others (Table 4.5).
* utilisation_over_las, memory_over_las: of GPUs that jobs hold, sampled each minute while jobs arrive.
* short_jobs_queued: jobs of at most 60 s that waited for more than a second; …_minute: for more than a minute.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from coadapt.policies.lucid import LucidOptions
from coadapt.policies.packing.binder import ModeOptions, Partner
from coadapt.policies.packing.profiler import ProfilerOptions
from coadapt.simulator.compat.lucid import engine as baseline
from coadapt.simulator.compat.lucid_packed import Replayed, profiled, replayed
from coadapt.simulator.run import Simulation

from .harness import finish, needs, table
from .lucid_data import FILES, Lucid, venus
from .lucid_pictures import Ran, draw, figures_of

PROFILER = ProfilerOptions(nodes=2, n_prof=8, most_borrowed=1)
PUBLISHED = LucidOptions(
    modes=ModeOptions(forecast_only=True, off_jobs=2.0),
    partner=Partner.FIRST,
    compare_totals=True,
    profiler=ProfilerOptions(nodes=0),
)
MEAN_JCT_S, MEAN_QUEUE_S, P99_9_QUEUE_S = 12_886.0, 915.0, 94_140.0  # Tables 4.6 and 4.4
FINISHED = {100: 0.2765, 200: 0.4461, 300: 0.5373, 600: 0.6440}  # Table 4.6
LARGE_JCT_H, SMALL_JCT_H = 4.59, 3.46  # Table 4.5


def lucid(data: Lucid, t_prof_s: float = 200.0, options: LucidOptions = PUBLISHED) -> tuple[Ran, np.ndarray]:
    """Return a run, and the queues of the profiler of the jobs that were in it."""
    models = data.models()
    assert models.ahead is not None
    profiler = PROFILER.model_copy(update={"t_prof_s": t_prof_s, "burst_s": t_prof_s})
    passed = profiled(data.workload, profiler, models.ahead)
    run, made = replayed(
        data.workload, data.nodes, passed, options, models, data.estimates_s["ebm"], data.profiles,
        data.true_pairs(np.inf),
    )  # fmt: skip
    return Ran(run, made.outcome()), passed.queue_s[passed.measured]


def other(data: Lucid, policy: str) -> Ran:
    """Return a run of a policy that shares nothing, on all nodes."""
    from coadapt.simulator.traces.cluster_file import read_cluster

    from .lucid_data import NODES

    outcome = Simulation(
        data.workload, read_cluster(str(NODES)), lambda part, on: baseline(policy, part, on)
    ).run()
    return Ran(Replayed(outcome.jct_s, outcome.queueing_s), outcome)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="write pictures; needs the extra `report`")
    args = parser.parse_args()
    needs(*FILES)
    data, rows, figures = venus(), [], dict[str, float]()
    made: dict[str, Ran] = {}
    for name in ("fifo", "las"):
        made[name] = other(data, name)
    began_s = time.perf_counter()
    made["lucid"], queues = lucid(data)
    took_s = time.perf_counter() - began_s
    runs = {name: ran.result for name, ran in made.items()}
    for name, run in runs.items():
        rows.append([name, run.jct_s.mean(), run.queue_s.mean(), np.percentile(run.queue_s, 99.9)])
    rows.append(["Table 4.4, 4.6", MEAN_JCT_S, MEAN_QUEUE_S, P99_9_QUEUE_S])
    table("Venus, seconds", ["", "mean JCT", "mean queue", "P99.9 queue"], rows)
    own, large = runs["lucid"], data.workload.gpus > 8
    figures = {
        "venus/mean_jct_s": float(own.jct_s.mean()),
        "venus/rel_err_mean_jct": abs(float(own.jct_s.mean()) / MEAN_JCT_S - 1),
        "venus/rel_err_mean_queue": abs(float(own.queue_s.mean()) / MEAN_QUEUE_S - 1),
        "venus/rel_err_p99_9_queue": abs(float(np.percentile(own.queue_s, 99.9)) / P99_9_QUEUE_S - 1),
        "profiling_queue_s": float(queues.mean()),
        "jct_over_fifo": float(runs["fifo"].jct_s.mean() / own.jct_s.mean()),
        "jct_over_las": float(runs["las"].jct_s.mean() / own.jct_s.mean()),
        "large_jct_h": float(own.jct_s[large].mean() / 3600),
        "small_jct_h": float(own.jct_s[~large].mean() / 3600),
        "run_s": took_s,
    } | figures_of(data, made)
    figures["venus/rel_err_large_jct"] = abs(figures["large_jct_h"] / LARGE_JCT_H - 1)
    figures["venus/rel_err_small_jct"] = abs(figures["small_jct_h"] / SMALL_JCT_H - 1)
    rows, off = [], 0.0
    for t_prof_s, told in FINISHED.items():
        passed = profiled(
            data.workload,
            PROFILER.model_copy(update={"t_prof_s": float(t_prof_s), "burst_s": float(t_prof_s)}),
            data.models().ahead,
        )
        figures[f"finished_in_profiler_{t_prof_s}"] = float(passed.ended.mean())
        off = max(off, abs(float(passed.ended.mean()) - told))
        rows.append([t_prof_s, passed.ended.mean(), told, passed.queue_s[passed.measured].mean()])
    figures["finished_in_profiler_error"] = off
    table("The profiler", ["T_prof (s)", "finished", "Table 4.6", "queue (s)"], rows)
    if args.pictures is not None:
        for path in draw(data, made, args.pictures):
            print(path)
    finish("lucid_replay", figures)


if __name__ == "__main__":
    main()
