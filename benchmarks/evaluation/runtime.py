"""Time of a policy's decision over the size of the cluster (figure 3.10), in the first hours of larger traces."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Planner, Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.applications import MeasuredApplications
from coadapt.simulator.jobs.knowledge import LearningKnowledge
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.readers import read_trace

from ..harness import machine
from .grid import OPTIONS, ROUND_S, SIA

SCALES = (1, 2, 4, 8, 16, 32)  # times 64 GPUs and as many jobs per hour
HOURS = 3.0  # of the trace, in which jobs come at twice its mean rate
MOST_S = 30.0  # of decisions; a policy that takes longer is measured up to here
MOST_GPUS = 16  # of a job: the most that were measured on every GPU type
_GPUS = {"t4": (6, 4), "rtx": (3, 8), "a100": (2, 8)}


class _Enough(Exception):
    """What was to be measured is."""


@dataclass
class _Timed:
    """A policy, and how long each of its decisions took."""

    policy: Planner
    took_s: list[float] = field(default_factory=list)
    jobs: list[int] = field(default_factory=list)

    def plan(self, round: Round) -> Plan:
        if round.now > HOURS * 3600 or sum(self.took_s) > MOST_S:
            raise _Enough
        start = time.process_time()
        plan = self.policy.plan(round)
        self.took_s.append(time.process_time() - start)
        self.jobs.append(len(round.jobs))
        return plan


def measure(policy: str, scale: int) -> dict[str, float]:
    """Return quartiles of one decision in ms of CPU time, over rounds of at least half of the most jobs."""
    cluster = cluster_of(", ".join(f"{scale * nodes}x {t}:{gpus}" for t, (nodes, gpus) in _GPUS.items()))
    workload = read_trace(
        SIA / "workloads" / ("saturn" if scale == 1 else f"scale/scale_{scale}x") / "workload-1.csv"
    )
    workload = replace(workload, max_gpus=np.minimum(workload.max_gpus, MOST_GPUS))
    made = make_policy(policy, **OPTIONS.get(policy, {}))
    if made.traits.fixed_sizes:
        workload = workload.tuned()
    source = MeasuredApplications(SIA / "traces", cluster.gpu_types)
    applications = [source[name] for name in workload.applications]
    world = AdaptiveWorld(workload, applications, LearningKnowledge(workload, applications))
    timed = _Timed(made)
    with contextlib.suppress(_Enough):
        Engine(world, cluster, timed, Timing(ROUND_S.get(policy, 60.0))).run()
    jobs, took_ms = np.array(timed.jobs), np.array(timed.took_s) * 1e3
    busy = jobs >= jobs.max() / 2
    low, median, high = np.percentile(took_ms[busy], [25, 50, 75]).tolist()
    return {
        "p25_ms": low,
        "median_ms": median,
        "p75_ms": high,
        "p95_ms": float(np.percentile(took_ms[busy], 95)),
        "rounds": float(busy.sum()),
        "active_jobs": float(np.median(jobs[busy])),
    }


def measured(
    policy: str, scale: int, out: Path, run: bool, say: Callable[[str], None] = print
) -> dict[str, float]:
    """Measure, or read what is kept in a file of `out`; {} where it is not there and cannot be run."""
    path = out / f"policy-time-{policy}-{scale}.json"
    if not path.exists():
        if not run:
            return {}
        try:
            found = measure(policy, scale)
        except ValueError as error:  # a placement over more nodes than anything was measured on
            say(f"policy time: {policy} on {64 * scale} GPUs: {error}")
            return {}
        say(f"policy time: {policy} on {64 * scale} GPUs: {found}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"machine": machine(), "figures": found}) + "\n")
    return dict(json.loads(path.read_text())["figures"])
