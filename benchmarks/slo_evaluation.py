"""What jobs with deadlines miss, and how long others take: UniSched beside its peers on traces with deadlines.

    python -m benchmarks.slo_evaluation [--mixes p_mix1 h_mix1 …] [--days 4-7] [--policies …] [--seeds 1]

`p_slo`, `p_mix1`, `p_mix2`: Chronus' three Philly traces on 120 nodes of 8 GPUs.
`h_slo`, `h_mix1`, `h_mix2`: jobs of Helios Venus of 20 minutes and more, on 96 nodes of 8, with deadlines by the
paper's rule: strict only; 70 % strict; 26 % strict and 65 % soft.
Of each trace some days are replayed (`--days`). Every policy has rounds every five minutes, lengths as they are,
and 30 s for each restart. Philly's jobs are slower on more nodes, as Chronus measured; Venus' are not.

`<mix>/<policy>/miss_rate`: the part of all worth that was not earned (equation 15, its sign put right).
`<mix>/<policy>/be_jct_h`: mean JCT of jobs without a deadline, h.
`<mix>/load`: GPU-hours asked for, over those there. `<mix>/jobs`: how many jobs.
`<mix>/miss_over_<policy>`, `be_jct_over_<policy>`: `unisched` over the peer; 0 over 0 counts as 1.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.deadlines import deadline_figures
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.deadlines import DeadlineRule, with_deadlines
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .arguments import at_least
from .harness import DATA, finish, needs, table

CHRONUS, VENUS = DATA / "chronus", DATA / "helios"
DAY_S, ROUND_S = 86_400.0, 300.0
PHILLY = {"p_slo": "SLO", "p_mix1": "MIX1", "p_mix2": "MIX2"}
RULES = {
    "h_slo": DeadlineRule(),
    "h_mix1": DeadlineRule(strict=0.7),
    "h_mix2": DeadlineRule(strict=0.26, soft=0.65),
}
POLICIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "unisched": ("unisched", {}),
    "published": ("unisched", {"published": True, "time_limit_s": 0.3}),
    "laxity": ("laxity", {}),
    "hydra": ("hydra", {}),
    "genie": ("genie", {}),
    "themis": ("themis", {}),
    "srtf": ("srtf", {}),
}


@dataclass(frozen=True)
class Mix:
    """A trace, the nodes that it runs on, and how much slower jobs are on more of them."""

    jobs: Workload
    nodes: str
    speeds: Path | None


def mix_of(name: str, days: tuple[float, float], seed: int) -> Mix:
    """Return the jobs of some days of a mix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jobs without GPUs
        if name in PHILLY:
            jobs = read_trace(CHRONUS / f"trace_job_Philly_{PHILLY[name]}.csv.gz")
            return Mix(stretch(jobs, days), "120x v100:8", CHRONUS / "model_info.json")
        jobs = stretch(read_trace(VENUS / "venus_sept2020_gpu_jobs.csv.gz"), days)
    jobs = jobs.select((jobs.duration_s >= 1200) & (jobs.gpus <= 64))
    return Mix(with_deadlines(jobs, RULES[name], seed), "96x v100:8", None)


def stretch(jobs: Workload, days: tuple[float, float]) -> Workload:
    """Return the jobs that were submitted in some days, from second 0 on."""
    first, last = (day * DAY_S for day in days)
    found = jobs.select((jobs.submit_s >= first) & (jobs.submit_s < last))
    return replace(found, submit_s=found.submit_s - first, virtual_clusters=("",) * len(found))


def measured(mix: Mix, policies: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the figures of each policy on a mix."""
    nodes, found = read_cluster(mix.nodes), {}
    under = Conditions(timing=Timing(ROUND_S), node_speeds=mix.speeds)
    for name in policies:
        policy, options = POLICIES[name]
        began = time.perf_counter()
        outcome = simulation(mix.jobs, nodes, policy, options, source_of(False, None, nodes), under).run()
        figures = deadline_figures(outcome)
        found[name] = figures | {
            "policy_p99_s": float(np.quantile(outcome.policy_s, 0.99)),
            "trace_min": (time.perf_counter() - began) / 60,
        }
        print(f"{name}: {found[name]}", flush=True)
    return found


def over(own: float, other: float) -> float:
    """Return own / other; 0 over 0 is 1."""
    if other == 0 or math.isnan(other):
        return 1.0 if own == other else math.inf if not math.isnan(other) else math.nan
    return own / other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mixes", nargs="+", choices=[*PHILLY, *RULES], default=[*PHILLY])
    parser.add_argument("--policies", nargs="+", choices=list(POLICIES), default=list(POLICIES))
    parser.add_argument("--days", default="0-15", help="which days of each trace, as FIRST-LAST")
    parser.add_argument("--seeds", type=at_least(1), default=1, help="of the mixes that are drawn")
    options = parser.parse_args()
    first, _, last = options.days.partition("-")
    days = float(first), float(last)
    needs(CHRONUS, VENUS)
    figures: dict[str, float] = {}
    for name in options.mixes:
        runs = []
        for seed in range(options.seeds if name in RULES else 1):
            mix = mix_of(name, days, seed)
            span_s = float(np.ptp(mix.jobs.submit_s))
            gpus = sum(node.gpus for part in read_cluster(mix.nodes).parts.values() for node in part.nodes)
            load = float(mix.jobs.gpus @ mix.jobs.duration_s) / span_s / gpus
            print(f"{name}, seed {seed}: {len(mix.jobs)} jobs, load {load:.3g}", flush=True)
            runs.append(measured(mix, options.policies))
        figures |= {f"{name}/load": load, f"{name}/jobs": float(len(mix.jobs))}
        means = {
            policy: {key: float(np.mean([run[policy][key] for run in runs])) for key in runs[0][policy]}
            for policy in options.policies
        }
        keys = ("miss_rate", "late_jobs", "be_jct_h", "deadline_jct_h", "suspensions_deadline", "suspensions_be")
        rows = [
            [policy, *(own[key] for key in (*keys, "policy_p99_s", "trace_min"))] for policy, own in means.items()
        ]
        table(f"{name}: load {load:.3g}, {len(mix.jobs)} jobs", ["", *keys, "policy_p99_s", "trace_min"], rows)
        for policy, own in means.items():
            figures |= {f"{name}/{policy}/{key}": value for key, value in own.items()}
            if policy != "unisched" and "unisched" in means:
                best = means["unisched"]
                figures[f"{name}/miss_over_{policy}"] = over(best["miss_rate"], own["miss_rate"])
                figures[f"{name}/be_jct_over_{policy}"] = over(best["be_jct_h"], own["be_jct_h"])
    finish("slo_evaluation", figures)


if __name__ == "__main__":
    main()
