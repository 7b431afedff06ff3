"""How long a round of the Sia policy takes: goodput matrix, integer program and placement together.

    python -m benchmarks.policy_time [--rounds 200] [--large-rounds 10] [--seed 0]

Jobs are drawn from the fitted models of core/pace_profiles.json, each with its own speed, scaling and noise scale.
Over the rounds they grow, age, restart, leave and arrive, and models are fitted anew. The peer is the same program
in the same rounds, handed to HiGHS whole (every job and configuration), as an ILP modeller would.

A last part fits what `lucid` learns, lengths and arrivals, to 100,000 jobs of Venus, with owners from a seed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import block_array, csr_array, kron

from tests.support.changing_jobs import Workload, cluster

from . import lucid_fit
from .harness import finish, table


def whole_program_s(plan: Plan) -> tuple[float, float]:
    """Return (seconds, objective) of the peer: every pair a binary variable, no reduction, no start."""
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
            **lucid_fit.figures(),
        },
    )


if __name__ == "__main__":
    main()
