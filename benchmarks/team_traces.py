"""Sia's traces dealt to teams, and how a run of them goes. `fairness` and `lending` use it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import yaml
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.replay import Source, simulation, source_of
from coadapt.simulator.run import Simulation
from coadapt.simulator.traces.cluster_file import SimulatedCluster, read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .harness import DATA

SIA = DATA / "sia" / "sia-simulator"
CLUSTER = "6x t4:4, 3x rtx:8, 2x a100:8"
SETS = ("philly", "saturn", "newtrace")
TEAMS, ZIPF, SEED = 8, 1.2, 0
NAMES = tuple(f"team{i}" for i in range(TEAMS))
GUARANTEE = {"t4": 3, "rtx": 3, "a100": 2}
LEASE_S = 600.0


@dataclass(frozen=True, eq=False)
class Ran:
    """The jobs of a run by id: seconds to the end, and until first GPUs."""

    jct_s: Mapping[str, float]
    wait_s: Mapping[str, float]


@cache
def nodes_of(text: str) -> tuple[SimulatedCluster, Source]:
    nodes = read_cluster(text)
    return nodes, source_of(False, SIA / "traces", nodes)


def dealt(workload: Workload, number: int) -> Workload:
    """Deal jobs to teams by Zipf's law; the user of a job is its team."""
    weight = 1.0 / np.arange(1, TEAMS + 1) ** ZIPF
    rng = np.random.default_rng((SEED, number))
    order = rng.permutation(TEAMS)
    drawn = rng.choice(TEAMS, len(workload), p=weight / weight.sum())
    return replace(workload, users=tuple(NAMES[order[i]] for i in drawn))


def terms(guarantees: Mapping[str, Mapping[str, int]], lease_s: float) -> Path:
    """Write a file of teams whose users are called as they are."""
    teams = {name: {"users": [name], "guarantee": dict(counts)} for name, counts in guarantees.items()}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        yaml.safe_dump({"teams": teams, "lease_s": lease_s}, file)
    return Path(file.name)


def prepared(workload: Workload, cluster: str, policy: str, shares: Path | None) -> Simulation:
    """Return a run of a workload of Sia's on a cluster that is ready to begin."""
    nodes, source = nodes_of(cluster)
    return simulation(workload, nodes, policy, {}, source, Conditions(Timing(), shares=shares))


def ran(workload: Workload, cluster: str, policy: str, shares: Path | None) -> Ran:
    """Run a workload of Sia's on a cluster."""
    outcome = prepared(workload, cluster, policy, shares).run()
    wait_s = np.maximum(outcome.started_s - outcome.workload.submit_s, 0.0)
    ids = outcome.workload.ids
    return Ran(dict(zip(ids, outcome.jct_s.tolist(), strict=True)), dict(zip(ids, wait_s.tolist(), strict=True)))


def ran_alone(path: Path, number: int, policy: str) -> Ran:
    """Run each team of a trace alone on its guarantee."""
    workload = dealt(read_trace(path), number)
    own = ", ".join(f"1x {gpu_type}:{gpus}" for gpu_type, gpus in GUARANTEE.items())
    users, jct, wait = np.array(workload.users), dict[str, float](), dict[str, float]()
    for name in NAMES:
        if (users == name).any():
            found = ran(workload.select(users == name), own, policy, None)
            jct |= found.jct_s
            wait |= found.wait_s
    return Ran(jct, wait)


def traces_of(name: str) -> list[Path]:
    return sorted((SIA / "workloads" / name).glob("*.csv"), key=lambda path: (len(path.stem), path.stem))
