"""Gavel: shares of time on each GPU type by a linear program, handed out in rounds (OSDI'20).

The program says which fraction of time each job is to spend on each GPU type (section 4). In every round a job has
a priority on each type: its share, divided by the time it had there since shares were computed. The jobs of
highest priority run (section 5). Every job gets the GPUs it asks for, so the policy is for jobs of a fixed size.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ..core.decisions import Refused, Waiting, WaitReason
from ..core.placement import Placement
from ..optimizer.shares import max_min_shares, max_sum_shares, water_filling_shares
from .admission import Counts
from .choosing.budget import Budget
from .choosing.decided import Left, cannot_run, decisions_of, room_reason
from .contract.explanation import Explanation, explained, job_of
from .contract.round import JobView, Plan, Round
from .contract.sharing import stand
from .contract.traits import PolicyTraits
from .placing.best_fit import place_on_types
from .placing.ledger import is_pinned
from .placing.speeds import rates_of
from .registry import register

Floats = NDArray[np.float64]


class Objective(StrEnum):
    """What the shares maximise, by the names of Gavel's code."""

    # The least GPU time of any job, as if all GPU types were equally fast (least attained service).
    MAX_MIN_FAIRNESS = "max_min_fairness"
    # The least progress of any job, relative to its progress with an equal share of every type, times its GPUs.
    MAX_MIN_FAIRNESS_PERF = "max_min_fairness_perf"
    # The same two, then the next least, and so on (water filling, section 4.3).
    WATER_FILLING = "max_min_fairness_water_filling"
    WATER_FILLING_PERF = "max_min_fairness_water_filling_perf"
    # The sum of the jobs' rates, each in its own unit.
    MAX_SUM_THROUGHPUT_PERF = "max_sum_throughput_perf"


TYPE_BLIND = (Objective.MAX_MIN_FAIRNESS, Objective.WATER_FILLING)


class GavelOptions(BaseModel):
    """What an operator may set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    objective: Objective = Objective.MAX_MIN_FAIRNESS_PERF
    # Least seconds that shares are kept, even if jobs arrive or end. A job without a share waits until then.
    least_hold_s: float = Field(default=0.0, ge=0.0)
    # GPU types that are filled first, in this order. The others follow, those that jobs run fastest on first.
    gpu_types: tuple[str, ...] = ()
    # Seed of the order in which type-blind objectives fill GPU types; it is drawn anew each round.
    seed: int = 0


@dataclass(eq=False)
class _Account:
    """The shares of one job and the time it got, by GPU type of the cluster."""

    rates: Floats  # progress per second
    received_s: Floats  # since shares were computed, with half a round to begin with
    deficit_s: Floats  # promised by earlier shares but not received
    share: Floats | None = None  # None until it is computed
    attained_gpu_s: float = 0.0  # at the last round


@register("gavel")
class GavelPolicy:
    """Keeps accounts of jobs from round to round, so `plan` must see every round."""

    Options: type[BaseModel] = GavelOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=True, preempts=True)

    def __init__(self, options: GavelOptions | None = None) -> None:
        self.options = options or GavelOptions()
        self._accounts: dict[str, _Account] = {}
        self._capacity: dict[str, int] = {}
        self._reset_s = 0.0  # when shares were last computed
        self._stale = True
        self._random = random.Random(self.options.seed)

    def plan(self, round: Round) -> Plan:
        jobs, types = list(round.jobs), round.cluster.gpu_types
        if not jobs or not types:
            self._accounts.clear()
            nothing = decisions_of(
                round, {}, lambda i: room_reason(jobs[i], int(round.columns.gpus[i]), Left(round, {}))
            )
            return Plan({}, decisions=nothing)
        gpus = round.columns.gpus
        self._account(round, jobs, gpus)
        idle = all(job.placement is None for job in jobs)
        held_s = round.now - self._reset_s
        # Shares of time 0 are replaced at the next chance, as in Gavel's code.
        if self._stale and (held_s >= self.options.least_hold_s or self._reset_s == 0.0 or idle):
            self._share(round, jobs, gpus, held_s)
        chosen = self._choose(round, jobs, gpus)
        placements = place_on_types(round.cluster, chosen)
        figures = self._figures(jobs, len(types))
        taken = {job.id for on_type in chosen.values() for job, _ in on_type}
        reasons = _Reasons(round, placements, figures, taken, self.options.least_hold_s)
        teams = {} if round.sharing is None else stand(round.sharing, placements, types)
        return Plan(
            placements, decisions=decisions_of(round, placements, reasons.why), figures=figures, teams=teams
        )

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its shares of time and by its priority on each GPU type."""
        if not plan.figures:
            return explained(job, round, plan)
        i, standing = job_of(job, round), []
        share, received_s, priority = (plan.figures[name] for name in ("share", "received_s", "priority"))
        for t, gpu_type in enumerate(round.cluster.gpu_types):
            if np.isnan(priority[i, t]):
                continue
            ahead = int((priority[:, t] > priority[i, t]).sum())
            standing.append(
                f"On {gpu_type} its share of time is {share[i, t]:.3g}, and {received_s[i, t]:.4g} s count as "
                f"served: its priority is {priority[i, t]:.3g} per s, and {ahead} jobs have a higher one."
            )
        types = round.cluster.gpu_types
        facts = {
            name: {t: float(v) for t, v in zip(types, plan.figures[name][i].tolist(), strict=True) if v == v}
            for name in plan.figures
        }
        return explained(job, round, plan, standing, facts)

    def _figures(self, jobs: Sequence[JobView], types: int) -> dict[str, Floats]:
        """Return (jobs, types) shares of time, the time served since they were computed, and priorities.

        They are nan for a job without a share.
        """
        accounts = [self._accounts[job.id] for job in jobs]
        none = np.full(types, np.nan)
        share = np.array([none if account.share is None else account.share for account in accounts])
        received_s = np.array([account.received_s for account in accounts])
        able = np.array([account.rates for account in accounts]) > 0
        return {"share": share, "received_s": received_s, "priority": np.where(able, share / received_s, np.nan)}

    def _account(self, round: Round, jobs: Sequence[JobView], gpus: NDArray[np.int64]) -> None:
        """Note what every job received since the last round, which jobs arrived and which ended."""
        capacity = round.cluster.capacity()
        if capacity != self._capacity:
            self._accounts.clear()
            self._capacity, self._stale = capacity, True
        types = round.cluster.gpu_types
        ids = {job.id for job in jobs}
        for id in [id for id in self._accounts if id not in ids]:
            del self._accounts[id]
            self._stale = True
        for job, count in zip(jobs, gpus.tolist(), strict=True):
            account = self._accounts.get(job.id)
            if account is None:
                rates = rates_of(job, count, round.cluster)
                zeros = np.zeros(len(types))
                # Everyone begins with half a round, so that no priority is infinite.
                account = _Account(rates, zeros + round.length / 2, zeros.copy())
                self._accounts[job.id] = account
                self._stale = True
            elif job.placement is not None and job.placement.gpu_type in types:
                served_s = (job.attained_gpu_s - account.attained_gpu_s) / job.placement.gpus
                account.received_s[types.index(job.placement.gpu_type)] += served_s
            account.attained_gpu_s = job.attained_gpu_s

    def _share(self, round: Round, jobs: Sequence[JobView], gpus: NDArray[np.int64], held_s: float) -> None:
        """Compute new shares, and begin to count the time received anew."""
        accounts = [self._accounts[job.id] for job in jobs]
        for job, count, account in zip(jobs, gpus.tolist(), accounts, strict=True):
            account.rates = rates_of(job, count, round.cluster)
            promised_s = 0.0 if account.share is None else account.share * held_s
            account.deficit_s += promised_s - (account.received_s - round.length / 2)
            account.received_s[:] = round.length / 2
        capacity = np.array([round.cluster.capacity()[t] for t in round.cluster.gpu_types], float)
        rates = np.array([account.rates for account in accounts])
        for account, share in zip(accounts, shares_of(self.options.objective, rates, gpus, capacity), strict=True):
            account.share = share
        self._reset_s, self._stale = round.now, False

    def _choose(
        self, round: Round, jobs: Sequence[JobView], gpus: NDArray[np.int64]
    ) -> dict[str, list[tuple[JobView, int]]]:
        """Return GPU type -> the jobs that run on it and their GPUs, first in priority first.

        Jobs within the guarantees of their teams come before all others. Leases of jobs say nothing here, as jobs
        take turns and none keeps its GPUs for longer than a round.
        """
        cluster, counts = round.cluster, None if round.sharing is None else Counts(round.sharing)
        types, budget = cluster.gpu_types, Budget(cluster)
        accounts = [self._accounts[job.id] for job in jobs]
        taken: set[int] = set()
        chosen: dict[str, list[tuple[JobView, int]]] = {t: [] for t in types}
        for i, job in enumerate(jobs):
            if is_pinned(job, cluster):
                assert job.placement is not None
                budget.take(job.placement.gpu_type, job.placement.gpus)
                if counts is not None:
                    counts.add(job.id, job.placement.gpu_type, job.placement.gpus)
                taken.add(i)
                chosen[job.placement.gpu_type].append((job, job.placement.gpus))
        in_turn = self._order(types, accounts)
        rules = [None] if counts is None else [counts.is_within, counts.is_allowed]
        for may, gpu_type in itertools.product(rules, in_turn):
            t = types.index(gpu_type)
            rank = {}
            for i, account in enumerate(accounts):
                if account.share is not None and account.rates[t] > 0 and i not in taken:
                    share = float(account.share[t])
                    rank[i] = (share / float(account.received_s[t]), float(account.deficit_s[t]), share)
            for i in sorted(rank, key=rank.__getitem__, reverse=True):
                id, asks = jobs[i].id, int(gpus[i])
                if (may is None or may(id, gpu_type, asks)) and budget.take(gpu_type, asks):
                    if counts is not None:
                        counts.add(id, gpu_type, asks)
                    taken.add(i)
                    chosen[gpu_type].append((jobs[i], asks))
        return chosen

    def _order(self, types: Sequence[str], accounts: Sequence[_Account]) -> list[str]:
        first = [t for t in self.options.gpu_types if t in types]
        rates = np.array([account.rates for account in accounts])
        total = rates.sum(axis=1, keepdims=True)
        speed = np.divide(rates, total, out=np.zeros_like(rates), where=total > 0).sum(axis=0)
        rest = sorted((t for t in types if t not in first), key=lambda t: -speed[types.index(t)])
        order = first + rest
        if self.options.objective in TYPE_BLIND:
            self._random.shuffle(order)
        return order


@dataclass(frozen=True, eq=False)
class _Reasons:
    """Tells why jobs wait, from the figures of a round. `taken`: ids of the jobs whose turn it is."""

    round: Round
    placements: Mapping[str, Placement]
    figures: Mapping[str, Floats]
    taken: Collection[str]
    least_hold_s: float

    @cached_property
    def _left(self) -> Left:
        return Left(self.round, self.placements)

    def why(self, i: int) -> Waiting | Refused:
        job, gpus = self.round.jobs[i], int(self.round.columns.gpus[i])
        found = room_reason(job, gpus, self._left)
        never = found.reason == WaitReason.NO_GPU_TYPE or cannot_run(job, gpus, self.round.cluster) is not None
        if never or job.id in self.taken:
            return found
        priority = self.figures["priority"]
        if np.isnan(self.figures["share"][i]).any():
            return Waiting(
                WaitReason.NO_SHARE_YET,
                f"Its share of GPU time is not worked out yet; shares are kept {self.least_hold_s:g} s at least.",
            )
        first = int((priority > priority[i]).any(axis=1).sum())
        return Waiting(WaitReason.BEHIND_OTHERS, f"Jobs with a higher priority on a GPU type it can use: {first}.")


def shares_of(objective: Objective, rates: Floats, gpus: NDArray[np.int64], capacity: Floats) -> Floats:
    """Return (jobs, types) shares of time, for `rates` (jobs, types), `gpus` (jobs,) and `capacity` (types,)."""
    asked = gpus.astype(float)
    if objective is Objective.MAX_SUM_THROUGHPUT_PERF:
        return max_sum_shares(rates, asked, capacity)
    values = (rates > 0).astype(float) if objective in TYPE_BLIND else rates
    # Progress is relative to that with every type in proportion to its GPUs (section 4.1).
    equal = values @ (capacity / capacity.sum())
    scale = np.divide(asked, equal, out=np.zeros_like(equal), where=equal > 0)
    fill = objective in (Objective.WATER_FILLING, Objective.WATER_FILLING_PERF)
    return (water_filling_shares if fill else max_min_shares)(values * scale[:, None], asked, capacity)
