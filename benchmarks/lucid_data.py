"""Venus, September 2020, with the profiles, pairs and estimates of Lucid's authors. For measuring only."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from coadapt.core.cluster import Cluster
from coadapt.core.usage import Usage
from coadapt.estimators.affinity.uses import usage_of
from coadapt.policies.contract.arrivals import Arrivals
from coadapt.policies.packing.models import AHEAD, SLOT_S, PackingModels
from coadapt.simulator.jobs.shared_speeds import JobProfiles, MeasuredPairs
from coadapt.simulator.traces.cluster_file import SimulatedCluster, read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .harness import DATA

TRACE = DATA / "helios" / "venus_sept2020_gpu_jobs.csv.gz"
NODES = DATA / "lucid" / "venus_vc_config.csv"
PROFILES = DATA / "lucid" / "venus_sept2020_assigned_profile.csv.gz"
ESTIMATES = {name: DATA / "lucid" / f"venus_sept_{name}_estimate.csv.gz" for name in ("ebm", "lgb")}
PAIRS = DATA / "lucid" / "colocate_info.csv"
ALONE = DATA / "lucid" / "single_data.csv"
FORECAST = DATA / "lucid" / "venus_throughput_pred.csv"
FILES = (TRACE, NODES, PROFILES, *ESTIMATES.values(), PAIRS, ALONE, FORECAST)
LENDERS = ("vc8Gr", "vcefl")  # each gives one node to the profiler
GPU_MEMORY_GIB = 24.0  # of an RTX 3090
BELOW_ZERO_S = 1000.0  # what negative estimates are set to


def rows_of(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return list(csv.DictReader(file))


def kind_of(row: Mapping[str, str], number: str = "") -> str:
    """Return the name of a configuration: model, dataset, batch size and mixed precision."""
    return "-".join(row[f"{name}{number}"] for name in ("model", "dataset", "batchsize", "amp"))


def usage_in(row: Mapping[str, str]) -> Usage:
    """Return what a configuration uses; files say it in per cent and MB."""
    return usage_of(float(row["gpu_util"]) / 100, float(row["gmem_util"]) / 100, float(row["gmem"]) / 1024)


@dataclass(frozen=True, eq=False)
class Lucid:
    """The jobs and what is known of them: (jobs,) kinds, uses and estimates; labels by kind; speeds of pairs."""

    workload: Workload
    nodes: SimulatedCluster
    kinds: tuple[str, ...]
    profiles: JobProfiles
    labels: Mapping[str, int]
    pairs: Mapping[tuple[str, str], float]
    estimates_s: Mapping[str, np.ndarray]

    def models(self, label: Callable[[str], int] | None = None) -> PackingModels:
        """Return models of the stored labels and the published forecast."""
        of = label or self.labels.__getitem__
        by_usage = {
            _key(usage): of(kind) for kind, usage in zip(self.kinds, self.profiles.usage, strict=True) if usage
        }
        return PackingModels(lambda usage: by_usage[_key(usage)], ahead=published_forecast(self.workload))

    def true_pairs(self, most: float, otherwise: Callable[[int, int], float] | None = None) -> MeasuredPairs:
        """Return the truth; by default a pair that was not measured runs at full speed, as published."""
        return MeasuredPairs(self.kinds, self.pairs, otherwise or (lambda job, beside: 1.0), most)


def _key(usage: Usage) -> tuple[float | None, ...]:
    return usage.gpu_util, usage.memory_util, usage.memory_gib


@cache
def venus() -> Lucid:
    """Return Venus' jobs with their profiles, on its nodes less those of the profiler."""
    workload, nodes = read_trace(TRACE), read_cluster(str(NODES))
    parts = dict(nodes.parts)
    for name in LENDERS:
        parts[name] = Cluster(parts[name].nodes[:-1], parts[name].pool)
    by_id = {row["job_id"]: row for row in rows_of(PROFILES)}
    rows = [by_id[id] for id in workload.ids]
    kinds = tuple(kind_of(row) for row in rows)
    pairs: dict[tuple[str, str], float] = {}
    for row in rows_of(PAIRS):
        a, b = kind_of(row, "1"), kind_of(row, "2")
        pairs[a, b], pairs[b, a] = float(row["speed1"]), float(row["speed2"])
    estimates = {}
    for name, path in ESTIMATES.items():
        told = {row["job_id"]: float(row["priority"]) for row in rows_of(path)}
        values = np.array([told[id] for id in workload.ids])
        estimates[name] = np.where(values < 0, BELOW_ZERO_S, values)
    return Lucid(
        workload,
        SimulatedCluster(parts),
        kinds,
        JobProfiles(tuple(usage_in(row) for row in rows)),
        {kind_of(row): int(row["label"]) for row in rows_of(ALONE)},
        pairs,
        estimates,
    )


def published_forecast(workload: Workload) -> Callable[[float], Arrivals]:
    """Return the published forecast of the next slots, at a time of the trace."""
    rows = rows_of(FORECAST)
    first_s = np.datetime64(rows[0]["time"]).astype("datetime64[s]").astype(float) - workload.began_s
    jobs = np.array([float(row["pred_gpu_job"]) for row in rows])
    gpus = np.array([float(row["pred_gpu_num"]) for row in rows])

    def ahead(now: float) -> Arrivals:
        at = min(max(int((now - first_s) // SLOT_S), 0), len(rows) - AHEAD)
        return Arrivals(float(jobs[at : at + AHEAD].mean()), float(gpus[at : at + AHEAD].mean()))

    return ahead
