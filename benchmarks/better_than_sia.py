"""Policy `coadapt` against `sia` on the same traces.

`python -m benchmarks.better_than_sia` runs both over the traces of Sia's evaluation that lie beside the checkout:
Philly, Helios' Saturn and newTrace. They run on its cluster of 64 GPUs of three types, from measured profiles.
`--traces GLOB` takes other traces, and `--first N` takes N of each set. Every figure is that of `coadapt` over
that of `sia`, each a mean over the traces:

* `mean_jct_ratio`, `p99_jct_ratio`, `makespan_ratio`, `worst_rho_ratio`, over all traces, and by set; `sia` is as
  published: rounds at fixed times, and every job is profiled and learns for itself.
* `as_live/…`: over `sia` with what our live service gives any policy, early rounds and what earlier jobs measured.

`--ablations` runs `coadapt` without each of its ideas over the first trace of each set. It also runs `sia` with
the ideas that any policy can be given: early rounds, and what earlier jobs measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.jobs.knowledge import Knows
from coadapt.simulator.replay import Source, baseline_of, kept, simulation, source_of
from coadapt.simulator.traces.cluster_file import SimulatedCluster, read_cluster
from coadapt.simulator.traces.readers import read_trace

from .harness import DATA, finish, needs, table

SIA = DATA / "sia" / "sia-simulator"
CLUSTER = "6x t4:4, 3x rtx:8, 2x a100:8"
SETS = ("philly", "saturn", "newtrace")
SHOWN = {"mean_jct": "mean_jct_h", "p99_jct": "p99_jct_h", "makespan": "makespan_h", "worst_rho": "worst_rho"}
MORE = ("gpu_hours_per_job", "restarts_per_job", "policy_median_ms")


@dataclass(frozen=True)
class Variant:
    label: str
    policy: str
    options: tuple[tuple[str, Any], ...] = ()
    early_s: float | None = None
    knows: Knows | None = None  # None: what the policy counts on


AS_LIVE = "sia, as live"
BOTH = (
    Variant("sia", "sia"),
    Variant(AS_LIVE, "sia", early_s=0.5, knows=Knows.PROFILE_CACHE),
    Variant("coadapt", "coadapt"),
)
ABLATIONS = (
    Variant("sia, early rounds", "sia", early_s=0.5),
    Variant("sia, profile cache", "sia", knows=Knows.PROFILE_CACHE),
    Variant("without the profile cache", "coadapt", knows=Knows.BOOTSTRAP),
    Variant("without early rounds", "coadapt", (("early_rounds", False),)),
    Variant("starts on 1, doubles", "coadapt", (("first_replicas", 1), ("reach", 2.0))),
    Variant("without noise ahead", "coadapt", (("noise_ahead", 0.0),)),
    Variant("same horizon in old jobs", "coadapt", (("horizon_growth", 0.0),)),
    Variant("horizon beyond the end", "coadapt", (("ends", False),)),
    Variant("p = -0.5", "coadapt", (("p", -0.5),)),
    Variant("models trusted at all sizes", "coadapt", (("scaling_loss", 0.0),)),
    Variant("no room kept", "coadapt", (("room", 0.0),)),
)


@cache
def world(profiles: Path) -> tuple[SimulatedCluster, Source]:
    nodes = read_cluster(CLUSTER)
    return nodes, source_of(False, profiles, nodes)


def run(trace: Path, variant: Variant) -> dict[str, float]:
    nodes, source = world(SIA / "traces")
    conditions = Conditions(Timing(early_s=variant.early_s), variant.knows)
    outcome = simulation(read_trace(trace), nodes, variant.policy, dict(variant.options), source, conditions).run()
    return kept(variant.label, outcome, baseline_of(source), {}).figures()


def run_all(
    traces: Sequence[Path], variants: Sequence[Variant], processes: int
) -> dict[str, dict[Path, dict[str, float]]]:
    """Run all variants: label -> trace -> figures; print each as it ends."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # of the processes: their matrices are small
    found: dict[str, dict[Path, dict[str, float]]] = {variant.label: {} for variant in variants}
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = [(v, t, pool.submit(run, t, v)) for t in traces for v in variants]
        for variant, trace, future in futures:
            figures = found[variant.label][trace] = future.result()
            shown = "  ".join(f"{name} {figures[key]:.3f}" for name, key in SHOWN.items())
            print(f"{name_of(trace):22s} {variant.label:32s} {shown}", flush=True)
    return found


def traces_of(name: str) -> list[Path]:
    """Return the traces of a folder, workload-2 before workload-10."""
    return sorted((SIA / "workloads" / name).glob("*.csv"), key=lambda path: (len(path.stem), path.stem))


def name_of(trace: Path) -> str:
    return f"{trace.parent.name}/{trace.stem}"


def ratios(
    ours: Mapping[Path, Mapping[str, float]], theirs: Mapping[Path, Mapping[str, float]]
) -> dict[str, float]:
    """Return ratios of the means over the traces."""

    def mean(of: Mapping[Path, Mapping[str, float]], key: str) -> float:
        return float(np.mean([figures[key] for figures in of.values()]))

    return {f"{name}_ratio": mean(ours, key) / mean(theirs, key) for name, key in SHOWN.items()}


def rows(found: Mapping[str, Mapping[Path, Mapping[str, float]]], base: str) -> list[list[object]]:
    """Return a row for each variant: its figures, means over the traces, and their ratio to the base's."""
    out: list[list[object]] = []
    for label, runs in found.items():
        over = ratios(runs, found[base])
        row: list[object] = [label]
        for name, key in SHOWN.items():
            row.append(f"{np.mean([f[key] for f in runs.values()]):.3f} ({over[name + '_ratio'] - 1:+.1%})")
        row += [f"{np.mean([f[key] for f in runs.values()]):.2f}" for key in MORE]
        out.append(row)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--traces", metavar="GLOB", help="CSV files of Sia's format, below the current folder or absolute"
    )
    parser.add_argument("--first", type=int, metavar="N", help="N traces of each set; 1 with --ablations")
    parser.add_argument("--ablations", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if options.traces:
        pattern = Path(options.traces)
        root = Path(pattern.anchor or ".")
        traces = sorted(root.glob(str(pattern.relative_to(pattern.anchor))))
    else:
        needs(SIA)
        most = options.first or (1 if options.ablations else None)
        traces = [trace for name in SETS for trace in traces_of(name)[:most]]
    if not traces:
        parser.error(f"--traces: no file is {options.traces}")
    found = run_all(traces, BOTH + (ABLATIONS if options.ablations else ()), options.processes)
    heads = ["(to sia)", "mean JCT", "p99 JCT", "makespan", "worst ρ", "GPU-h", "restarts", "ms"]
    figures = ratios(found["coadapt"], found["sia"])
    for name in sorted({trace.parent.name for trace in traces}):
        part = {label: {t: f for t, f in runs.items() if t.parent.name == name} for label, runs in found.items()}
        table(f"{name}, {len(part['sia'])} traces", heads, rows(part, "sia"))
        figures |= {f"{name}/{key}": value for key, value in ratios(part["coadapt"], part["sia"]).items()}
    table(f"all, {len(traces)} traces", heads, rows(found, "sia"))
    figures |= {f"as_live/{key}": value for key, value in ratios(found["coadapt"], found[AS_LIVE]).items()}
    if options.ablations:
        for variant in ABLATIONS:
            over = ratios(found[variant.label], found["sia"])
            figures[f"ablation/{variant.label}/mean_jct_ratio"] = over["mean_jct_ratio"]
    finish("better_than_sia", {**figures, "traces": float(len(traces))})


if __name__ == "__main__":
    main()
