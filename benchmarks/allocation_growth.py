"""How the time of a round grows: with GPUs, with jobs, with what changed since the last round, with GPU types.

    python -m benchmarks.allocation_growth [--axes gpus,jobs,change,types] [--most-gpus 250000] [--rounds 30]
        [--gap 1e-4] [--pictures DIR] [--seed 0]

GPUs, jobs and types: rounds of sia (benchmarks/large_rounds.py): five GPUs a job, 1 % replaced, 4 % valued anew.
In each of them every running job is weighed anew, because its restart factor grows with its age. Timed are all
changes of the program and its solution to the policy's gap; the first two rounds are left out.

Change: the program of such a round, in which then only a part of the rows changes. A fifth of these leave and as
many arrive, and the rest get other gains. A part of 0 is measured too, which shows the cost of no change.

`LP`: the solution without the searches that close what is left of the gap, of a copy of the program beside it.
`cold`: the program of a round made anew, all rows put, solved; of every third round, or once for each fraction.
Exponents are least squares on logarithms over the range named.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from coadapt.optimizer.allocation import ChoiceProgram, ChoiceSolution
from coadapt.policies.catalogue import make_policy
from coadapt.policies.choosing.allocation_round import ProgramPolicy
from coadapt.policies.contract.configuration import ConfigurationArrays
from coadapt.policies.warm_up import warm_up

from .allocation_scaling import Measured
from .arguments import at_least, some_of
from .harness import finish, table
from .large_rounds import LEARN, Workload, cluster

AXES = ("gpus", "jobs", "change", "types")
GPUS_A_JOB = 5
GPUS = (64, 256, 1_024, 4_096, 16_384, 65_536, 250_000)
JOBS, JOBS_GPUS = (500, 1_000, 2_000, 5_000, 10_000, 20_000), 25_000
FRACTIONS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
CHANGE_AT = ((10_000, 2_000), (25_000, 5_000))  # GPUs, jobs
TYPES, TYPES_AT = (1, 2, 3, 5, 7, 10, 14, 20), (10_000, 2_000)
LEFT_OUT = 2  # rounds: the first starts from nothing, in the second most jobs get their first GPUs
REPLACED = 0.2  # of the rows that change
AT_ONCE = 2_000  # rows put together
COLD_EVERY = 3  # rounds, of which one is solved from nothing as well


@dataclass(frozen=True)
class Point:
    """Seconds of a round; lp_s: of its solution without searches; cold_s: of a program made anew. Medians."""

    x: float
    warm_s: float
    lp_s: float
    cold_s: float
    rows: int
    options: int
    mean_gap: float
    worst_gap: float


@dataclass
class Allocation:
    """The program of a round of sia, which can be made anew and changed row by row."""

    program: ChoiceProgram
    order: list[str]
    arrays: ConfigurationArrays
    rng: np.random.Generator
    gap: float
    made: int = 0

    def gains(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return (rows, columns): what each row gains in each column now, and where it may be."""
        entries = self.program.entries(ids)
        gain = np.zeros((len(ids), self.program.usage.shape[1]))
        allowed = np.zeros(gain.shape, bool)
        gain[entries.row, entries.column], allowed[entries.row, entries.column] = entries.gain, True
        return gain, allowed

    def cold_s(self) -> float:
        """Return the seconds that the same program takes from nothing."""
        parts = [self.order[at : at + AT_ONCE] for at in range(0, len(self.order), AT_ONCE)]
        rows = [(ids, *self.gains(ids)) for ids in parts]
        usage, capacity = self.program.usage, self.program.capacity
        began = time.perf_counter()
        fresh = ChoiceProgram(usage, capacity, self.arrays.type_index, self.arrays.gpus.astype(float))
        for ids, gain, allowed in rows:
            fresh.upsert(ids, gain, allowed)
        fresh.solve(self.order, self.gap)
        return time.perf_counter() - began

    def change(self, fraction: float) -> tuple[float, float, float, float]:
        """Run a round of such changes; return (seconds of changes, of solution, without searches, gap)."""
        count = round(fraction * len(self.order))
        which = np.sort(self.rng.choice(len(self.order), count, replace=False))
        ids = [self.order[i] for i in which]
        gain, allowed = self.gains(ids)
        gain *= np.exp(LEARN * self.rng.normal(size=(count, 1)))
        gone = self.rng.random(count) < REPLACED
        replaced = [id for id, leaves in zip(ids, gone, strict=True) if leaves]
        for i in np.flatnonzero(gone):
            self.made += 1
            ids[i] = f"new-{self.made:08d}"
        gain[gone] = gain[gone][::-1]  # what comes is another row than what went
        allowed[gone] = allowed[gone][::-1]
        order = list(self.order)
        for i, id in zip(which, ids, strict=True):
            order[i] = id
        nowhere, nothing = np.full(count, -1), np.zeros(count)
        began = time.perf_counter()
        if count:
            self.program.remove(replaced)
            self.program.upsert(ids, gain, allowed)
            self.program.set_weights(ids, nothing, np.ones(count))
            self.program.set_incumbents(ids, nowhere, nothing)
        changes_s = time.perf_counter() - began
        lp_s = without_searches(self.program, order, self.gap)
        began = time.perf_counter()
        found = self.program.solve(order, self.gap)
        self.order = order
        return changes_s, time.perf_counter() - began, lp_s, found.gap


def without_searches(program: ChoiceProgram, order: Sequence[str], gap: float) -> float:
    """Return the seconds in which a copy is solved without searches."""
    beside = copy.deepcopy(program)
    began = time.perf_counter()
    beside.solve(order, gap, time_limit_s=0.0)
    return time.perf_counter() - began


class Kept(Measured):
    """Also keeps the order of the last round, what solutions take without searches, and what from nothing."""

    def __init__(self) -> None:
        super().__init__("structured")
        self.order: list[str] = []
        self.lp_s: list[float] = []
        self.cold_s: list[float] = []

    def solve(
        self, program: ChoiceProgram, order: Sequence[str], gap: float, time_limit_s: float
    ) -> ChoiceSolution:
        self.order = list(order)
        self.lp_s.append(without_searches(program, order, gap))
        return super().solve(program, order, gap, time_limit_s)


def rounds_of_sia(
    gpus: int, jobs: int, types: int, rounds: int, seed: int, gap: float = 1e-4
) -> tuple[Kept, Allocation]:
    """Return what was measured of so many rounds and those left out, and the last one's program."""
    measured = Kept()
    policy = make_policy("sia", tolerance=0.01, gap=gap)
    assert isinstance(policy, ProgramPolicy)
    policy._solver = measured
    workload = Workload(cluster(gpus, types), jobs, seed=seed)
    rng = np.random.default_rng(seed)
    for done in range(-LEFT_OUT, rounds):
        plan = policy.plan(workload.round())
        assert plan.configurations is not None
        assert measured.watched is not None
        allocation = Allocation(measured.watched, measured.order, plan.configurations.arrays, rng, gap)
        if done >= 0 and done % COLD_EVERY == 0:
            measured.cold_s.append(allocation.cold_s())
        workload.step(plan)
    return measured, allocation


def point(x: float, gpus: int, jobs: int, types: int, args: argparse.Namespace) -> Point:
    measured, allocation = rounds_of_sia(gpus, jobs, types, args.rounds, args.seed, args.gap)
    seconds, gaps, _, options = np.array(measured.rounds[LEFT_OUT:]).T
    return Point(
        x,
        float(np.median(seconds)),
        float(np.median(measured.lp_s[LEFT_OUT:])),
        float(np.median(measured.cold_s)),
        len(allocation.order),
        int(options[-1]),
        float(gaps.mean()),
        float(gaps.max()),
    )


def changes(gpus: int, jobs: int, args: argparse.Namespace) -> list[tuple[Point, float]]:
    """Return a point for each fraction; its time is that of the changes."""
    _, allocation = rounds_of_sia(gpus, jobs, 7, 1, args.seed, args.gap)
    measured, cold = [], []
    for fraction in FRACTIONS:
        measured.append(np.array([allocation.change(fraction) for _ in range(args.rounds + LEFT_OUT)])[LEFT_OUT:])
        cold.append(allocation.cold_s())
    found = []
    for fraction, rounds in zip(FRACTIONS, measured, strict=True):
        whole_s, lp_s = float(np.median(rounds[:, 0] + rounds[:, 1])), float(np.median(rounds[:, 2]))
        options = len(allocation.program.entries(allocation.order).row)
        gaps = float(rounds[:, 3].mean()), float(rounds[:, 3].max())
        at = Point(fraction, whole_s, lp_s, float(np.median(cold)), len(allocation.order), options, *gaps)
        found.append((at, float(np.median(rounds[:, 0]))))
    return found


def fit(points: Sequence[Point], least: float = 1e-12, *, lp: bool = False) -> tuple[float, float]:
    """Return (a, b) of seconds = a x^b, from x = `least` on; nan of fewer than two points."""
    some = [p for p in points if p.x >= least]
    if len(some) < 2:
        return float("nan"), float("nan")
    b, a = np.polyfit(np.log([p.x for p in some]), np.log([p.lp_s if lp else p.warm_s for p in some]), 1)
    return float(np.exp(a)), float(b)


def exponent(points: Sequence[Point], least: float = 1e-12, *, lp: bool = False) -> float:
    return fit(points, least, lp=lp)[1]


def show(title: str, name: str, points: Sequence[Point], changes_s: Sequence[float] = ()) -> None:
    columns = [name, "rows", "options", "warm ms", "LP ms", "cold ms", "cold / warm", "mean gap", "worst gap"]
    rows = [
        [
            f"{p.x:.1%}" if changes_s else f"{p.x:,g}",
            f"{p.rows:,}",
            f"{p.options:,}",
            p.warm_s * 1e3,
            p.lp_s * 1e3,
            p.cold_s * 1e3,
            p.cold_s / p.warm_s,
            p.mean_gap,
            p.worst_gap,
            *([changes_s[i] * 1e3] if changes_s else []),
        ]
        for i, p in enumerate(points)
    ]
    table(title, [*columns, *(["of warm: changes ms"] if changes_s else [])], rows)


def draw(folder: Path, name: str, label: str, series: dict[str, Sequence[Point]], least: float) -> None:
    """Draw points, and from x = `least` on the power law fitted to the warm ones."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8.5, 4))
    for what, points in series.items():
        some = [p for p in points if p.x > 0]
        x = [p.x for p in some]
        (line,) = axes.plot(
            x, [p.warm_s * 1e3 for p in some], marker="o", label=f"{what}warm: changes and solution"
        )
        a, b = fit(some, least)
        if np.isfinite(b):
            ends = np.array([p.x for p in some if p.x >= least])[[0, -1]]
            axes.plot(
                ends, 1e3 * a * ends**b, color=line.get_color(), linestyle=":", label=f"{what}warm: fit, x^{b:.2f}"
            )
        axes.plot(
            x,
            [p.lp_s * 1e3 for p in some],
            color=line.get_color(),
            alpha=0.4,
            label=f"{what}warm: the LP alone",
        )
        axes.plot(
            x,
            [p.cold_s * 1e3 for p in some],
            marker="s",
            linestyle="--",
            color=line.get_color(),
            label=f"{what}from scratch",
        )
        for p in points:
            if p.x == 0:
                axes.axhline(
                    p.warm_s * 1e3, linestyle="-.", color=line.get_color(), label=f"{what}nothing changed"
                )
    axes.set(xlabel=label, ylabel="ms per round", xscale="log", yscale="log")
    ticks = sorted({p.x for points in series.values() for p in points if p.x > 0})
    axes.set_xticks(ticks, [f"{x:g}" if x < 1 else f"{x:,g}" for x in ticks], minor=False)
    axes.set_xticks([], minor=True)
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"growth_{name}.png", dpi=80)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", type=some_of(AXES), default=[*AXES])
    parser.add_argument("--most-gpus", type=at_least(GPUS[0]), default=GPUS[-1])
    parser.add_argument("--rounds", type=at_least(1), default=30)
    parser.add_argument("--gap", type=float, default=1e-4, help="that plans are proven to be within, relative")
    parser.add_argument("--pictures", type=Path, help="folder for plots (needs the extra `report`)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    axes = args.axes
    warm_up("sia", {})  # kernels are loaded, or compiled
    rounds_of_sia(64, 20, 7, 3, args.seed)[1].cold_s()
    figures: dict[str, float | int | str | None] = {}
    pictures: dict[str, tuple[str, dict[str, Sequence[Point]], float]] = {}

    def kept(name: str, value: float) -> None:
        figures[name] = float(f"{value:.3g}") if np.isfinite(value) else None

    if "gpus" in axes:
        found = [point(g, g, max(g // GPUS_A_JOB, 1), 7, args) for g in GPUS if g <= args.most_gpus]
        kept("gpus_exponent", exponent(found, 1_000))
        kept("gpus_lp_exponent", exponent(found, 1_000, lp=True))
        show(
            f"GPUs, a job for {GPUS_A_JOB}: warm time ~ GPUs^{figures['gpus_exponent']} from 1,000 on",
            "GPUs",
            found,
        )
        kept("warm_s_at_most_gpus", found[-1].warm_s)
        pictures["gpus"] = "GPUs, five a job", {"": found}, 1_000
    if "jobs" in axes:
        found = [point(j, JOBS_GPUS, j, 7, args) for j in JOBS]
        kept("jobs_exponent", exponent(found))
        kept("jobs_lp_exponent", exponent(found, lp=True))
        show(
            f"Jobs on {JOBS_GPUS:,} GPUs: warm time ~ jobs^{figures['jobs_exponent']}, from {JOBS[0]:,} on",
            "jobs",
            found,
        )
        pictures["jobs"] = f"jobs on {JOBS_GPUS:,} GPUs", {"": found}, JOBS[0]
    if "change" in axes:
        series: dict[str, Sequence[Point]] = {}
        for gpus, jobs in CHANGE_AT:
            both = changes(gpus, jobs, args)
            found = [p for p, _ in both]
            b = exponent(found, 0.01)
            show(
                f"Rows that changed, of {jobs:,} on {gpus:,} GPUs: warm time ~ fraction^{b:.3g} from 1 % on",
                "changed",
                found,
                [changes_s for _, changes_s in both],
            )
            series[f"{jobs:,} jobs, "] = found
            of = "" if (gpus, jobs) == CHANGE_AT[0] else f"_{gpus}_gpus"
            kept(f"change_exponent{of}", b)
            kept(f"change_lp_exponent{of}", exponent(found, 0.01, lp=True))
            for fraction, text in ((0.0, "0"), (0.001, "0.1"), (0.01, "1"), (1.0, "100")):
                kept(f"warm_s_at_{text}_percent{of}", next(p.warm_s for p in found if p.x == fraction))
        pictures["change"] = "part of the rows that changed", series, 0.01
    if "types" in axes:
        gpus, jobs = TYPES_AT
        found = [point(t, gpus, jobs, t, args) for t in TYPES]
        kept("types_exponent", exponent(found))
        kept("types_lp_exponent", exponent(found, lp=True))
        title = f"GPU types, {gpus:,} GPUs, {jobs:,} jobs: warm time ~ types^{figures['types_exponent']}"
        show(f"{title}, {TYPES[0]} to {TYPES[-1]}", "types", found)
        pictures["types"] = f"GPU types, {gpus:,} GPUs, {jobs:,} jobs", {"": found}, TYPES[0]
    if args.pictures is not None:
        for name, drawn in pictures.items():
            draw(args.pictures, name, *drawn)
    finish("allocation_growth", figures, f"medians of {args.rounds} rounds, gap {args.gap:g}, one thread")


if __name__ == "__main__":
    main()
