"""The simulator beside the live cluster: the demo's jobs run live, then their recorded trace is replayed.

`python -m benchmarks.live_vs_simulated` takes as long as the demo and keeps what it saw as `out/live.jsonl` (the
trace) and `out/live.json`; `--trace out/live.jsonl` replays that again. Tenths of seconds decide who gets the last
GPU, live as simulated. So the trace is replayed `--replays` times with jobs up to a second later. It prints:

* `mean_jct_rel_err`: the mean JCT of those replays over the live one, less one (`mean_jct_off`: without its sign);
* `mean_jct_sd_s`: their standard deviation;
* `exact_rel_err`: the same error for the trace as it is.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.cli import simulate
from coadapt.examples.demo import carried, cast
from coadapt.examples.demo.stage import CAP_S, CLUSTER, ROUND_S, play
from coadapt.examples.demo.view import View
from coadapt.simulator.conditions import EARLY_S, Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .harness import finish, table

ROOT = Path(__file__).resolve().parent.parent

JITTER_S = 1.0


def replay(workload: Workload) -> Outcome:
    """Replay the recorded jobs under the live cluster's nodes, policy and rounds."""
    under = Conditions(Timing(ROUND_S, early_s=EARLY_S))
    return simulate.run(workload, CLUSTER, {"sia": {}}, under)["sia"]


def jittered(workload: Workload) -> Iterator[Workload]:
    """Yield the same jobs, each a little later, again and again."""
    draw = np.random.default_rng(0)
    while True:
        yield replace(
            workload, ready_after_s=workload.ready_after_s + draw.uniform(0, JITTER_S, len(workload.ready_after_s))
        )


def run_live(trace: Path) -> None:
    """Run the demo's jobs; what became of them is kept beside their trace."""
    with View() as view:
        ran = play(cast.pace(carried.cores()), view.update, time.time() + CAP_S)
    trace.parent.mkdir(exist_ok=True)
    trace.write_text("".join(f"{line}\n" for line in ran.trace))
    trace.with_suffix(".json").write_text(json.dumps({"jobs": ran.rows, "timeline": ran.timeline}))


def phases(ran: dict[str, Any], outcome: Outcome, mean_s: np.ndarray) -> None:
    """Print, job by job, when it was ready and first trained, its moves, its most GPUs and its end."""
    rows, held = {row["id"]: row for row in ran["jobs"]}, ran["timeline"]
    cells: list[list[object]] = []
    workload = outcome.workload
    for i, id in enumerate(workload.ids):
        row = rows[id]
        came_s, jct_s = row["submitted_s"], row["finished_s"] - row["submitted_s"]
        on = [h for h in held if h["job_id"] == id and h["phase"] == "running"]
        gpus = [h.gpus for h in outcome.holdings if h.job == i]
        start_s = (model.start_s if (model := workload.models[i]) is not None else None) or 0.0
        cells.append([
            id,
            f"{workload.ready_after_s[i]:.0f}",
            f"{row['started_s'] - came_s:.0f} / {outcome.started_s[i] - workload.submit_s[i] + start_s:.0f}",
            f"{row['restarts']} / {outcome.restarts[i]}",
            f"{max((h['gpus'] for h in on), default=0)} / {max(gpus)}",
            f"{jct_s:.0f} / {outcome.jct_s[i]:.0f}",
            f"{mean_s[i]:.0f}",
            f"{mean_s[i] / jct_s - 1:+.0%}",
        ])  # fmt: skip
    columns = ["job", "ready", "trains", "restarts", "most GPUs", "JCT", "JCT, mean of replays", "off"]
    table("The demo's jobs, live / simulated: seconds since each was submitted", columns, cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, help="a trace that this benchmark wrote before")
    parser.add_argument("--replays", type=int, default=20)
    options = parser.parse_args()
    trace = options.trace or ROOT / "out" / "live.jsonl"
    if options.trace is None:
        run_live(trace)
    ran = json.loads(trace.with_suffix(".json").read_text())
    workload = read_trace(trace)
    exact = replay(workload)
    jct_s = np.array([replay(one).jct_s for one in islice(jittered(workload), options.replays)])
    rows = {row["id"]: row for row in ran["jobs"]}
    phases(ran, exact, jct_s.mean(axis=0))
    live_s = float(np.mean([rows[id]["finished_s"] - rows[id]["submitted_s"] for id in workload.ids]))
    mean_s, exact_s = float(jct_s.mean()), float(exact.jct_s.mean())
    figures = {
        "jobs": len(workload),
        "live_mean_jct_s": round(live_s, 1),
        "simulated_mean_jct_s": round(mean_s, 1),
        "mean_jct_sd_s": round(float(jct_s.mean(axis=1).std()), 1),
        "exact_mean_jct_s": round(exact_s, 1),
        "exact_rel_err": round(exact_s / live_s - 1, 4),
        "mean_jct_rel_err": round(mean_s / live_s - 1, 4),
        "mean_jct_off": round(abs(mean_s / live_s - 1), 4),
    }
    finish("live_vs_simulated", figures)


if __name__ == "__main__":
    main()
