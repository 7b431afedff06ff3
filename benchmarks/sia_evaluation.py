"""Sia's evaluation with our simulator: its tables 3.3 and 3.4, its figures, and its burst of jobs.

    python -m benchmarks.sia_evaluation                      all traces of all sets: hours
    python -m benchmarks.sia_evaluation --quick              the first trace of each set
    python -m benchmarks.sia_evaluation --only table_3_3 --policy sia --policy gavel --traces 3
    python -m benchmarks.sia_evaluation --run 1              the first too, but show what is there of the others
    python -m benchmarks.sia_evaluation --render --write     run nothing; renew docs/results/evaluation.md

Semantics are our own: jobs end within a round, profiles are bootstrapped as the paper says. Runs are kept in
out/sia_evaluation/ and not run again, so an interrupted benchmark goes on. `--again` runs them after a change of
the simulator or of a policy. Figures: `<experiment>/<setting>/<figure>`, means over traces.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from coadapt.policies.catalogue import policy_names
from coadapt.simulator.sweep_file import Cell

from .evaluation import page, plots, runtime
from .evaluation.experiments import EXPERIMENTS, Experiment, Plan
from .evaluation.grid import finished, run_all, values_of, when
from .evaluation.paper import POLICIES, POLICY_TIME, PUBLISHED_POLICY_TIME
from .harness import finish, machine
from .harness import table as show

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "results" / "evaluation.md"
POLICY_TIMES, LARGE_MODEL = "figure_3_10", "section_3_5_3"


def expense(cell: Cell) -> float:
    """Estimate seconds by the size of the trace; a genetic search takes longer."""
    path = Path(cell.trace.path or "")
    return path.stat().st_size * (6.0 if cell.policy == "pollux" else 1.0)


def in_order(experiments: list[Experiment]) -> list[Cell]:
    """Put first traces and cheap runs first, so that a part of the grid says something."""
    dear: dict[Cell, float] = {}
    for experiment in experiments:
        for group in experiment.groups:
            for at, cell in enumerate(group.cells):
                dear[cell] = min((at + 1) * expense(cell), dear.get(cell, float("inf")))
    return sorted(dear, key=lambda cell: dear[cell])


def policy_times(policies: list[str], out: Path, run: bool, quick: bool) -> tuple[str, dict[str, float]]:
    """Return (section, figures) of figure 3.10."""
    scales = runtime.SCALES[:3] if quick else runtime.SCALES
    found = {
        policy: {scale: row for scale in scales if (row := runtime.measured(policy, scale, out, run))}
        for policy in policies
        if policy in POLICY_TIME
    }
    found = {policy: rows for policy, rows in found.items() if rows}
    if not found:
        return "Not run yet.", {}
    plots.draw_policy_time(found, out / "pictures")
    figures: dict[str, float] = {}
    body = []
    for policy, rows in found.items():
        for scale, row in rows.items():
            said = POLICY_TIME[policy] if scale == 1 else {}
            published = PUBLISHED_POLICY_TIME[policy] if scale == 1 else {}
            for figure in ("median_ms", "p95_ms"):
                figures[f"{POLICY_TIMES}/{64 * scale}_gpus/{policy}/{figure}"] = row[figure]
            body.append(
                (
                    policy,
                    f"{64 * scale:,}",
                    page.number(row["active_jobs"]),
                    f"{said['policy_median_ms'].mean:g} / {said['policy_p95_ms'].mean:g}" if said else "",
                    f"{published['policy_median_ms']:g} / {published['policy_p95_ms']:g}" if published else "",
                    f"{page.number(row['median_ms'])} / {page.number(row['p95_ms'])}",
                    f"{row['rounds']:.0f}",
                )
            )
    head = (
        "policy", "GPUs", "active jobs", "paper, p50 / p95 (ms)", "published, trace 1",
        "ours, p50 / p95 (ms)", "rounds",
    )  # fmt: skip
    return page.table(head, body), figures


def main() -> None:
    names = [*EXPERIMENTS, POLICY_TIMES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=names, metavar="EXPERIMENT", help=", ".join(names))
    parser.add_argument("--policy", action="append", choices=policy_names(), metavar="NAME", help="repeatable")
    parser.add_argument("--traces", type=int, default=10, help="of each set, at most")
    parser.add_argument("--quick", action="store_true", help="--traces 1, clusters of at most 256 GPUs")
    parser.add_argument("--run", type=int, metavar="TRACES", help="of each set, at most; show all that are there")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--render", action="store_true", help="run nothing, show what is there")
    parser.add_argument("--again", action="store_true", help="run what is there anew")
    parser.add_argument(
        "--write", action="store_true", help="renew the tables and pictures of docs/results/evaluation.md"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "sia_evaluation")
    options = parser.parse_args()
    policies = options.policy or [name for name in POLICIES if name in policy_names()]
    plan = Plan(policies, 1 if options.quick else options.traces, options.out / "workloads")
    chosen = options.only or names
    making = [EXPERIMENTS[name] for name in names if name in chosen and name in EXPERIMENTS]
    experiments = [make(plan) for make in making]
    runs = options.out / "runs"
    if not options.render:
        asked = plan if options.run is None else replace(plan, traces=min(plan.traces, options.run))
        run_all(in_order([make(asked) for make in making]), runs, options.processes, options.again)
    made = when({cell for one in experiments for group in one.groups for cell in group.cells}, runs)
    sections: dict[str, str] = {}
    figures: dict[str, float] = {}
    pictures = options.out / "pictures"
    for experiment in experiments:
        found = {group.key: finished(group.cells, runs) for group in experiment.groups}
        same = page.alike(found)
        drawn = {key: values_of(list(done.values())) for key, done in same.items() if done}
        shown = same if experiment.alike else found
        values = {key: values_of(list(done.values())) for key, done in shown.items() if done}
        verdicts = page.judged(experiment, found)
        plots.draw(experiment, drawn, {key: list(done.values()) for key, done in same.items()}, pictures)
        sections[experiment.key] = page.section(experiment, values, verdicts)
        if experiment.key == LARGE_MODEL:
            sections[experiment.key] = f"{page.speeds()}\n\n{sections[experiment.key]}"
        figures |= page.flat(experiment, values, verdicts)
        show(
            experiment.key,
            ["setting", "figure", "paper", "published", "ours", "traces"],
            page.rows(experiment, values),
        )
        print(page.orderings(experiment, verdicts))
    if POLICY_TIMES in chosen:
        sections[POLICY_TIMES], found_times = policy_times(
            policies, options.out, not options.render, options.quick
        )
        figures |= found_times
        print(sections[POLICY_TIMES])
    if options.write:
        text = PAGE.read_text()
        for key, content in {**sections, "machine": f"{machine()}{made and '; '}{made}."}.items():
            text = page.between(text, key, content)
        PAGE.write_text(text)
        (PAGE.parent / "evaluation").mkdir(exist_ok=True)
        for picture in pictures.glob("*.png"):
            (PAGE.parent / "evaluation" / picture.name).write_bytes(picture.read_bytes())
    finish("sia_evaluation", figures, made)


if __name__ == "__main__":
    main()
