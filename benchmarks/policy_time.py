"""How long a round of the Sia policy takes: goodput matrix, integer program and placement together.

    python -m benchmarks.policy_time [--rounds 200] [--large-rounds 10] [--seed 0]

Jobs are drawn from the fitted models of executor/pace_profiles.json, each with its own speed, scaling and noise
scale; over the rounds they grow, age and restart, models are refitted, jobs leave and arrive. The peer is the same
program, in the same rounds, handed to HiGHS whole (every job and configuration), as an ILP modeller would.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import coadapt
import numpy as np
from coadapt.estimators.goodput import BatchLimits, JobModel
from coadapt.estimators.throughput import ThroughputModel, ThroughputParams
from coadapt.scheduler.cluster import Cluster, Node
from coadapt.scheduler.job import JobSpec
from coadapt.scheduler.policies import make_policy
from coadapt.scheduler.round import JobView, Plan, Round
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array, kron

from .harness import finish, table

PROFILES = json.loads((Path(str(coadapt.__file__)).parent / "executor" / "pace_profiles.json").read_text())
GPU_TYPES = ("a100", "rtx", "t4")
ROUND_S = 60.0
LEAVE, REFIT = 0.03, 0.2  # fraction of jobs that leave, and that are refitted, per round


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
        """One round later: what was planned runs; some jobs are done, some models know more."""
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
    """cluster(t4=(6, 4)): six nodes of four."""
    return Cluster(
        tuple(Node(f"{t}-{i:04d}", t, gpus, 4.0 * gpus) for t, (n, gpus) in nodes.items() for i in range(n))
    )


def whole_program_s(plan: Plan) -> tuple[float, float]:
    """(seconds, objective) of the peer: every pair a binary variable, no reduction, no start."""
    if plan.configurations is None:
        raise ValueError("the plan has no configurations")
    gains = np.stack(list(plan.gains.values()))
    limits = plan.configurations.limits()
    jobs, columns = gains.shape
    began = time.perf_counter()
    each = kron(csr_array(np.eye(jobs)), np.ones((1, columns)), format="csr")
    usage = block_array([[csr_array(limits.usage)] * jobs], format="csr")
    possible = np.isfinite(gains).ravel()
    result = milp(
        -np.where(possible, gains.ravel(), 0.0),
        constraints=[LinearConstraint(each, 0, 1), LinearConstraint(usage, 0, limits.capacity)],
        integrality=np.ones(jobs * columns),
        bounds=Bounds(0, possible.astype(float)),
        options={"mip_rel_gap": 1e-4, "time_limit": 60.0},
    )
    return time.perf_counter() - began, float("nan") if result.x is None else -float(result.fun)


@dataclass(frozen=True)
class Measured:
    policy_s: np.ndarray
    solver_s: np.ndarray
    peer_s: np.ndarray
    worst_gap: float
    worse_than_peer: float  # largest relative amount by which the peer's objective was higher
    configurations: int
    evictions: float

    @property
    def share(self) -> float:
        return float(self.solver_s.sum() / self.policy_s.sum())


def plans(workload: Workload, rounds: int) -> Iterator[tuple[float, Plan]]:
    policy = make_policy("sia")
    for step in range(rounds + 2):
        round = workload.round()
        began = time.perf_counter()
        plan = policy.plan(round)
        took = time.perf_counter() - began
        if step >= 2:  # kernels are loaded and the first jobs placed
            yield took, plan
        workload.step(plan)


def measure(workload: Workload, rounds: int, peer_rounds: int) -> Measured:
    policy_s, solver_s, peer_s, gaps, worse, evictions, columns = [], [], [], [0.0], [0.0], 0, 0
    for i, (took, plan) in enumerate(plans(workload, rounds)):
        policy_s.append(took)
        solver_s.append(plan.solver_s)
        gaps.append(plan.gap)
        evictions += plan.evictions
        columns = len(plan.configurations or ())
        if i < peer_rounds:
            seconds, objective = whole_program_s(plan)
            peer_s.append(seconds)
            worse.append((objective - plan.objective) / abs(objective))
    return Measured(
        np.array(policy_s),
        np.array(solver_s),
        np.array(peer_s),
        max(gaps),
        max(worse),
        columns,
        evictions / rounds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--large-rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    small = Workload(cluster(t4=(6, 4), rtx=(3, 8), a100=(2, 8)), 47, args.seed)
    large = Workload(cluster(t4=(192, 4), rtx=(80, 8), a100=(80, 8)), 1500, args.seed)
    found = {
        "64 GPUs, 47 jobs": measure(small, args.rounds, min(args.rounds, 40)),
        "2,048 GPUs, 1,500 jobs": measure(large, args.large_rounds, min(args.large_rounds, 3)),
    }
    rows = []
    for name, m in found.items():
        p50, p95 = np.percentile(m.policy_s * 1e3, [50, 95])
        peer50, peer95 = np.percentile(m.peer_s * 1e3, [50, 95])
        rows.append(
            [
                name,
                m.configurations,
                p50,
                p95,
                m.share,
                m.worst_gap,
                peer50,
                peer95,
                m.worse_than_peer,
                m.evictions,
            ]
        )
    columns = ["cluster", "columns", "p50 ms", "p95 ms", "solver share", "worst gap"]
    peer = ["whole p50 ms", "whole p95 ms", "its gain over ours", "evictions"]
    table("Sia policy: goodput matrix + integer program + placement, per round", [*columns, *peer], rows)
    few, many = found.values()
    finish(
        "policy_time",
        {
            "p50_ms_64_gpus": round(float(np.median(few.policy_s)) * 1e3, 2),
            "p95_ms_64_gpus": round(float(np.percentile(few.policy_s, 95)) * 1e3, 2),
            "p50_ms_2048_gpus": round(float(np.median(many.policy_s)) * 1e3, 1),
            "solver_share_64_gpus": round(few.share, 3),
            "solver_share_2048_gpus": round(many.share, 3),
            "whole_mip_p50_ms_64_gpus": round(float(np.median(few.peer_s)) * 1e3, 2),
            "whole_mip_p50_ms_2048_gpus": round(float(np.median(many.peer_s)) * 1e3, 1),
        },
    )


if __name__ == "__main__":
    main()
