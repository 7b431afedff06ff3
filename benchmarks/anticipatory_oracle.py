"""How near a virtual clock comes to the best starts that are possible, on small made-up traces (Figure 15b).

    python -m benchmarks.anticipatory_oracle [--traces 40] [--hours 8] [--jobs 30] [--parts 30] [--limit-s 60]

Each trace has the bursts of some hours of 2 to 4 teams of 8 GPUs, with 1.2 times the usual load, and at most
`--jobs` jobs. Those in which nobody waits with nothing lent do not count. All is known. The oracle is an integer
program, solved by HiGHS: least waiting, and nobody starts later than with nothing lent. A job may start `--parts`
times in each of its lengths. Policies are bound to no such times, so one may wait less. Traces that are not solved
to the optimum within the limit are counted, and left out.

`delay_ratio`: what jobs wait under `virtual_clock`, over what they wait by the oracle; sums of all traces.
`anticipatory_delay_ratio`, `blocking_delay_ratio`, `reference_delay_ratio`: the same of `anticipatory` that
foresees all, as published and with blocking reservations, and of nothing lent. `delay_ratio_worst`: of a trace.
`time_ratio`: seconds of the program over those of all decisions of `virtual_clock`, the median; the paper has 100.
`oracle_late`, `virtual_clock_late`: jobs that start later than with nothing lent. `unsolved`: traces.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median

import numpy as np
from coadapt.optimizer.best_starts import BestStarts, Startable, best_starts
from coadapt.policies.lending.virtual_clock import Known, alone
from coadapt.simulator.bursts import BASE, Bursts, bursts, teams_file
from coadapt.simulator.traces.workload import Workload

from .anticipatory_synthetic import POLICIES, simulated
from .arguments import at_least
from .harness import finish, table

LATE_S, SOLVED = 1.0, 1e-4
CASES = {"virtual_clock": "virtual_clock", "anticipatory": "anticipatory", "blocking": "blocking"}


def small(seed: int, hours: float) -> tuple[Bursts, Workload]:
    """Return how a trace is drawn, and its jobs."""
    how = replace(BASE, queues=2 + seed % 3, days=hours / 24, load=1.2)
    return how, bursts(how, seed)


def latest_s(jobs: Workload, how: Bursts) -> np.ndarray:
    """Return (jobs,) when each starts with nothing lent."""
    found = np.zeros(len(jobs))
    of = np.array(jobs.virtual_clusters)
    for team in set(jobs.virtual_clusters):
        own = [
            Known(int(at), float(jobs.submit_s[at]), float(jobs.duration_s[at]), int(jobs.gpus[at]))
            for at in np.flatnonzero(of == team)
        ]
        for at, start_s in alone(own, how.gpus).items():
            found[at] = start_s
    return found


def oracle(jobs: Workload, how: Bursts, due_s: np.ndarray, parts: int, limit_s: float) -> BestStarts:
    """Return the best starts of a trace, in minutes."""
    columns = (jobs.virtual_clusters, jobs.submit_s, jobs.duration_s, jobs.gpus, due_s)
    rows = [
        Startable(team, submit_s / 60, takes_s / 60, int(gpus), max(last_s, submit_s) / 60)
        for team, submit_s, takes_s, gpus, last_s in zip(*columns, strict=True)
    ]
    quotas = dict.fromkeys(sorted(set(jobs.virtual_clusters)), how.gpus)
    for at in range(how.queues):
        quotas.setdefault(f"team-{at}", how.gpus)
    return best_starts(rows, quotas, parts=parts, time_limit_s=limit_s)


def figures_of(rows: list[Mapping[str, float]]) -> dict[str, float]:
    """Return the figures of all traces."""
    total = {key: sum(row[key] for row in rows) for key in rows[0]}
    best = total["oracle_min"]
    ratios = [row["virtual_clock_min"] / row["oracle_min"] for row in rows if row["oracle_min"] >= 1]
    return {
        "traces": float(len(rows)),
        "jobs": total["jobs"],
        "delay_ratio": total["virtual_clock_min"] / best,
        "delay_ratio_median": median(ratios),
        "delay_ratio_worst": max(ratios),
        "anticipatory_delay_ratio": total["anticipatory_min"] / best,
        "blocking_delay_ratio": total["blocking_min"] / best,
        "reference_delay_ratio": total["reference_min"] / best,
        "time_ratio": median(row["oracle_s"] / row["virtual_clock_s"] for row in rows),
        "oracle_s_worst": max(row["oracle_s"] for row in rows),
        "oracle_late": total["oracle_late"],
        "virtual_clock_late": total["virtual_clock_late"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=at_least(1), default=40)
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--parts", type=at_least(1), default=30)
    parser.add_argument("--jobs", type=at_least(1), default=30)
    parser.add_argument("--limit-s", type=float, default=60.0)
    options = parser.parse_args()
    rows, unsolved = list[Mapping[str, float]](), 0
    with tempfile.TemporaryDirectory() as name:
        for seed in count():
            if len(rows) == options.traces:
                break
            how, jobs = small(seed, options.hours)
            due_s = latest_s(jobs, how)
            if len(jobs) > options.jobs or not (due_s > jobs.submit_s + LATE_S).any():
                continue
            best = oracle(jobs, how, due_s, options.parts, options.limit_s)
            if best.delay and best.gap > SOLVED:
                unsolved += 1
                continue
            row = {
                "jobs": float(len(jobs)),
                "oracle_min": best.delay,
                "reference_min": float((due_s - jobs.submit_s).sum()) / 60,
                "oracle_s": best.seconds,
                "oracle_late": float((60 * np.array(best.starts) > due_s + LATE_S).sum()),
            }
            for case, policy in CASES.items():
                text, gpus = teams_file(how, "t4"), how.queues * how.gpus
                outcome = simulated(jobs, text, gpus, POLICIES[policy], Path(name), seed)
                row[f"{case}_min"] = float((outcome.started_s - jobs.submit_s).sum()) / 60
                row[f"{case}_late"] = float((outcome.started_s > due_s + LATE_S).sum())
                row[f"{case}_s"] = float(outcome.policy_s.sum())
            rows.append(row)
            print(f"trace {seed}: { ({key: round(value, 2) for key, value in row.items()}) }", flush=True)
    found = figures_of(rows) | {"unsolved": float(unsolved)}
    table(f"{len(rows)} traces", ["", "figure"], [[key, value] for key, value in found.items()])
    finish("anticipatory_oracle", {key: round(value, 4) for key, value in found.items()})


if __name__ == "__main__":
    main()
