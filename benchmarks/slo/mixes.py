"""The six mixes of jobs with and without deadlines that policies are compared on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.deadlines import DeadlineRule, with_deadlines
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from ..harness import DATA

CHRONUS, VENUS = DATA / "chronus", DATA / "helios"
DAY_S = 86_400.0
LEAST_S, MOST_GPUS = 1200.0, 64  # of jobs of Venus
PHILLY = {"p_slo": "SLO", "p_mix1": "MIX1", "p_mix2": "MIX2"}
RULES = {
    "h_slo": DeadlineRule(),
    "h_mix1": DeadlineRule(strict=0.7),
    "h_mix2": DeadlineRule(strict=0.26, soft=0.65),
}
MIXES = (*PHILLY, *RULES)
MIXED = ("p_mix1", "p_mix2", "h_mix1", "h_mix2")  # with jobs that have no deadline


@dataclass(frozen=True)
class Mix:
    """A trace, the nodes that it runs on, and how much slower jobs are on more of them."""

    jobs: Workload
    nodes: str
    speeds: Path | None

    @property
    def load(self) -> float:
        """GPU-hours asked for, over those there from the first submission to the last."""
        gpus = sum(node.gpus for part in read_cluster(self.nodes).parts.values() for node in part.nodes)
        return float(self.jobs.gpus @ self.jobs.duration_s) / float(np.ptp(self.jobs.submit_s)) / gpus


def mix_of(name: str, days: tuple[float, float], seed: int) -> Mix:
    """Return the jobs of some days of a mix."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jobs without GPUs
        if name in PHILLY:
            jobs = read_trace(CHRONUS / f"trace_job_Philly_{PHILLY[name]}.csv.gz")
            return Mix(stretch(jobs, days), "120x v100:8", CHRONUS / "model_info.json")
    return Mix(with_deadlines(venus(days), RULES[name], seed), "96x v100:8", None)


def venus(days: tuple[float, float]) -> Workload:
    """Return the jobs of some days of Venus, without deadlines."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jobs without GPUs
        jobs = stretch(read_trace(VENUS / "venus_sept2020_gpu_jobs.csv.gz"), days)
    return jobs.select((jobs.duration_s >= LEAST_S) & (jobs.gpus <= MOST_GPUS))


def stretch(jobs: Workload, days: tuple[float, float]) -> Workload:
    """Return the jobs that were submitted in some days, from second 0 on."""
    first, last = (day * DAY_S for day in days)
    found = jobs.select((jobs.submit_s >= first) & (jobs.submit_s < last))
    return replace(found, submit_s=found.submit_s - first, virtual_clusters=("",) * len(found))
