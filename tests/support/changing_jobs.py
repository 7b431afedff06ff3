"""Jobs that come, learn, grow and go from round to round, drawn from `core/pace_profiles.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.emulated_nodes import PACE_PROFILES
from coadapt.core.job import JobSpec
from coadapt.estimators.goodput import BatchLimits, JobModel
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams
from coadapt.policies.contract.round import JobView, Plan, Round

PROFILES = json.loads(PACE_PROFILES.read_text())
GPU_TYPES = ("a100", "rtx", "t4")
ROUND_S = 60.0
LEAVE, REFIT = 0.03, 0.2  # fractions of jobs per round that leave, and that are fitted anew


@dataclass
class Workload:
    """Jobs whose number stays the same while they come and go."""

    cluster: Cluster
    count: int
    seed: int
    jobs: list[JobView] = field(default_factory=list)
    now: float = 0.0
    made: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.jobs = [self._new(age_s=float(self.rng.uniform(0, 7200))) for _ in range(self.count)]

    def round(self) -> Round:
        return Round(self.now, ROUND_S, self.cluster, self.jobs)

    def step(self, plan: Plan) -> None:
        """Move on one round: what was planned runs, some jobs end, and some models know more."""
        self.now += ROUND_S
        self.jobs = [self._next(job, plan) for job in self.jobs if self.rng.random() > LEAVE]
        self.jobs += [self._new() for _ in range(self.count - len(self.jobs))]

    def _new(self, age_s: float = 0.0) -> JobView:
        self.made += 1
        name = f"job-{self.made:06d}"
        kind = str(self.rng.choice(sorted(name for name in PROFILES["profiles"] if name in PROFILES["models"])))
        spec = JobSpec.model_validate(
            {"name": name, "script": "train.py", "resources": {"max_gpus": int(2 ** self.rng.integers(3, 7))}}
        )
        return JobView(
            id=name,
            spec=spec,
            model=self._model(kind),
            age_s=age_s,
            largest_gpus={"t4": int(2 ** self.rng.integers(0, 5))} if age_s else {},
            restarts=int(age_s // 900),
            restart_cost_s=float(self.rng.uniform(5, 60)),
            submitted_s=self.now - age_s,
        )

    def _model(self, kind: str) -> JobModel:
        facts, rng = PROFILES["models"][kind], self.rng
        throughput = {}
        for gpu_type, fit in PROFILES["profiles"][kind].items():
            if gpu_type not in GPU_TYPES:
                continue
            params = dict(fit["params"])
            for name in ("alpha_c", "beta_c", "alpha_r", "alpha_n"):
                params[name] *= float(rng.lognormal(0, 0.2))
            throughput[gpu_type] = ThroughputModel(ThroughputParams.from_json(params), fit["max_local_bsz"], 16)
        noise = facts["noise_scale"] * float(rng.lognormal(0, 0.8))
        limits = BatchLimits(facts["initial_batch_size"], facts["max_batch_size"])
        return JobModel(throughput, noise, limits, dict.fromkeys(throughput, 1))

    def _next(self, job: JobView, plan: Plan) -> JobView:
        placement, model = plan.placements.get(job.id), job.model
        if model is not None and model.noise_scale is not None and self.rng.random() < REFIT:
            model = replace(model, noise_scale=model.noise_scale * float(self.rng.lognormal(0.02, 0.05)))
        held = dict(job.largest_gpus)
        if placement is not None:
            held[placement.gpu_type] = max(held.get(placement.gpu_type, 0), placement.gpus)
        moved = job.placement is not None and placement != job.placement
        return replace(
            job,
            model=model,
            placement=placement,
            age_s=job.age_s + ROUND_S,
            largest_gpus=held,
            restarts=job.restarts + moved,
        )


def cluster(**nodes: tuple[int, int]) -> Cluster:
    """Make a cluster: cluster(t4=(6, 4)) is six nodes of four."""
    return Cluster(
        tuple(Node(f"{t}-{i:04d}", t, gpus, 4.0 * gpus) for t, (n, gpus) in nodes.items() for i in range(n))
    )
