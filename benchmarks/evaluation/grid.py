"""Runs of the evaluation: which they are, running them in a few processes, and the figures of several traces."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from coadapt.simulator.jobs.knowledge import Knows
from coadapt.simulator.results.metrics import spread
from coadapt.simulator.results.saved import SavedRun, load
from coadapt.simulator.sweep import folder_of, is_done, run_cell
from coadapt.simulator.sweep_file import Cell, TraceChoice

from ..harness import DATA
from . import hybrid

SIA = DATA / "sia" / "sia-simulator"
HETEROGENEOUS = "6x t4:4, 3x rtx:8, 2x a100:8"
HOMOGENEOUS = "16x t4:4"
# As section 3.4.3 runs them; any other policy: its defaults, 60 s.
OPTIONS: dict[str, dict[str, Any]] = {
    "gavel": {"objective": "max_sum_throughput_perf"},
    "themis": {"lease_s": 360.0},  # decides about every job in every round
}
ROUND_S = {"gavel": 360.0, "themis": 360.0, "shockwave": 360.0}


@dataclass(frozen=True)
class Trace:
    """A file, and its name wherever the evaluation runs."""

    name: str
    path: Path


@dataclass(frozen=True)
class Value:
    """Over `traces` runs: the mean and the standard deviation of a sample, nan where it has no meaning."""

    mean: float
    spread: float
    traces: int


def shipped(folder: str) -> list[Trace]:
    """Return the traces of a folder of the artifact, in the order of their numbers."""
    paths = sorted((SIA / "workloads" / folder).glob("workload-*.csv"), key=lambda p: int(p.stem.split("-")[1]))
    if not paths:
        raise SystemExit(f"no traces in {SIA / 'workloads' / folder}; COADAPT_DATA says where the data lies")
    return [Trace(f"{folder}/{path.stem}", path) for path in paths]


def runs_of(
    policy: str,
    traces: Iterable[Trace],
    cluster: str = HETEROGENEOUS,
    options: Mapping[str, Any] | None = None,
    round_s: float | None = None,
    knows: Knows = Knows.BOOTSTRAP,
    profiles: Path = SIA / "traces",
) -> tuple[Cell, ...]:
    """Return one run for each trace. `options` and `round_s`: where they are not the policy's own."""
    return tuple(
        Cell(
            policy=policy,
            label=policy,
            options=json.dumps({**OPTIONS.get(policy, {}), **(options or {})}, sort_keys=True),
            trace=TraceChoice(path=str(trace.path), format="sia"),
            trace_shown=trace.name,
            cluster=cluster,
            cluster_shown=cluster,
            seed=0,
            round_interval_s=float(round_s or ROUND_S.get(policy, 60.0)),
            events=False,
            knows=str(knows),
            noise=0.0,
            profiling_cost_s=0.0,  # as in the paper's simulator
            profiles=str(profiles),
        )
        for trace in traces
    )


def _say(line: str) -> None:
    print(line, flush=True)


def run_all(
    cells: Sequence[Cell], out: Path, processes: int, again: bool = False, say: Callable[[str], None] = _say
) -> None:
    """Run what is not there yet, or with `again` everything. A run that fails is told of; the others go on."""
    missing = [cell for cell in dict.fromkeys(cells) if again or not is_done(cell, out)]
    if not missing:
        return
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    say(f"{len(missing)} runs, {len(set(cells)) - len(missing)} are there")
    # Fresh processes: threads of numba and BLAS do not survive a fork.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(run_cell, cell, out): cell for cell in missing}
        told: set[str] = set()
        for count, ended in enumerate(as_completed(waiting), start=1):
            cell, done = waiting[ended], ended.result()
            say(f"[{count}/{len(missing)}] {cell.policy} {cell.options} {cell.trace_shown} {done.problem}")
            for about in done.warned.keys() - told:
                say(f"warning: {done.warned[about]}")
            told |= done.warned.keys()


def finished(cells: Iterable[Cell], out: Path) -> dict[str, SavedRun]:
    """Return the runs that are there, by the name of the trace's file: traces made of another keep its."""
    return {Path(cell.trace_shown).name: load(folder_of(cell, out)) for cell in cells if is_done(cell, out)}


def when(cells: Iterable[Cell], out: Path) -> str:
    """Return from when to when the runs that are there were made; "" where none is."""
    made = sorted(os.path.getmtime(folder_of(cell, out)) for cell in cells if is_done(cell, out))
    if not made:
        return ""
    first, last = (datetime.fromtimestamp(at, UTC) for at in (made[0], made[-1]))
    return f"runs of {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC"


def values_of(runs: Sequence[SavedRun]) -> dict[str, Value]:
    """Return every figure over several traces; p99 is of all their jobs together, as in the paper."""
    if not runs:
        return {}
    count = len(runs)
    every = [{**run.figures(), **hybrid.figures(run.outcome)} for run in runs]
    found = {name: Value(*pair, count) for name, pair in spread(every).items()}
    jct_h = np.concatenate([run.outcome.jct_s for run in runs]) / 3600
    rho = np.concatenate([run.rho for run in runs])
    policy_ms = np.concatenate([run.outcome.policy_s for run in runs]) * 1e3
    pooled = {
        "p99_jct_h": np.percentile(jct_h, 99),
        "max_contention": max(run.outcome.contention[:, 1].max() for run in runs),
        "worst_rho": np.nanmax(rho),
        "unfair_fraction": np.mean(rho[np.isfinite(rho)] > 1),
        "policy_median_ms": np.median(policy_ms),
        "policy_p95_ms": np.percentile(policy_ms, 95),
    }
    return found | {name: Value(float(value), float("nan"), count) for name, value in pooled.items()}
