"""Runs of policies on mixes, kept in a folder, so that what is there is not run again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.results.deadlines import deadline_figures
from coadapt.simulator.traces.cluster_file import read_cluster

from .mixes import mix_of

ROUND_S = 300.0
POLICIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "unisched": ("unisched", {}),
    "published": ("unisched", {"published": True, "time_limit_s": 0.3}),
    "laxity": ("laxity", {}),
    "hydra": ("hydra", {}),
    "genie": ("genie", {}),
    "three_sigma": ("three_sigma", {"cycle_s": ROUND_S}),
    "themis": ("themis", {}),
    "optimus": ("optimus", {}),
    "srtf": ("srtf", {}),
}


@dataclass(frozen=True)
class Run:
    """One policy (a name of `POLICIES`) on some days of a mix."""

    mix: str
    policy: str
    first_day: float
    last_day: float
    seed: int = 0

    @property
    def name(self) -> str:
        return f"{self.mix}-{self.first_day:g}-{self.last_day:g}-{self.seed}-{self.policy}.json"


def simulated(run: Run) -> dict[str, float]:
    """Return the figures of a run, with `jobs`, `load` and how long the policy and the run took."""
    mix = mix_of(run.mix, (run.first_day, run.last_day), run.seed)
    policy, options = POLICIES[run.policy]
    nodes, began = read_cluster(mix.nodes), time.perf_counter()
    under = Conditions(timing=Timing(ROUND_S), node_speeds=mix.speeds)
    outcome = simulation(mix.jobs, nodes, policy, options, source_of(False, None, nodes), under).run()
    return deadline_figures(outcome) | {
        "jobs": float(len(mix.jobs)),
        "load": mix.load,
        "policy_p99_s": float(np.quantile(outcome.policy_s, 0.99)),
        "trace_min": (time.perf_counter() - began) / 60,
    }


class Named(Protocol):
    """Anything that is run: a dataclass with the name of its file."""

    @property
    def name(self) -> str: ...


Kind = TypeVar("Kind", bound=Named)


def _kept(folder: Path, how: Callable[[Kind], dict[str, float]], run: Kind) -> str:
    """Simulate a run, and write down what was found."""
    figures = how(run)
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    path = folder / run.name
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"run": vars(run), "when": when, "figures": figures}))
    part.replace(path)
    return run.name


def run_all(runs: Iterable[Kind], folder: Path, processes: int, how: Callable[[Kind], dict[str, float]]) -> None:
    """Run what is not in the folder yet."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [run for run in runs if not (folder / run.name).is_file()]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for name in pool.map(partial(_kept, folder, how), missing):
            print(f"{name} is there", flush=True)


def found(runs: Iterable[Kind], folder: Path) -> dict[Kind, dict[str, float]]:
    """Return the figures of the runs that are in the folder."""
    there = {run: folder / run.name for run in runs if (folder / run.name).is_file()}
    return {run: json.loads(path.read_text())["figures"] for run, path in there.items()}


def made(runs: Iterable[Run], folder: Path) -> tuple[str, str]:
    """Return when the first and the last of the runs in the folder ended; "" where there is none."""
    paths = [folder / run.name for run in runs]
    times = sorted(json.loads(path.read_text())["when"] for path in paths if path.is_file())
    return (times[0], times[-1]) if times else ("", "")
