"""How soon an idle guarantee is lent and comes back, and what others feel when one team floods the cluster.

`fairness` runs both, on Sia's traces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from .team_traces import CLUSTER, GUARANTEE, LEASE_S, NAMES, Ran, dealt, prepared, ran, ran_alone

OWNER, BORROWER = NAMES[0], NAMES[1]
ROUND_S = 60.0
RETURNS_S = 3600.0  # when the owner of the guarantee submits
LATE_S = RETURNS_S + LEASE_S + 20 * ROUND_S  # the look ends here
FEW, MANY = 10, 100  # times as many jobs of the team that floods


def two_teams(workload: Workload) -> Workload:
    """Return a trace whose first half fills the cluster at once for one team; the owner submits the rest later."""
    half = np.arange(len(workload)) < len(workload) // 2
    return replace(
        workload,
        submit_s=np.where(half, 0.0, RETURNS_S),
        users=tuple(np.where(half, BORROWER, OWNER).tolist()),
    )


class Lent:
    """Watches rounds: which part of the owner's guarantee is idle, and which part it asks for and lacks."""

    def __init__(self) -> None:
        self.idle: list[tuple[float, int]] = []  # (time, GPUs of the guarantee that nobody uses)
        self.short: list[tuple[float, int]] = []  # (time, GPUs that the owner asks for, within it, and lacks)

    def __call__(self, round: Round, plan: Plan) -> None:
        if not plan.teams or round.now > LATE_S:
            return
        capacity = round.cluster.capacity()
        idle = short = 0
        for gpu_type, count in GUARANTEE.items():
            used = sum(of[gpu_type].used for of in plan.teams.values() if gpu_type in of)
            own = plan.teams.get(OWNER, {}).get(gpu_type)
            idle += min(capacity[gpu_type] - used, count)
            short += 0 if own is None else max(min(own.asked, count) - own.used, 0)
        self.idle.append((round.now, idle))
        self.short.append((round.now, short))


def lends(path: Path, policy: str, shares: Path) -> tuple[int, int]:
    """Return the rounds until the idle guarantee is lent, and until it is back beyond the lease of a job."""
    seen = Lent()
    made = prepared(two_teams(read_trace(path)), CLUSTER, policy, shares)
    for engine in made.engines:
        engine.watch = seen
    while made.step() and made.engines[0].now_s <= LATE_S:
        pass
    lent = rounds_until(seen.idle, 0.0, lambda gpus: gpus == 0)
    back = rounds_until(seen.short, RETURNS_S, lambda gpus: gpus == 0)
    return lent, max(back - round(LEASE_S / ROUND_S), 0)


def rounds_until(seen: Sequence[tuple[float, int]], begin_s: float, holds: Callable[[int], bool]) -> int:
    """Return how many rounds of a minute pass until something holds, from the first round after a time on."""
    after = [(now, value) for now, value in seen if now >= begin_s]
    first = next((now for now, value in after if holds(value)), LATE_S)
    return 1 + round((first - after[0][0]) / ROUND_S)


def flooded(path: Path, number: int, policy: str, shares: Path | None, times: int) -> Ran:
    """Run a trace in which the team with the fewest jobs submits so many times as much, spread over the trace."""
    workload = dealt(read_trace(path), number)
    users, team = np.array(workload.users), smallest(workload)
    own, rng = workload.select(users == team), np.random.default_rng((number, times))
    copies = [workload.select(users != team)]
    for copy in range(times):
        at_s = np.sort(rng.uniform(0.0, float(workload.submit_s.max()), len(own)))
        copies.append(replace(own, ids=tuple(f"{id}-flood-{copy}" for id in own.ids), submit_s=at_s))
    whole = copies[0]
    for more in copies[1:]:
        whole = whole.and_also(more)
    found = ran(whole, CLUSTER, policy, shares)
    others = {id: value for id, value in found.jct_s.items() if "-flood-" not in id}
    return Ran(others, {id: found.wait_s[id] for id in others})


def smallest(workload: Workload) -> str:
    """Return the team with the fewest jobs."""
    counts = {name: workload.users.count(name) for name in NAMES if name in workload.users}
    return min(counts, key=lambda name: (counts[name], name))


def worst_over_alone(path: Path, number: int, flood: Ran, alone: Ran) -> float:
    """Return the largest mean JCT in a flood over that alone on the guarantee, of the teams beside the flood."""
    workload = dealt(read_trace(path), number)
    flooding, ratios = smallest(workload), list[float]()
    for name in NAMES:
        ids = [id for id, user in zip(workload.ids, workload.users, strict=True) if user == name != flooding]
        if ids:
            ratios.append(sum(flood.jct_s[id] for id in ids) / sum(alone.jct_s[id] for id in ids))
    return max(ratios)


def lending(
    pool: ProcessPoolExecutor,
    paths: Sequence[Path],
    flood: Mapping[int, Path],
    policies: Sequence[str],
    shares: Path,
) -> tuple[dict[str, float], list[list[object]]]:
    """Return the figures of lending and of floods, and a row for each policy."""
    times = {policy: [pool.submit(lends, path, policy, shares) for path in paths] for policy in policies}
    floods = {
        (policy, at is None, many): {
            n: pool.submit(flooded, path, n, policy, at, many) for n, path in flood.items()
        }
        for policy in policies
        for at in (shares, None)
        for many in (FEW, MANY)
    }
    by_themselves = {
        policy: {n: pool.submit(ran_alone, path, n, policy) for n, path in flood.items()} for policy in policies
    }
    figures, rows = dict[str, float](), list[list[object]]()
    for policy, several in times.items():
        lent, back = zip(*(one.result() for one in several), strict=True)
        jct = {key: _mean([one.result().jct_s for one in found.values()]) for key, found in floods.items()}
        with_teams = jct[policy, False, MANY] / jct[policy, False, FEW]
        without = jct[policy, True, MANY] / jct[policy, True, FEW]
        over_alone = {
            at: max(
                worst_over_alone(path, n, floods[policy, at, MANY][n].result(), by_themselves[policy][n].result())
                for n, path in flood.items()
            )
            for at in (False, True)
        }
        rows.append([policy, max(lent), max(back), with_teams, without, over_alone[False], over_alone[True]])
        figures |= {
            f"{policy}/lent_rounds": max(lent),
            f"{policy}/back_rounds": max(back),
            f"{policy}/flood_ratio": with_teams,
            f"{policy}/no_teams/flood_ratio": without,
            f"{policy}/flood_worst_over_alone": over_alone[False],
            f"{policy}/no_teams/flood_worst_over_alone": over_alone[True],
        }
    return figures, rows


def _mean(runs: Sequence[Mapping[str, float]]) -> float:
    return float(np.mean([value for run in runs for value in run.values()]))
