"""Rounds for tests: clusters, jobs, and goodput from tables instead of fitted models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.expected import Expected, ExpectedSource
from coadapt.core.job import JobSpec
from coadapt.core.placement import NodeShare, Placement
from coadapt.estimators.goodput import BatchLimits, JobModel
from coadapt.estimators.tabulated import TabulatedConfigurations, TabulatedModel
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams
from coadapt.policies.contract.round import JobView, Plan, Round


def cluster(text: str) -> Cluster:
    """Make a cluster: "1x a100:4, 2x t4:4" has nodes t4-0, t4-1, …"""
    nodes: list[Node] = []
    for part in text.split(","):
        count, kind = part.strip().split("x ")
        gpu_type, gpus = kind.split(":")
        taken = sum(node.gpu_type == gpu_type for node in nodes)
        nodes += [
            Node(f"{gpu_type}-{taken + i:03d}", gpu_type, int(gpus), cpus=2.0 * int(gpus), memory_gib=64.0)
            for i in range(int(count))
        ]
    return Cluster(tuple(nodes))


def model(speed: Mapping[str, float], link: float = 0.0, most: int = 4096, first: int = 32) -> JobModel:
    """Return a model with `speed` samples/s on one GPU of each type, and all-reduces of `link` seconds."""
    throughput = {
        t: ThroughputModel(
            ThroughputParams(alpha_c=1e-4, beta_c=1.0 / s, alpha_r=link, alpha_n=2 * link),
            max_local_bsz=256,
            max_replicas_measured=8,
        )
        for t, s in speed.items()
    }
    return JobModel(throughput, 1000.0, BatchLimits(first, most), dict.fromkeys(speed, 1))


def left(seconds: float, source: ExpectedSource = ExpectedSource.MEASURED_SPEED) -> Expected:
    """Return the `Expected` of a job that needs exactly so long."""
    return Expected.exactly(seconds, source)


ANY = model({"a": 1.0, "b": 1.0})


def spec(name: str = "job", adaptivity: str = "adaptive", preemptible: bool = True, **resources: Any) -> JobSpec:
    reservation = resources.pop("reservation", None)
    return JobSpec.model_validate(
        {
            "name": name,
            "script": "train.py",
            "preemptible": preemptible,
            "resources": resources,
            "reservation": reservation,
            "training": {"adaptivity": adaptivity},
        }
    )


def on(gpu_type: str, **gpus: int) -> Placement:
    """Make a placement: on("t4", n0=2) is two GPUs of node t4-000."""
    shares = tuple(NodeShare(f"{gpu_type}-{int(n[1:]):03d}", g) for n, g in gpus.items())
    return Placement(gpu_type, shares)


def job(id: str, *, known: bool = True, **view: Any) -> JobView:
    """Return an old job without restarts that may use any size, unless the view says otherwise."""
    names = {
        "adaptivity",
        "preemptible",
        "reservation",
        "min_gpus",
        "max_gpus",
        "gpus",
        "gpu_types",
        "gpus_per_replica",
        "cpus_per_gpu",
        "memory_gib_per_gpu",
    }
    about = {name: view.pop(name) for name in list(view) if name in names}
    defaults: dict[str, Any] = {"age_s": 3600.0, "largest_gpus": {"a": 64}}
    return JobView(id=id, spec=spec(id, **about), **{"model": ANY if known else None, **defaults, **view})


def rigid(id: str, gpus: int = 1, **view: Any) -> JobView:
    """Return a job of a fixed number of GPUs; nothing is known of its speed unless the view says so."""
    view.setdefault("known", False)
    return job(id, gpus=gpus, adaptivity="rigid", **view)


def tabulated(goodput: Mapping[str, float]) -> TabulatedModel:
    """Return a model of {configuration name: goodput}. A job cannot run on other configurations."""
    items = []
    for name in goodput:
        found = re.fullmatch(r"(\d+)x(\S+)(?: \((\d+) nodes\))?", name)
        assert found is not None, name
        items.append((found[2], int(found[3] or 1), int(found[1])))
    return TabulatedModel(TabulatedConfigurations(tuple(items)), np.array(list(goodput.values()), float))


def given(
    where: Cluster | str, jobs: list[JobView], table: Mapping[str, Mapping[str, float]], now: float = 0.0
) -> Round:
    """Make a round of jobs with goodput by job id and configuration name. Jobs without a model keep none."""
    where = cluster(where) if isinstance(where, str) else where
    views = [j if j.model is None else replace(j, model=tabulated(table.get(j.id, {}))) for j in jobs]
    return Round(now, 60.0, where, views)


def held(plan: Plan) -> dict[str, str]:
    """Return what each job gets, such as "4xb"."""
    return {id: f"{p.gpus}x{p.gpu_type}" for id, p in sorted(plan.placements.items())}


def assert_within(plan: Plan, where: Cluster) -> None:
    used: dict[str, int] = {}
    for placement in plan.placements.values():
        for share in placement.shares:
            assert where.by_id[share.node_id].gpu_type == placement.gpu_type
            used[share.node_id] = used.get(share.node_id, 0) + share.gpus
    for node, gpus in used.items():
        assert gpus <= where.by_id[node].gpus, node


def after(jobs: list[JobView], plan: Plan, **changes: Any) -> list[JobView]:
    """Return the jobs one round later."""
    return [
        replace(
            j,
            placement=plan.placements.get(j.id),
            largest_gpus={
                **j.largest_gpus,
                **(
                    {p.gpu_type: max(p.gpus, j.largest_gpus.get(p.gpu_type, 0))}
                    if (p := plan.placements.get(j.id))
                    else {}
                ),
            },
            **changes,
        )
        for j in jobs
    ]
