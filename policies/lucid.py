"""Lucid: new jobs are measured briefly, pairs that do not disturb each other share GPUs, and the rest waits by
GPUs times expected duration. Nothing that runs is stopped, but for jobs in the profiler (thesis, chapter 4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated

import numpy as np
from pydantic import Field, field_validator

from ..core.decisions import Refused, Waiting, WaitReason
from ..core.gpu_memory import MEMORY_GIB
from ..core.options import NO_CHOICE
from ..core.placement import Placement
from ..core.teams import kind_of
from ..core.usage import Usage, UsageOn
from ..core.wording import n_gpus, span
from .choosing.decided import QueueReasons, decisions_of
from .contract.arrivals import Arrivals
from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import JobView, Note, Plan, Round
from .contract.sharing import Standing
from .contract.traits import PolicyTraits
from .packing.areas import Areas
from .packing.arrived import Arrived
from .packing.binder import CAPACITY, Facts, ModeOptions, Packing, Partner, Rules, mode
from .packing.models import SLOT_S, PackingModels, default_models
from .packing.profiler import Newcomer, ProfilerOptions, ProfilingOrder, borrows, evicted, returns, started
from .packing.starting import Sharing, Sizes, Starting
from .packing_teams import PoolTerms, standings_of, terms_of
from .placing.speeds import types_for
from .queueing import QueueingOptions
from .registry import register

# Starts the job at a position on some GPU types, for a guarantee or not; None: nobody gives way.
MakesRoom = Callable[[int, tuple[str, ...], bool], Placement | None]
NAMES = ("tiny", "medium", "jumbo")  # of Sharing Scores
MOST_TOLD = 4  # jobs that an explanation names
MODE_TOLD = {
    Packing.DEFAULT: "Packing is default: jobs that do not disturb each other share GPUs.",
    Packing.APATHETIC: "Packing is apathetic: only jobs that use little of a GPU share it, as few jobs come.",
    Packing.OFF: "Packing is off: no further jobs share GPUs, as few are to come.",
}
BORROWED = "The node {} is borrowed: it measures new jobs for now, as many wait for that."


class OnFailure(StrEnum):
    """What a job without room does to those behind it; `auto`: it holds them up only while nothing is shared."""

    AUTO = "auto"
    SKIP = "skip"
    STOP = "stop"


class Progress(StrEnum):
    """What becomes of the work that a job does while it is measured."""

    KEPT = "kept"
    LOST = "lost"


class LucidOptions(QueueingOptions):
    """What an operator may set; what the text leaves open is named here.

    packing: how much is shared; modes: thresholds of `auto`.
    thresholds: pair speeds (medium, tiny) between jumbo, medium and tiny jobs.
    sharing, on_failure, partner: see the classes.
    most_shared_gpus: larger jobs share nothing. share_distributed: whether jobs on several nodes do.
    least_left: a partner must have at least so much of the newcomer's time left. compare_totals: both from their
        beginnings, as the published simulator does.
    unstable: a pair is parted where the use of one of late differs by so much of its mean; None: never.
    gpu_memory_gib: by GPU type, where nodes and the table of known types do not tell.
    profile_progress: `lost` lets jobs begin anew after they were measured, in simulations.
    """

    packing: Packing = Packing.AUTO
    modes: ModeOptions = ModeOptions()
    thresholds: tuple[float, float] = (0.85, 0.95)
    sharing: Sharing = Sharing.FIRST
    on_failure: OnFailure = OnFailure.AUTO
    partner: Partner = Partner.LIGHTEST
    most_shared_gpus: int = Field(default=8, ge=1)
    share_distributed: bool = False
    least_left: float = Field(default=0.5, ge=0)
    compare_totals: bool = False
    unstable: float | None = Field(default=None, gt=0)
    profiler: ProfilerOptions = ProfilerOptions()
    gpu_memory_gib: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    profile_progress: Progress = Field(default=Progress.KEPT, json_schema_extra=NO_CHOICE)

    @field_validator("thresholds")
    @classmethod
    def _rise(cls, thresholds: tuple[float, float]) -> tuple[float, float]:
        medium, tiny = thresholds
        if not 0 < medium <= tiny <= 1:
            raise ValueError(f"{medium:g}, {tiny:g} is not accepted; 0 < medium <= tiny <= 1 is")
        return thresholds


@register("lucid")
class LucidPolicy:
    """Measures new jobs on a few nodes, packs pairs, and starts the job with least expected GPU-time first."""

    Options = LucidOptions
    traits = PolicyTraits(
        fixed_sizes=True,
        uses_models=False,
        preempts=False,
        needs_expected=True,
        shares_gpus=True,
        crosses_pools=True,
    )
    options: LucidOptions

    _evicts_always = True  # also jobs in the profiler whose place nobody waits for
    _least_speed = 0.0  # of pairs
    _eager_cost_s: float | None = None  # of pairs that are made even where GPUs are idle

    def __init__(self, options: LucidOptions | None = None, models: PackingModels | None = None) -> None:
        self.options = options or LucidOptions()
        self.models = models or default_models(self.options.thresholds)
        self._areas: Areas | None = None
        self._memory_gib = {**MEMORY_GIB, **self.options.gpu_memory_gib}
        self._arrived = Arrived()
        self._fits: dict[str, bool] = {}  # job -> whether nodes that measure jobs could have it
        self._scores: dict[str, tuple[int, float]] = {}  # job -> Sharing Score, GiB
        self._totals: dict[str, float] = {}  # job -> seconds that it was expected to take from its beginning

    # --- a round ----------------------------------------------------------------------------------------------

    def plan(self, round: Round) -> Plan:
        """Let measured jobs go, measure others, and start waiting jobs in the order of expected GPU-time."""
        columns, now = round.columns, round.now
        ids: list[str] = columns.ids.tolist()
        areas = self._areas_of(round)
        areas.follow({id: at for id, at in zip(ids, columns.placements.tolist(), strict=True) if at is not None})
        self._forget(ids)
        self._arrived.note(ids, columns.submitted_s, columns.gpus, now)
        parted = self._part(round, areas)
        newcomers = self._newcomers(round, ids, areas)
        again_s, gone = self._measure(round, ids, areas, newcomers)
        left_s = self._left_s(round)
        order = columns.by(self._key(round, left_s))
        others = newcomers | np.isin(columns.ids, parted) if parted else newcomers
        tried = self._start(round, ids, order, left_s, areas, others)
        foretold = self.models.ahead is not None or round.arriving is not None
        if foretold and self.options.packing is Packing.AUTO and not tried.all():
            slot_s = (np.floor(now / SLOT_S) + 1) * SLOT_S  # the forecast, and with it the mode, may change then
            again_s = slot_s if again_s is None else min(again_s, slot_s)
        placements = areas.held
        by_pool = {pool: tenants.held for pool, tenants in areas.pools.items()}
        teams = standings_of(round.sharing, by_pool, round.cluster)
        reasons = Reasons(round, placements, order, tried, newcomers, teams)
        lost = self.options.profile_progress is Progress.LOST
        return Plan(
            placements,
            decisions=decisions_of(round, placements, reasons.why),
            order=order,
            again_s=again_s,
            notes=[Note(MODE_TOLD[self._mode(round)]), *(Note(BORROWED.format(node)) for node in areas.borrowed)],
            teams=teams,
            lost=frozenset(gone) if lost else frozenset(),
        )

    def _areas_of(self, round: Round) -> Areas:
        if self._areas is None or self._areas.cluster is not round.cluster:
            before, self._areas = self._areas, Areas(round.cluster, self.options.profiler)
            self._fits = {}
            for node in self._borrowed(round, self._areas, before):
                self._areas.borrow(node)
        return self._areas

    def _borrowed(self, round: Round, areas: Areas, before: Areas | None) -> list[str]:
        """Return the nodes that were borrowed before; after a restart the jobs that are measured there tell."""
        if areas.profiler is None:
            return []
        if before is not None:
            return [node for node in before.borrowed if node in round.cluster.by_id]
        found: dict[str, None] = {}
        for job in round.jobs:
            if job.placement is not None and not areas.is_measured(job.placement) and self._is_new(job):
                found.update(dict.fromkeys(share.node_id for share in job.placement.shares))
        return [node for node in found if node in round.cluster.by_id][: self.options.profiler.most_borrowed]

    def _is_new(self, job: JobView) -> bool:
        gpus, options = job.spec.asked_gpus, self.options.profiler
        return gpus <= options.n_prof and job.attained_gpu_s < options.burst_s * gpus and job.spec.preemptible

    def _forget(self, ids: Collection[str]) -> None:
        if max(len(self._totals), len(self._fits)) > 2 * len(ids) + 1000:  # now and then is enough
            there = set(ids)
            self._fits = {id: fits for id, fits in self._fits.items() if id in there}
            self._scores = {id: known for id, known in self._scores.items() if id in there}
            self._totals = {id: known for id, known in self._totals.items() if id in there}

    def _mode(self, round: Round) -> Packing:
        """Return how much is shared now."""
        if self.options.packing is not Packing.AUTO:
            return self.options.packing
        return mode(self._arrived.of_slot(round.now), self._ahead(round).jobs, self.options.modes)

    def _ahead(self, round: Round) -> Arrivals:
        if self.models.ahead is not None:
            return self.models.ahead(round.now)
        return self._arrived.mean if round.arriving is None else round.arriving

    def _left_s(self, round: Round) -> np.ndarray:
        """Return (jobs,) what each job still needs, s; inf: nobody knows."""
        return np.nan_to_num(round.columns.remaining_s, nan=np.inf)

    def _key(self, round: Round, left_s: np.ndarray) -> np.ndarray:
        """Return (jobs,) by what jobs are ordered: GPUs times what they still need."""
        return round.columns.gpus * left_s

    # --- the profiler -----------------------------------------------------------------------------------------

    def _newcomers(self, round: Round, ids: list[str], areas: Areas) -> np.ndarray:
        """Return (jobs,) a mask of those that are measured, or wait for it.

        A job that may not be stopped could not leave again, so that it is measured where it runs.
        """
        columns, options, own = round.columns, self.options.profiler, areas.profiler
        if own is None:
            return np.zeros(len(ids), bool)
        new = (columns.gpus <= options.n_prof) & (columns.attained_gpu_s < options.burst_s * columns.gpus)
        new &= (columns.held == 0) & columns.preemptible
        for i in np.flatnonzero(new).tolist():
            if (fits := self._fits.get(ids[i])) is None:
                job = round.jobs[i]
                fits = self._fits[ids[i]] = own.has_room_if_empty(job.spec, job.spec.asked_gpus)
            new[i] = fits
        new[[i for i, id in enumerate(ids) if id in own.held and columns.preemptible[i]]] = True
        return new

    def _measure(
        self, round: Round, ids: list[str], areas: Areas, newcomers: np.ndarray
    ) -> tuple[float | None, list[str]]:
        """Let jobs go that were measured, and begin with others. Return when the next has to go, and who went.

        Who went is none of the newcomers (jobs,) any more.
        """
        if areas.profiler is None:
            return None, []
        options, columns = self.options.profiler, round.columns
        held = areas.profiler.held
        waiting = np.flatnonzero(newcomers & (columns.held == 0))
        here = {i: self._newcomer(round, i) for i in np.flatnonzero(newcomers).tolist() if ids[i] in held}
        gone: list[str] = []
        if len(waiting) or self._evicts_always:
            gone = evicted(here.values(), options.limit_s(len(areas.borrowed)))
        for i in [i for i in here if ids[i] in gone]:
            areas.profiler.give_back(ids[i])
            newcomers[i] = False
            del here[i]
        self._scale(areas, len(waiting), round)
        own, limit_s = areas.profiler, options.limit_s(len(areas.borrowed))
        sizes = columns.gpus[waiting] if options.order is ProfilingOrder.SPACE else np.zeros(len(waiting))
        queue = waiting[np.lexsort((columns.submitted_s[waiting], sizes))]
        began = started(
            (self._newcomer(round, i) for i in queue.tolist()),
            lambda one: own.find(one.gpus, own.cluster.gpu_types),
            own.take,
        )
        begin = [self._newcomer(round, i) for i in queue[: len(began)].tolist()]
        ends = [round.now + max(one.left_s(limit_s), 0.0) for one in (*here.values(), *begin)]
        return min(ends, default=None), gone

    def _newcomer(self, round: Round, i: int) -> Newcomer:
        job, gpus = round.jobs[i], int(round.columns.gpus[i])
        attained_s = float(round.columns.attained_gpu_s[i]) / gpus
        return Newcomer(job.id, gpus, job.submitted_s, attained_s, job.spec.cold_start_s)

    def _scale(self, areas: Areas, waiting: int, round: Round) -> None:
        """Take one more node in a burst, and give it back afterwards."""
        options = self.options.profiler
        if borrows(waiting, len(areas.borrowed), options):
            idle = areas.idle_nodes()
            pool = max(sorted(idle), key=lambda name: len(idle[name]), default=None)
            if pool is not None and idle[pool]:
                areas.borrow(idle[pool][-1])
        elif areas.borrowed and returns(waiting, options, self._ahead(round).gpus):
            areas.give_back(areas.idle_borrowed())

    # --- the orchestrator and the binder ----------------------------------------------------------------------

    def _start(
        self,
        round: Round,
        ids: list[str],
        order: np.ndarray,
        left_s: np.ndarray,
        areas: Areas,
        others: np.ndarray,
    ) -> np.ndarray:
        """Start jobs in order, beside partners or alone (Algorithm 4). Return a mask of those that were tried.

        With teams, jobs within guarantees come first.
        """
        options, gpus, how = self.options, round.columns.gpus.tolist(), self._mode(round)
        stops = (
            how is Packing.OFF if options.on_failure is OnFailure.AUTO else options.on_failure is OnFailure.STOP
        )
        starting, tried = self._starting(round, ids, left_s, areas, how), np.zeros(len(ids), bool)
        held = {pool: tenants.held for pool, tenants in areas.pools.items()}
        terms = terms_of(round.sharing, held)
        more = self._room_makers(round, ids, order, left_s, areas, terms)
        measured = areas.profiler.held if areas.profiler is not None else {}
        for guaranteed in (True, False) if terms else (False,):
            closed = set[str]()
            for i in order.tolist():
                id, spec = ids[i], round.jobs[i].spec
                pool = spec.pool or ""
                if others[i] or id in measured or (here := starting.get(pool)) is None:
                    continue
                if id in here.tenants.held or pool in closed:
                    continue
                types: tuple[str, ...] = tuple(types_for(spec, gpus[i], here.tenants.cluster))
                if (own := terms.get(pool)) is not None:
                    may = own.within if guaranteed else own.borrowable
                    if not (types := may(id, gpus[i], types)):
                        continue
                tried[i] = True
                found = None if here.is_hopeless(gpus[i]) else here.start(id, spec, gpus[i], types)
                if found is None and pool in more:
                    found = more[pool](i, types, guaranteed)
                    if found is not None:  # what was found in vain may be there now
                        starting[pool] = self._starting(round, ids, left_s, areas, how)[pool]
                if found is not None:
                    if own is not None:
                        own.gives(id, found)
                elif guaranteed and own is not None and here.tenants.has_room_if_empty(spec, gpus[i]):
                    own.kept.update(types)
                elif stops and here.tenants.has_room_if_empty(spec, gpus[i]):
                    closed.add(pool)
        return tried

    def _room_makers(
        self,
        round: Round,
        ids: list[str],
        order: np.ndarray,
        left_s: np.ndarray,
        areas: Areas,
        terms: Mapping[str, PoolTerms],
    ) -> Mapping[str, MakesRoom]:
        """Return, by pool, what starts a job where others have to give way; nothing is stopped here."""
        return {}

    def _starting(
        self, round: Round, ids: list[str], left_s: np.ndarray, areas: Areas, how: Packing
    ) -> dict[str, Starting]:
        """Return what starts the jobs of each pool."""
        options, gpus = self.options, round.columns.gpus.tolist()
        at, lefts = {id: i for i, id in enumerate(ids)}, left_s.tolist()

        def facts(id: str) -> Facts:
            i = at[id]
            return self._facts(round.jobs[i], gpus[i], lefts[i])

        sizes, rules = Sizes(options.most_shared_gpus, options.share_distributed), self._rules(how)
        return {
            pool: Starting(
                tenants,
                rules,
                sizes,
                options.sharing,
                options.partner,
                facts,
                self._speed,
                self._least_speed,
                self._eager_cost_s,
            )
            for pool, tenants in areas.pools.items()
        }

    def _rules(self, how: Packing) -> Rules:
        return Rules(CAPACITY[how], self.options.least_left, self.options.compare_totals, self._memory_gib)

    def _facts(self, job: JobView, gpus: int, left_s: float) -> Facts:
        """Return what the binder goes by of a job. What was once known of its use stays, as of its profile."""
        known = self._scores.get(job.id)
        if known is None and (seen := _usage(job.usage)) is not None:
            known = self._scores[job.id] = self.models.score(seen), seen.memory_gib or 0.0
        score, gib = (None, None) if known is None else known
        if job.id not in self._totals and np.isfinite(left_s):
            self._totals[job.id] = left_s + job.attained_gpu_s / gpus
        return Facts(job.id, gpus, score, gib, left_s, self._totals.get(job.id, left_s), _usage(job.usage))

    def _speed(self, new: Facts, old: Facts) -> float:
        """Return the mean speed of two jobs that share GPUs, as it is foretold."""
        if self.models.speeds is None or new.usage is None or old.usage is None:
            return 0.0
        return sum(self.models.speeds(new.usage, old.usage)) / 2

    def _part(self, round: Round, areas: Areas) -> list[str]:
        """Stop the later one of pairs whose use of GPUs became unstable. Return who was stopped; they wait."""
        if self.options.unstable is None:
            return []
        at, found = {id: i for i, id in enumerate(round.columns.ids.tolist())}, list[str]()
        for tenants in areas.pools.values():
            for first, second in tenants.pairs():
                pair = [round.jobs[at[first]], round.jobs[at[second]]]
                if any(_is_unstable(job.usage, self.options.unstable) for job in pair):
                    later = max(pair, key=lambda job: (job.submitted_s, job.id))
                    tenants.part(later.id)
                    found.append(later.id)
        return found

    # --- explanations -----------------------------------------------------------------------------------------

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its priority and its terms, and by who is or could be beside it."""
        i = job_of(job, round)
        view, gpus = round.jobs[i], int(round.columns.gpus[i])
        sentence, facts = expectation(view, "it comes after jobs of known length")
        said = [sentence]
        left_s = float(self._left_s(round)[i])
        if np.isfinite(left_s):
            hours = gpus * left_s / 3600
            said.append(
                f"Priority: {n_gpus(gpus)} x {span(left_s)} = {hours:.3g} GPU-hours; the least comes first."
            )
            facts["priority_gpu_s"] = gpus * left_s
        own = self._facts(view, gpus, left_s)
        facts["sharing_score"] = own.score
        said.append(
            "Its use of GPUs is not known yet, so it shares none."
            if own.score is None
            else f"By its use of GPUs it is {NAMES[own.score]} (Sharing Score {own.score})."
        )
        beside = _beside(view.id, plan)
        facts["beside"] = beside
        if beside:
            said.append(f"It shares its GPUs with {', '.join(beside)}.")
        elif view.id not in plan.placements and own.score is not None:
            said += self._why_no_partner(view, own, round, plan)
        return explained(job, round, plan, said, facts)

    def _why_no_partner(self, view: JobView, own: Facts, round: Round, plan: Plan) -> list[str]:
        how = self._mode(round)
        if how is Packing.OFF:
            return ["Nothing is shared now, as few jobs are to come."]
        rules, said = self._rules(how), list[str]()
        for j, other in enumerate(round.jobs):
            at = plan.placements.get(other.id)
            if at is None or other.spec.pool != view.spec.pool or len(said) >= MOST_TOLD:
                continue
            if _beside(other.id, plan):
                said.append(f"Not beside {other.id}: it has a partner.")
                continue
            left_s = float(np.nan_to_num(round.columns.remaining_s[j], nan=np.inf))
            old = self._facts(other, int(round.columns.gpus[j]), left_s)
            if (why := rules.refuses(own, old, at.gpu_type)) is not None:
                said.append(f"Not beside {other.id}: {why}.")
        return said


@dataclass(frozen=True, eq=False)
class Reasons:
    """Tells why jobs wait. `newcomers`: (jobs,) a mask of those that are measured first."""

    round: Round
    placements: Mapping[str, Placement]
    order: np.ndarray
    tried: np.ndarray
    newcomers: np.ndarray
    teams: Mapping[str, Mapping[str, Standing]]

    def why(self, i: int) -> Waiting | Refused:
        job = self.round.jobs[i]
        if self.newcomers[i]:
            return Waiting(
                WaitReason.MEASURING, "It waits for a node that measures new jobs; least GPUs come first."
            )
        part = _of_pool(self.round, job.spec.pool or "")
        if (waits := self._by_teams(job)) is not None:
            return waits
        return QueueReasons(part, self.placements, self.order, self.tried, len(part.cluster.gpu_types) > 1).why(i)

    def _by_teams(self, job: JobView) -> Waiting | None:
        """Say that its team's cap keeps a job waiting; None: it does not."""
        team = None if self.round.sharing is None else self.round.sharing.team.get(job.id)
        pool, gpus = job.spec.pool or "", job.spec.asked_gpus
        could = types_for(job.spec, gpus, self.round.cluster.of_pool(pool))
        if team is None or not could:
            return None
        own = {t: self.teams.get(team, {}).get(kind_of(t, pool)) for t in could}
        full = [
            t for t, one in own.items() if one is not None and one.cap is not None and one.used + gpus > one.cap
        ]
        if len(full) < len(own):
            return None
        standing = own[full[0]]
        assert standing is not None
        return Waiting(WaitReason.TEAM_CAP, standing.told(team, full[0]))


def _of_pool(round: Round, pool: str) -> Round:
    """Return a round with the nodes of one pool only, for sentences on what is free there."""
    if set(round.cluster.pools) <= {""}:
        return round
    return replace(round, cluster=round.cluster.of_pool(pool))


def _beside(id: str, plan: Plan) -> list[str]:
    """Return the jobs that share GPUs with a job."""
    mine = plan.placements.get(id)
    if mine is None or all(share.share == 1.0 for share in mine.shares):
        return []
    return sorted(other for other, at in plan.placements.items() if other != id and at.devices & mine.devices)


def _usage(by_type: Mapping[str, UsageOn]) -> Usage | None:
    """Return how a job used the GPUs that it held longest, if that is known."""
    found = [one.mean for one in by_type.values() if one.mean.gpu_util is not None]
    return max(found, key=lambda usage: usage.seconds, default=None)


def _is_unstable(by_type: Mapping[str, UsageOn], most: float) -> bool:
    """Return whether the use of late differs much from the mean."""
    for one in by_type.values():
        mean, recent = one.mean.gpu_util, one.recent.gpu_util
        if mean and recent is not None and abs(recent - mean) > most * mean:
            return True
    return False
