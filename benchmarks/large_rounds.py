"""Rounds of large clusters, one after another: seven GPU types, jobs that come, go, grow and are measured anew.

A job trains one of the fitted models of core/pace_profiles.json, at its own speed and noise. The two GPU types
that were not measured run at multiples of measured ones. In every round some jobs end and others arrive. Some of
those that stay learn something, so that their goodputs move by several percent. The others that train report what
hardly differs from what was known, as live jobs do. If jobs of all kinds are asked for, some are rigid,
pipeline-parallel, reserved or not preemptible. Nodes that fail return some rounds later.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import coadapt
import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec
from coadapt.estimators.goodput import BatchLimits, JobModel
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams
from coadapt.policies.contract.round import JobView, Plan, Round

PROFILES = json.loads((Path(str(coadapt.__file__)).parent / "core" / "pace_profiles.json").read_text())
SCRIPT = {"name": "job", "script": "train.py"}
ROUND_S = 60.0
# GPU type: GPUs of a node, part of the cluster's GPUs, the measured type it is like and how many times as fast.
TYPES = {
    "a10": (4, 0.1, "quad", 1.3),
    "a100": (8, 0.2, "a100", 1.0),
    "h100": (8, 0.2, "a100", 2.0),
    "quad": (4, 0.1, "quad", 1.0),
    "rtx": (8, 0.1, "rtx", 1.0),
    "t4": (4, 0.2, "t4", 1.0),
    "v100": (8, 0.1, "v100", 1.0),
}
VARIANTS = 40  # of the throughput of each model, drawn once
MOST_GPUS = 2048
# Of jobs of all kinds: how many are not plain ones, and the GPUs that rigid and reserved ones ask for.
KINDS = {"plain": 0.85, "rigid": 0.06, "pipeline": 0.03, "kept": 0.04, "reserved": 0.02}
COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
PIPELINES = (2, 3, 4, 8)  # GPUs of a replica
AWAY = 10  # rounds that a failed node takes to return
REPORT = 0.002  # standard deviation of what an ordinary report changes in the noise scale, relative
LEARN = 0.15  # and of one that learns something


def cluster(gpus: int, types: int = len(TYPES)) -> Cluster:
    """Return a cluster of about so many GPUs of `types` types; beyond seven they repeat under other names."""
    names = [
        (f"{t}{'' if i < len(TYPES) else f'-{i // len(TYPES)}'}", TYPES[t]) for i, t in enumerate(kinds(types))
    ]
    total = sum(part for _, (_, part, _, _) in names)
    nodes: list[Node] = []
    for name, (size, part, _, _) in names:
        count = max(round(gpus * part / total / size), 1)
        nodes += [Node(f"{name}-{i:05d}", name, size, 4.0 * size) for i in range(count)]
    return Cluster(tuple(nodes))


def kinds(types: int) -> list[str]:
    """Return the type in `TYPES` that each of so many types is like."""
    names = list(TYPES)
    return [names[i % len(names)] for i in range(types)]


@dataclass
class Workload:
    """Jobs whose number stays the same. churn: part that ends in a round; learn: part that learns something.

    all_kinds: jobs are of all of KINDS, else plain. fail: part of the nodes that is lost in a round, and what ran
    there waits. `cluster` is the one of the next round.
    """

    cluster: Cluster
    count: int
    churn: float = 0.01
    learn: float = 0.04
    seed: int = 0
    all_kinds: bool = False
    fail: float = 0.0
    now: float = 0.0
    made: int = 0
    jobs: list[JobView] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.variants = {name: [self._throughput(name) for _ in range(VARIANTS)] for name in PROFILES["models"]}
        self.specs = {
            most: JobSpec.model_validate(SCRIPT | {"resources": {"max_gpus": most}})
            for most in (4, 8, 16, 32, 64, 128, 256, MOST_GPUS)
        }
        self.others: dict[str, JobSpec] = {}
        self.whole, self.away = self.cluster, {}
        self.jobs = [self._new(age_s=float(self.rng.exponential(7200))) for _ in range(self.count)]

    def round(self) -> Round:
        return Round(self.now, ROUND_S, self.cluster, self.jobs)

    def step(self, plan: Plan) -> None:
        """Move on to one round later."""
        self.now += ROUND_S
        fate = self.rng.random(len(self.jobs))
        drift = self.rng.normal(0, 1, len(self.jobs))
        stays = zip(self.jobs, fate.tolist(), drift.tolist(), strict=True)
        self.jobs = [
            self._next(job, plan, at < self.churn + self.learn, d) for job, at, d in stays if at >= self.churn
        ]
        self.jobs += [self._new() for _ in range(self.count - len(self.jobs))]
        if self.fail:
            self._lose_nodes()

    def _lose_nodes(self) -> None:
        """Fail nodes and bring others back; jobs on those that fail have nothing."""
        nodes = self.whole.nodes
        failed = [nodes[i].id for i in np.flatnonzero(self.rng.random(len(nodes)) < self.fail).tolist()]
        away = {id: rounds - 1 for id, rounds in self.away.items() if rounds > 1} | dict.fromkeys(failed, AWAY)
        if away.keys() != self.away.keys():
            self.cluster = Cluster(tuple(node for node in nodes if node.id not in away))
        self.away = away
        self.jobs = [
            replace(job, placement=None, restarts=job.restarts + 1)
            if job.placement is not None and not away.keys().isdisjoint(job.placement.by_node)
            else job
            for job in self.jobs
        ]

    def _spec(self, most: int) -> JobSpec:
        """Make a job of any kind, a plain one with up to `most` GPUs."""
        kind = str(self.rng.choice(list(KINDS), p=list(KINDS.values())))
        gpus, replica = int(self.rng.choice(COUNTS)), int(self.rng.choice(PIPELINES))
        gpu_type = str(self.rng.choice(self.whole.gpu_types))
        rigid = {"resources": {"gpus": gpus}, "training": {"adaptivity": "rigid"}}
        about: dict[str, object] = {
            "plain": {"resources": {"max_gpus": most}},
            "rigid": rigid,
            "pipeline": {"resources": {"max_gpus": max(most, replica), "gpus_per_replica": replica}},
            "kept": {**rigid, "preemptible": False},
            "reserved": {"reservation": {"gpu_type": gpu_type, "gpus": gpus}},
        }[kind]
        return self.others.setdefault(str(about), JobSpec.model_validate(SCRIPT | about))

    def _throughput(self, name: str) -> dict[str, ThroughputModel]:
        found = {}
        for gpu_type in self.cluster.gpu_types:
            _, _, like, faster = TYPES[gpu_type.split("-")[0]]
            fit = PROFILES["profiles"][name][like]
            params = dict(fit["params"])
            for key in ("alpha_c", "beta_c", "alpha_r", "alpha_n"):
                params[key] *= float(self.rng.lognormal(0, 0.2)) / (
                    faster if key in ("alpha_c", "beta_c") else 1.0
                )
            found[gpu_type] = ThroughputModel(ThroughputParams.from_json(params), fit["max_local_bsz"], 16)
        return found

    def _new(self, age_s: float = 0.0) -> JobView:
        self.made += 1
        rng = self.rng
        name = str(rng.choice(sorted(self.variants)))
        facts = PROFILES["models"][name]
        throughput = self.variants[name][int(rng.integers(VARIANTS))]
        noise = facts["noise_scale"] * float(rng.lognormal(0, 0.8))
        limits = BatchLimits(facts["initial_batch_size"], facts["max_batch_size"])
        most = int(rng.choice(sorted(self.specs), p=[0.2, 0.2, 0.2, 0.15, 0.1, 0.08, 0.05, 0.02]))
        spec = self._spec(most) if self.all_kinds else self.specs[most]
        return JobView(
            id=f"job-{self.made:08d}",
            spec=spec,
            model=JobModel(throughput, noise, limits, {t: spec.gpus_per_replica(t) or 1 for t in throughput}),
            age_s=age_s,
            largest_gpus={self.cluster.gpu_types[0]: int(2 ** rng.integers(0, 5))} if age_s else {},
            restarts=int(age_s // 1800),
            restart_cost_s=float(rng.uniform(5, 60)),
            submitted_s=self.now - age_s,
        )

    def _next(self, job: JobView, plan: Plan, learns: bool, drift: float) -> JobView:
        placement, model = plan.placements.get(job.id), job.model
        held = job.largest_gpus
        if placement is not None:
            # Jobs that train report in every round.
            assert isinstance(model, JobModel)
            assert model.noise_scale is not None
            change = np.exp(drift * (LEARN if learns else REPORT))
            model = model.with_noise_scale(float(model.noise_scale * change))
            if placement.gpus > held.get(placement.gpu_type, 0):
                held = {**held, placement.gpu_type: placement.gpus}
        moved = job.placement is not None and placement is not job.placement
        return replace(
            job,
            model=model,
            placement=placement,
            age_s=job.age_s + ROUND_S,
            largest_gpus=held,
            restarts=job.restarts + moved,
        )
