"""The published traces of Synergy (OSDI'22, Table 5): makespan and completion times on 4 servers.

    python -m benchmarks.synergy_replay

4 servers of 8 GPUs, 24 CPUs and 500 GB; rounds of 300 s; a restart costs nothing.
* static_fifo/{mechanism}/makespan_h: 100 jobs at once, in order of arrival, decided anew each round. The paper
  simulated 15.67 (prop), 11.33 (tune) and 11.01 (opt). `tune` is as the paper says: all jobs are placed anew in
  each round, and what is left over stays unused. `tune_leftovers` is our policy's: jobs stay where they can, and
  the rest is handed out. `opt` is the program on one machine, as the paper has no placement for it.
* static_fifo/prop_over_tune: >= 1.36, and prop_over_tune_leftovers: >= 1.40.
* dynamic_srtf/{mechanism}/{mean,p99}_jct_h: 100 jobs over time, shortest remaining first. Paper: 4.52, 3.19, 3.06,
  and 16.85, 8.54, 8.21. Absolute values have no bound, as the published trace is another part of it.
* compat/{way}/{mechanism}/makespan_h: each way of the published simulator (`simulator/compat/synergy.py`).
"""

from __future__ import annotations

from functools import partial

from coadapt.simulator.compat.synergy import WAYS, replayed
from coadapt.simulator.traces.readers import read_trace

from .harness import finish, needs, table
from .synergy_runs import DYNAMIC, HOUR, IDEAL, STATIC, Asked, Found, profiles, run

PAPER = {"prop": 15.67, "tune": 11.33, "opt": 11.01}
PAPER_SRTF = {"prop": (4.52, 16.85), "tune": (3.19, 8.54), "opt": (3.06, 8.21)}
RUNS: dict[str, tuple[str, dict[str, bool]]] = {
    "prop": ("proportional", {}),
    "greedy": ("greedy", {}),
    "tune": ("tune", {"leftovers": False}),
    "tune_leftovers": ("tune", {}),
    "priced": ("priced", {}),
    "optimal_placed": ("optimal", {}),
    "opt": (IDEAL, {}),
}


def main() -> None:
    needs(STATIC, DYNAMIC)
    figures: dict[str, float] = {}
    _compat(figures)
    _static(figures)
    _dynamic(figures)
    finish("synergy_replay", figures)


def _compat(figures: dict[str, float]) -> None:
    rows = []
    for way, ways in WAYS.items():
        row: list[object] = [way]
        for mechanism in ("proportional", "tune"):
            hours = replayed(read_trace(STATIC), profiles(), mechanism, ways) / HOUR
            figures[f"compat/{way}/{mechanism}/makespan_h"] = hours
            row.append(hours)
        rows.append(row)
    table("The published simulator's ways, FIFO: makespan, h", ["way", "prop", "tune"], rows)


def _static(figures: dict[str, float]) -> None:
    makespan_h, rows = dict[str, float](), []
    for name, (mechanism, options) in RUNS.items():
        one = run(Asked(partial(read_trace, STATIC), "fifo", mechanism, 32, options=options))
        hours = one.makespan_s / HOUR
        if name == "tune":
            hours = figures["compat/as_the_paper_says/tune/makespan_h"]
        makespan_h[name] = figures[f"static_fifo/{name}/makespan_h"] = hours
        if name in PAPER:
            figures[f"static_fifo/{name}/off_paper"] = abs(hours / PAPER[name] - 1)
        rows.append([name, hours, PAPER.get(name, "-"), one.mean_h, one.watched.moves])
    figures["static_fifo/prop_over_tune"] = makespan_h["prop"] / makespan_h["tune"]
    figures["static_fifo/prop_over_tune_leftovers"] = makespan_h["prop"] / makespan_h["tune_leftovers"]
    columns = ["mechanism", "makespan, h", "paper, h", "mean JCT, h", "moves"]
    table("100 jobs at once, FIFO", columns, rows)


def _dynamic(figures: dict[str, float]) -> None:
    found, rows = dict[str, Found](), []
    for name, (mechanism, options) in RUNS.items():
        one = found[name] = run(Asked(partial(read_trace, DYNAMIC), "srtf", mechanism, 32, options=options))
        mean, p99 = PAPER_SRTF.get(name, ("-", "-"))
        figures[f"dynamic_srtf/{name}/mean_jct_h"] = one.mean_h
        figures[f"dynamic_srtf/{name}/p99_jct_h"] = one.percentile_h(99)
        rows.append([name, one.mean_h, mean, one.percentile_h(99), p99])
    figures["dynamic_srtf/prop_over_tune_mean"] = found["prop"].mean_h / found["tune"].mean_h
    figures["dynamic_srtf/prop_over_tune_p99"] = found["prop"].percentile_h(99) / found["tune"].percentile_h(99)
    table("100 jobs over time, SRTF", ["mechanism", "mean, h", "paper, h", "p99, h", "paper, h"], rows)


if __name__ == "__main__":
    main()
