"""How UniSched behaves as one thing changes, beside what its paper says of that; each statement is counted.

    python -m benchmarks.slo_trends [--trends density lease …] [--processes 2] [--render]

Densities of jobs, length of leases of jobs with a deadline, reward against any feasible plan, joint placement
against consolidation over the share of awkward GPU counts, noise of lengths, costs of restarts, nodes that are
kept for measuring, jobs that a metric ends, and CHRONUS with either half of its successor.
All runs are as published.
Most are on Helios Venus' September (4,946 jobs of 20 minutes and more, 96 nodes of 8, load 1.02, `h_mix2`).
Those in which jobs are measured are on 4,847 jobs of Philly's MIX1 (days 4 to 6.2, 120 nodes, load 1.35).
Runs are kept in out/slo_trends/ and not run again, so an interrupted benchmark goes on.

`statements_held` of `statements`: what the paper says. `<trend>-<run>/miss_rate`, `/be_jct_h`, …: each run.
`measuring_wait_max_s`, `suspensions_slo`, `suspensions_be`: of the run in which jobs are measured in the program.
`duration_rel_err_mid`: of the length that is told at half of training, in the mean over the jobs of Helios, of
which a fifth has one of 34 measured learning curves (Figure 7d); `_metric`: over these alone.
`measuring_wait_over_static`: the longest wait, over that with two nodes that are kept for measuring.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from .arguments import at_least
from .harness import finish, needs, table
from .slo.mixes import CHRONUS, VENUS
from .slo.runs import found, run_all
from .slo.statements import over
from .slo.trends import Found, settings, simulated, statements, told_at_half

ROOT = Path(__file__).resolve().parent.parent
SHOWN = ("miss_rate", "be_jct_h", "deadline_jct_h", "suspensions_deadline", "suspensions_be", "load")


def figures_of(runs: Found) -> dict[str, float]:
    """Return the figures that are logged."""
    counted = statements(runs)
    figures = {"statements": float(len(counted)), "statements_held": float(sum(one.holds for one in counted))}
    if (own := runs.get("measuring-unified")) is not None:
        figures |= {
            "measuring_wait_max_s": own["measuring_wait_max_s"],
            "suspensions_slo": own["suspensions_deadline"],
            "suspensions_be": own["suspensions_be"],
        }
        if (static := runs.get("measuring-static")) is not None:
            waits_s = own["measuring_wait_max_s"], static["measuring_wait_max_s"]
            figures["measuring_wait_over_static"] = over(*waits_s)
    figures |= {f"{name}/{key}": own[key] for name, own in runs.items() for key in ("miss_rate", "be_jct_h")}
    return {name: value for name, value in figures.items() if not math.isnan(value)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = settings()
    trends = list(dict.fromkeys(one.trend for one in every))
    parser.add_argument("--trends", nargs="+", choices=trends, default=trends)
    parser.add_argument("--processes", type=at_least(1), default=1)
    parser.add_argument("--render", action="store_true", help="run nothing, show what is there")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "slo_trends")
    options = parser.parse_args()
    asked = [one for one in every if one.trend in options.trends]
    if not options.render:
        needs(CHRONUS, VENUS)
        run_all(asked, options.out, options.processes, simulated)
    runs = {setting.name.removesuffix(".json"): own for setting, own in found(asked, options.out).items()}
    table("Runs", ["", *SHOWN], [[name, *(own[key] for key in SHOWN)] for name, own in runs.items()])
    rows = [
        [one.row, one.mix, one.what, one.aim, one.value, "yes" if one.holds else "NO"] for one in statements(runs)
    ]
    table("What the paper says", ["figure", "trend", "what", "at most", "ours", "held"], rows)
    finish("slo_trends", figures_of(runs) | told_at_half())


if __name__ == "__main__":
    main()
