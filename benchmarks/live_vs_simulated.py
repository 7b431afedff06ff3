"""The simulator beside the live cluster: the demo's jobs run live, then their recorded trace is replayed.

`python -m benchmarks.live_vs_simulated` takes as long as the demo; `--trace FILE` replays one that was recorded
before. Figure: `mean_jct_rel_err`, simulated over live mean JCT, less one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from coadapt.cli import simulate
from coadapt.simulator.engine import Timing
from coadapt.simulator.outcome import Outcome
from coadapt.simulator.readers import read_trace
from coadapt.simulator.replay import Conditions

from .demo import ARRIVALS, CLUSTER, ROOT, ROUND_S, live
from .harness import finish, table


def replay(trace: Path) -> Outcome:
    """The recorded jobs under the live cluster's nodes, policy and rounds."""
    return simulate.run(read_trace(trace), CLUSTER, {"sia": {}}, Conditions(Timing(ROUND_S)))["sia"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, help="a trace that was recorded before")
    options = parser.parse_args()
    jct_s: dict[str, float] = {}
    trace = options.trace or ROOT / "out" / "live.jsonl"
    if options.trace is None:
        ran = live({arrival.name: arrival.spec for arrival in ARRIVALS})
        trace.parent.mkdir(exist_ok=True)
        trace.write_text("".join(f"{line}\n" for line in ran.trace))
        jct_s = {row["id"]: row["finished_s"] - row["submitted_s"] for row in ran.rows if row["finished_s"]}
    outcome = replay(trace)
    simulated_s = dict(zip(outcome.workload.ids, outcome.jct_s.tolist(), strict=True))
    rows = [[id, jct_s.get(id, float("nan")), simulated_s[id]] for id in simulated_s]
    table("JCT of the demo's jobs", ["job", "live [s]", "simulated [s]"], rows)
    both = [id for id in simulated_s if id in jct_s]
    live_s = sum(jct_s[id] for id in both) / max(len(both), 1)
    mean_s = sum(simulated_s[id] for id in both) / max(len(both), 1)
    figures = {"jobs": len(simulated_s), "live_mean_jct_s": live_s, "simulated_mean_jct_s": mean_s}
    finish("live_vs_simulated", {**figures, "mean_jct_rel_err": mean_s / live_s - 1 if live_s else None})


if __name__ == "__main__":
    main()
