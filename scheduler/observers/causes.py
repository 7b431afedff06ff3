"""Says what has changed since the round before that gives a job other GPUs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...core.placement import Placement
from ...core.slot import Slot
from ...core.wording import amount
from ...policies.contract.round import Plan
from .hooks import RoundDone

MOST_NAMED = 2  # causes that are told, the plainest first
MOVED = 1.05  # a price that moves by less is as it was


class Causes:
    """What differs between a round and the one before it.

    Args:
        became: returns what became of a job that takes part no longer, such as "ended".
    """

    def __init__(self, before: RoundDone, done: RoundDone, became: Callable[[str], str]) -> None:
        self._before, self._done, self._became = before, done, became

    @property
    def round_s(self) -> float:
        """Return when the round was."""
        return self._done.round.now

    def of(self, job_id: str) -> tuple[str, ...]:
        """Return why the round gives a job other GPUs than it had, in clauses; jobs are named by their ids."""
        was, gets = self._had(job_id), self._done.plan.placements.get(job_id)
        if was == gets:
            return ()
        found = [*self._of_nodes(was), *self._of_more(gets, was), *self._of_less(job_id, was, gets)]
        found += self._of_prices(was, gets) + self._of_itself(job_id, was, gets)
        if not found and was is not None:
            found = ["all jobs together gain more so"]
        return tuple(dict.fromkeys(found))[:MOST_NAMED]

    @cached_property
    def _held(self) -> Mapping[str, Placement | None]:
        columns = self._done.round.columns
        return dict(zip(columns.ids.tolist(), columns.placements.tolist(), strict=True))

    def _had(self, job_id: str) -> Placement | None:
        return self._held.get(job_id)

    @cached_property
    def _gone(self) -> Mapping[str, Placement]:
        """Return jobs that had GPUs after the round before and take part no longer."""
        here = set(self._held)
        return {job: at for job, at in self._before.plan.placements.items() if job not in here and "/" not in job}

    @cached_property
    def _came(self) -> frozenset[str]:
        had = set(self._before.round.columns.ids.tolist())
        return frozenset(job for job in self._held if job not in had and "/" not in job)

    def _of_nodes(self, was: Placement | None) -> Iterable[str]:
        here = {node.id for node in self._done.round.cluster.nodes}
        left = [share.node_id for share in was.shares if share.node_id not in here] if was is not None else []
        if left:
            yield f"{'a node' if len(left) == 1 else f'{len(left)} nodes'} of it may be used no longer"

    def _of_more(self, gets: Placement | None, was: Placement | None) -> Iterable[str]:
        """Yield where more GPUs of a type come from."""
        if gets is None or (was is not None and was.gpu_type == gets.gpu_type and was.gpus >= gets.gpus):
            return
        freed = [job for job, at in self._gone.items() if at.gpu_type == gets.gpu_type]
        if freed:
            more = f", and so did {len(freed) - 1} more" if len(freed) > 1 else ""
            yield f"{freed[0]} {self._became(freed[0])}{more}"
        nodes = [Counter(node.gpu_type for node in one.round.cluster.nodes) for one in (self._before, self._done)]
        joined = nodes[1][gets.gpu_type] - nodes[0][gets.gpu_type]
        if joined > 0:
            yield f"{joined} {'node' if joined == 1 else 'nodes'} of {gets.gpu_type} joined"

    def _of_less(self, job_id: str, was: Placement | None, gets: Placement | None) -> Iterable[str]:
        """Yield who has come for what it leaves."""
        if was is None or (gets is not None and gets.gpu_type == was.gpu_type and gets.gpus >= was.gpus):
            return
        placed = self._done.plan.placements
        newcomers = [job for job in sorted(self._came) if (at := placed.get(job)) and at.gpu_type == was.gpu_type]
        if newcomers and job_id not in newcomers:
            more = f", and so did {len(newcomers) - 1} more" if len(newcomers) > 1 else ""
            yield f"{newcomers[0]} came{more}"

    def _of_prices(self, was: Placement | None, gets: Placement | None) -> list[str]:
        now, then = self._done.plan.prices, self._before.plan.prices
        found = []
        if gets is not None and now.get(gets.gpu_type, 0.0) * MOVED < then.get(gets.gpu_type, 0.0):
            found.append(f"the price of {gets.gpu_type} fell")
        leaves = was is not None and (gets is None or gets.gpu_type != was.gpu_type or gets.gpus < was.gpus)
        if leaves and was is not None and now.get(was.gpu_type, 0.0) > then.get(was.gpu_type, 0.0) * MOVED:
            found.append(f"the price of {was.gpu_type} rose")
        return found

    def _of_itself(self, job_id: str, was: Placement | None, gets: Placement | None) -> list[str]:
        """Return whether what is known of the job itself has changed."""
        if gets is None:
            return []
        now, then = _gain(self._done.plan, job_id, gets), _gain(self._before.plan, job_id, gets)
        if now is None or then is None:
            return []
        if np.isfinite(now) and not np.isfinite(then):
            return ["so many were out of its reach before"] if was is not None else []
        return ["it is worth more there than was known before"] if now > MOVED * then else []


def _gain(plan: Plan, job_id: str, placement: Placement) -> float | None:
    plan = plan_of(job_id, plan)
    gains, configurations = plan.gains.get(job_id), plan.configurations
    at = -1 if configurations is None else configurations.index(placement)
    return None if gains is None or at < 0 else float(gains[at])


def plan_of(job_id: str, plan: Plan) -> Plan:
    """Return the plan that a job is part of: that of its pool, where pools are planned by themselves."""
    return next((one for one in plan.pools.values() if job_id in one.gains), plan)


def facts(causes: Causes | None, job_id: str, had: Sequence[Slot]) -> dict[str, Any]:
    """Return what an event keeps of why a job gets other GPUs than it had."""
    before = amount(sum(slot.gpus for slot in had), had[0].gpu_type, had[0].share) if had else ""
    if causes is None:
        return {"before": before}
    return {"before": before, "because": list(causes.of(job_id)), "round_s": causes.round_s}
