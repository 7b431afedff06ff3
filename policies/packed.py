"""Packs jobs as `lucid` does, and better.

Nothing that was trained is thrown away. Partners are chosen by the speed of the pair. The order goes by what is
left, given what was attained. Jobs that may be preempted give way where that pays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ..core.placement import Placement
from .contract.round import Round
from .contract.traits import PolicyTraits
from .lucid import LucidOptions, LucidPolicy, MakesRoom
from .packing.areas import Areas
from .packing.binder import Packing, Partner, Rules
from .packing.models import PackingModels
from .packing.profiler import ProfilerOptions
from .packing.starting import Sharing, room_by_stopping
from .packing.tenants import Tenants
from .packing_teams import PoolTerms
from .placing.demand import Demand
from .registry import register

ANY_SCORES = 4  # both may be jumbo


class GivingWay(BaseModel):
    """When a job that may be preempted gives way to one that waits.

    factor: it is expected to hold its GPUs for so many times as long as the other, at least.
    least_s: it has trained for at least so long since it began, so that a restart does not eat what it does.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    factor: float = Field(default=1.3, ge=1)
    least_s: float = Field(default=60.0, ge=0)


class PackedOptions(LucidOptions):
    """What an operator may set, beside what `lucid` has.

    preempts: whether jobs that may be preempted give way to others.
    grows_with: a job that has outlived its estimate is expected to need so many times what it had.
    aging_h: a job that has waited for so long counts as if it had a quarter of its work; None: no job does.
    least_speed: a pair is made if both together are foretold to run at so much of their speed alone, at least.
        At a half they are as fast as one after the other.
    eager_cost_s: a pair is made even where GPUs are idle, so that others find these, if both together are expected
        to lose at most so long. None: no pair is.
    """

    packing: Packing = Packing.DEFAULT
    sharing: Sharing = Sharing.LAST
    partner: Partner = Partner.FASTEST
    least_left: float = Field(default=0.0, ge=0)
    profiler: ProfilerOptions = ProfilerOptions(nodes=0)
    preempts: bool = True
    giving_way: GivingWay = GivingWay()
    grows_with: float = Field(default=0.5, ge=0)
    aging_h: float | None = Field(default=1.5, gt=0)
    least_speed: float = Field(default=0.5, ge=0, le=1)
    eager_cost_s: float | None = Field(default=300.0, ge=0)


@register("packed")
class PackedPolicy(LucidPolicy):
    """Runs the jobs with least expected GPU-time left, in pairs where these lose little."""

    Options = PackedOptions
    traits = PolicyTraits(
        fixed_sizes=True,
        uses_models=False,
        preempts=True,
        needs_expected=True,
        shares_gpus=True,
        crosses_pools=True,
    )
    options: PackedOptions

    _evicts_always = False

    def __init__(self, options: PackedOptions | None = None, models: PackingModels | None = None) -> None:
        super().__init__(options or PackedOptions(), models)
        self._least_speed = self.options.least_speed
        self._eager_cost_s = self.options.eager_cost_s

    def _left_s(self, round: Round) -> np.ndarray:
        """Return (jobs,) what each job is expected to need yet: more, the longer it went on beyond its estimate.

        Lengths of jobs have heavy tails: one that has outlived its estimate is not about to end.
        """
        columns = round.columns
        return np.maximum(super()._left_s(round), self.options.grows_with * columns.attained_gpu_s / columns.gpus)

    def _key(self, round: Round, left_s: np.ndarray) -> np.ndarray:
        """Return (jobs,) by what jobs are ordered: who has waited for long is served as if it needed less."""
        columns, aging_h = round.columns, self.options.aging_h
        key = super()._key(round, left_s)
        if aging_h is None:
            return key
        waited_s = np.maximum(round.now - columns.submitted_s - columns.attained_gpu_s / columns.gpus, 0.0)
        return key / (1.0 + waited_s / (3600.0 * aging_h)) ** 2

    def _rules(self, how: Packing) -> Rules:
        """Return rules without scores: pairs go by the speed that is foretold of them."""
        rules = super()._rules(how)
        return rules if how is Packing.OFF else replace(rules, capacity=ANY_SCORES)

    def _room_makers(
        self,
        round: Round,
        ids: list[str],
        order: np.ndarray,
        left_s: np.ndarray,
        areas: Areas,
        terms: Mapping[str, PoolTerms],
    ) -> Mapping[str, MakesRoom]:
        """Return what starts a job where others give way: who has much more left, or who borrowed a guarantee."""
        if not self.options.preempts:
            return {}
        need_gpu_s = dict(zip(ids, self._key(round, left_s).tolist(), strict=True))
        return {
            pool: self._makes_room(
                round, tenants, need_gpu_s, self._victims(round, ids, order, tenants), terms.get(pool)
            )
            for pool, tenants in areas.pools.items()
        }

    def _makes_room(
        self,
        round: Round,
        tenants: Tenants,
        need_gpu_s: Mapping[str, float],
        victims: list[list[str]],
        terms: PoolTerms | None,
    ) -> MakesRoom:
        in_vain = set[tuple[int, tuple[str, ...], bool]]()

        def room(i: int, types: tuple[str, ...], guaranteed: bool) -> Placement | None:
            job, gpus = round.jobs[i], int(round.columns.gpus[i])
            if (gpus, types, guaranteed) in in_vain:
                return None  # a job with less to do found nobody who gives way
            least = self.options.giving_way.factor * need_gpu_s[job.id]

            def gives_way(one: str) -> bool:
                if guaranteed and terms is not None:
                    return terms.may_reclaim(one, tenants.held[one], round.now)
                return need_gpu_s[one] > least

            may = [one for one in victims if all(map(gives_way, one))]
            before = dict(tenants.held)
            gone = room_by_stopping(tenants, job.id, gpus, types, Demand.of(job.spec), may) if may else None
            if gone is None:
                in_vain.add((gpus, types, guaranteed))
                return None
            victims[:] = [one for one in victims if not set(one) & set(gone)]
            for one in gone if terms is not None else ():
                assert terms is not None
                terms.takes(one, before[one])
            return tenants.held[job.id]

        return room

    def _victims(self, round: Round, ids: list[str], order: np.ndarray, tenants: Tenants) -> list[list[str]]:
        """Return the jobs that may give way, those on the same GPUs together; who has most to do comes first."""
        columns, least_s = round.columns, self.options.giving_way.least_s
        may = columns.preemptible & (columns.held > 0) & (columns.attained_gpu_s >= least_s * columns.gpus)
        found: dict[frozenset[tuple[str, int]], list[str]] = {}
        for i in order[::-1].tolist():
            if ids[i] in tenants.held and may[i]:
                found.setdefault(tenants.held[ids[i]].devices, []).append(ids[i])
        return [jobs for jobs in found.values() if len(jobs) == 2 or tenants.partner(jobs[0]) is None]
