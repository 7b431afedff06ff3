"""How long a round with teams takes, and whether teams without terms change any plan.

    python -m benchmarks.shares_scale [--rounds N] [--gpus 25000] [--policy sia]

The large rounds have 25,000 GPUs of 6 types, 5,000 jobs and 50 teams. Half of the teams are at a cap or below a
guarantee. The small ones have 64 GPUs of 3 types, 40 jobs and 8 teams. Jobs end and come from round to round.

`round_p99_s`: the policy's time. `over_without_teams`: its median over that without teams in the same rounds.
`plans_changed_without_teams`: rounds in which teams without caps and guarantees change a plan.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.contract.sharing import Sharing, TeamTerms
from coadapt.policies.warm_up import warm_up

from tests.support.rounds import model

from .arguments import at_least
from .harness import finish, table

LEAVES = 0.02  # part of the jobs that end in each round


@dataclass
class Rounds:
    """Rounds of jobs that come and end, one after another; each follows the last one's plan.

    The first half of the teams submits most. Of these, every other one is at its cap. Each team of the second half
    submits little, and is guaranteed its part of the cluster.
    """

    cluster: Cluster
    jobs: int
    teams: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    views: list[JobView] = field(default_factory=list)
    team: dict[str, str] = field(default_factory=dict)
    count: int = 0

    def terms(self) -> dict[str, TeamTerms]:
        capacity = self.cluster.capacity()
        found = {}
        for i in range(self.teams):
            part = {t: gpus // self.teams for t, gpus in capacity.items()}
            heavy = i < self.teams // 2
            found[f"team{i}"] = TeamTerms({} if heavy and i % 2 else part, part if heavy and i % 2 == 0 else {})
        return found

    def _new(self) -> JobView:
        self.count += 1
        id, rng = f"job{self.count}", self.rng
        speed = {t: float(rng.lognormal(3, 0.4) * (1 + i)) for i, t in enumerate(self.cluster.gpu_types)}
        most = int(rng.choice([4, 8, 16, 32]))
        heavy = rng.random() < 0.75
        half = self.teams // 2
        self.team[id] = f"team{rng.integers(half) if heavy else half + rng.integers(self.teams - half)}"
        spec = JobSpec.model_validate({"name": id, "script": "train.py", "resources": {"max_gpus": most}})
        fitted = model(speed, link=float(rng.uniform(0.0, 0.02)))
        return JobView(id, spec, fitted, age_s=0.0, submitted_s=float(self.count))

    def __iter__(self) -> Iterator[tuple[Round, Round]]:
        """Yield each round with its teams and without. `follow` must be called before the next one."""
        self.views = [self._new() for _ in range(self.jobs)]
        terms, now = self.terms(), 0.0
        while True:
            leased = {view.id: now + 600.0 for view in self.views if view.placement and self.rng.random() < 0.2}
            own = {view.id: self.team[view.id] for view in self.views}
            plain = Round(now, 60.0, self.cluster, list(self.views))
            yield replace(plain, sharing=Sharing(terms, own, {}, leased)), plain
            now += 60.0

    def follow(self, plan: Plan) -> None:
        """Let the jobs hold what a plan gives, and let some end and others come."""
        views = []
        for view in self.views:
            if self.rng.random() < LEAVES:
                views.append(self._new())
                continue
            placement, most = plan.placements.get(view.id), dict(view.largest_gpus)
            if placement is not None:
                most[placement.gpu_type] = max(most.get(placement.gpu_type, 0), placement.gpus)
            views.append(replace(view, placement=placement, largest_gpus=most, age_s=view.age_s + 60.0))
        self.views = views


def large(gpus: int) -> Cluster:
    """Return nodes of 8 GPUs of 6 types."""
    return Cluster(tuple(Node(f"n{i:05d}", f"type{i % 6}", 8) for i in range(gpus // 8)))


def small() -> Cluster:
    """Return the 64 GPUs of Sia's evaluation."""
    kinds = (("t4", 4, 6), ("rtx", 8, 3), ("a100", 8, 2))
    return Cluster(tuple(Node(f"{t}-{i}", t, gpus) for t, gpus, count in kinds for i in range(count)))


def measured(policy: str, rounds: Rounds, count: int) -> dict[str, float]:
    """Return the times and gaps of rounds with teams and without, and how many teams were at a cap or below."""
    with_teams, without = make_policy(policy), make_policy(policy)
    took, took_without, gaps, bound, short = [], [], [], [], []
    for turn, (shared, plain) in enumerate(rounds):
        if turn == count:
            break
        begin = time.perf_counter()
        plan = with_teams.plan(shared)
        took.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        without.plan(plain)
        took_without.append(time.perf_counter() - begin)
        gaps.append(plan.gap)
        standing = [list(by_type.values()) for by_type in plan.teams.values()]
        assert all(one.cap is None or one.used <= one.cap for ones in standing for one in ones)
        bound.append(np.mean([any(one.over > 0 or one.under > 0 for one in ones) for ones in standing]))
        short.append(sum("guarantees lack" in note.text for note in plan.notes))
        rounds.follow(plan)
    return {
        "p50_s": float(np.median(took)),
        "p99_s": float(np.quantile(took, 0.99)),
        "over": float(np.median(took) / np.median(took_without)),
        "gap": float(np.median(gaps)),
        "gap_max": float(np.max(gaps)),
        "teams_priced": float(np.mean(bound)),
        "rounds_short": float(np.sum(short)),
    }


def changed(policy: str, rounds: Rounds, count: int) -> int:
    """Return in how many rounds teams without terms change the plan."""
    one, other, found = make_policy(policy), make_policy(policy), 0
    for turn, (shared, plain) in enumerate(rounds):
        if turn == count:
            break
        assert shared.sharing is not None
        names = dict.fromkeys(shared.sharing.terms, TeamTerms())
        plan = one.plan(replace(plain, sharing=Sharing(names, shared.sharing.team)))
        same = other.plan(plain)
        found += plan.placements != same.placements or plan.objective != same.objective
        rounds.follow(plan)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=at_least(1), default=100, help="small ones; a fifth as many large ones")
    parser.add_argument("--gpus", type=at_least(64), default=25_000)
    parser.add_argument("--policy", default="sia")
    options = parser.parse_args()
    warm_up(options.policy, {})
    jobs, several = options.gpus // 5, max(options.rounds // 5, 3)
    of_large = measured(options.policy, Rounds(large(options.gpus), jobs, 50), several)
    of_small = measured(options.policy, Rounds(small(), 40, 8), options.rounds)
    plans = changed(options.policy, Rounds(small(), 40, 8), options.rounds)
    rows = [
        [f"{options.gpus} GPUs, {jobs} jobs, 50 teams, {several} rounds", *of_large.values()],
        [f"64 GPUs, 40 jobs, 8 teams, {options.rounds} rounds", *of_small.values()],
    ]
    table(f"Rounds with teams under {options.policy}", ["", *of_large], rows)
    finish(
        "shares_scale",
        {
            "round_p99_s": of_large["p99_s"],
            "over_without_teams": of_large["over"],
            "gap": of_large["gap"],
            "policy_p99_ms": 1e3 * of_small["p99_s"],
            "plans_changed_without_teams": plans,
            "teams_at_a_term": of_large["teams_priced"],
        },
    )


if __name__ == "__main__":
    main()
