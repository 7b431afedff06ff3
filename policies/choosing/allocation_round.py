"""Plans a whole round as one program: each job gets one configuration or none, within what the nodes have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...core.options import NO_CHOICE
from ...core.placement import Placement
from ...estimators.goodput import goodput_matrix
from ...optimizer.allocation import ChoiceProgram, ChoiceSolution
from ...optimizer.interrupts import InterruptsWait
from ..contract.configuration import Configuration, ConfigurationSet, Limits
from ..contract.round import JobView, Note, Plan, Round
from ..placing.demand import Demand
from ..placing.ledger import is_pinned
from ..placing.placer import Placer
from ..sharing.team_prices import TeamPrices
from .decided import ProgramReasons, decisions_of, no_configuration
from .demand_limits import DemandKinds
from .goodput_rows import GoodputRows
from .kept_place import keep_place, within_caps
from .lazy import LazyMapping
from .leftovers import leftovers
from .recent_needs import RecentNeeds
from .solvers import SOLVERS, allocation_solver
from .team_round import RoundTeams
from .time_shares import TimeShares

# A bonus far below any real difference. Among equal choices jobs stay, then those that came first win.
TIE = 1e-6
_AT_ONCE = 1024  # jobs whose values are computed together, so that a large round needs little memory


class ProgramOptions(BaseModel):
    """What an operator may set for every policy of this kind."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    timeshare_window_s: float | None = Field(default=None, gt=0)  # τ of section 3.5.6; None: no time sharing
    time_limit_s: float = Field(default=5.0, gt=0, json_schema_extra=NO_CHOICE)
    gap: float = Field(
        default=1e-3, ge=0, lt=1, json_schema_extra=NO_CHOICE
    )  # how far a plan may be from the optimum, relative to it
    solver: str = "structured"
    # Relative change of a job's goodput up to which its values are not recomputed.
    tolerance: float = Field(default=0.01, ge=0, lt=1, json_schema_extra=NO_CHOICE)
    # A job of a fixed size that may not be moved has a place kept for it after so long. None: never.
    patience_s: float | None = Field(default=1800.0, ge=0)
    # Units of the objective that a GPU must earn, or it stays free, so that its node may sleep.
    gpu_price: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    @field_validator("solver")
    @classmethod
    def _is_known(cls, solver: str) -> str:
        if solver not in SOLVERS:
            raise ValueError(f"it is one of {', '.join(SOLVERS)}")
        return solver


@dataclass(frozen=True)
class Values:
    """What configurations are worth to some jobs.

    rows: (jobs, configurations) values for people.
    base: (jobs, configurations) values from which `Weights` makes the objective.
    options: (jobs, configurations) whether each may be chosen.
    current: (jobs,) column in which the job may stay; -1 if there is none.
    stay_base: (jobs,) `base` of that column.
    """

    rows: np.ndarray
    base: np.ndarray
    options: np.ndarray
    current: np.ndarray
    stay_base: np.ndarray


@dataclass(frozen=True)
class Weights:
    """How a round turns the values of its jobs into gains; all (jobs,).

    A configuration gains offset + scale * base over leaving the job out. The one that the job has gains stay_gain.
    """

    offset: np.ndarray
    scale: np.ndarray
    stay_gain: np.ndarray

    def times(self, factor: np.ndarray) -> Weights:
        """Return the weights of jobs whose gains are worth (jobs,) `factor` times as much."""
        return Weights(self.offset * factor, self.scale * factor, self.stay_gain * factor)


@dataclass(slots=True)
class _Kept:
    """A job as it was when its values were computed, and what rounds need of the values."""

    spec: JobSpec
    largest_gpus: Mapping[str, int]
    placed: int  # column of its placement; -1 if there is none
    current: int
    stay_base: float
    note: str | None  # why its reservation cannot be met


class ProgramPolicy(ABC):
    """Keeps the program of the last round, updates and solves it, and lets the placer find the GPUs.

    A job with a reservation gets exactly that. A placed non-preemptible job keeps its very GPUs. A job's values
    are recomputed when its goodput, its spec, what it holds or the most it ever held changes. All values are
    recomputed when the configurations change. Nodes that come or go mostly change only the limits.
    """

    ageing = False  # whether values change with time, so that every round recomputes them

    def __init__(self, options: ProgramOptions) -> None:
        self._options = options
        self._solver = allocation_solver(options.solver)
        self._goodput = GoodputRows(options.tolerance)
        self._needed = RecentNeeds()
        self._configurations: tuple[tuple[object, ...], ConfigurationSet] | None = None
        self._kinds: DemandKinds | None = None  # of the jobs of `_program`
        self._program: ChoiceProgram | None = None
        self._limits: Limits | None = None  # of `_program`
        self._kept: dict[str, _Kept] = {}
        window_s = options.timeshare_window_s
        self._turns = None if window_s is None else TimeShares(window_s)
        self._team_prices = TeamPrices()
        self.ageing = self.ageing or options.gpu_price > 0  # what a price is in units of `base` changes with time

    @abstractmethod
    def values(
        self, jobs: Sequence[JobView], configurations: ConfigurationSet, goodput: np.ndarray, placed: np.ndarray
    ) -> Values:
        """Return the values of some jobs. They depend on nothing but the arguments.

        Args:
            goodput: (jobs, configurations), finite.
            placed: (jobs,) column in which each job runs; -1 if there is none.
        """

    @abstractmethod
    def weigh(
        self, jobs: Sequence[JobView], current: np.ndarray, stay_base: np.ndarray, shares: np.ndarray
    ) -> Weights:
        """Return the weights of all jobs of a round.

        Args:
            current, stay_base: (jobs,) as in `Values`.
            shares: (jobs,) factors of λ: 1, or those of `TimeShares`.
        """

    def scales(self, jobs: Sequence[JobView], current: np.ndarray) -> np.ndarray:
        """Return (jobs,) the `scale` of `weigh`, by what a job is and the column in which it may stay."""
        return np.ones(len(jobs))

    def to_come(self, jobs: Sequence[JobView], configurations: ConfigurationSet, now: float) -> np.ndarray:
        """Return (others, configurations) gains of jobs to come, 0 for no option. GPUs that they win stay free."""
        return np.zeros((0, len(configurations)))

    def value_of(self, job: JobView, configurations: ConfigurationSet) -> Values:
        """Return the values of one job, computed from its view alone."""
        goodput = goodput_matrix([job.model], configurations.arrays)
        goodput = np.where(np.isfinite(goodput), goodput, 0.0)
        return self._priced([job], configurations, goodput, np.array([configurations.index(job.placement)]))

    def _priced(
        self, jobs: Sequence[JobView], configurations: ConfigurationSet, goodput: np.ndarray, placed: np.ndarray
    ) -> Values:
        """Return the values of some jobs, less the price of the GPUs."""
        values, price = self.values(jobs, configurations, goodput, placed), self._options.gpu_price
        if not price:
            return values
        paid = price * configurations.arrays.gpus
        base = values.base - np.where(values.options, paid / self.scales(jobs, values.current)[:, None], 0.0)
        stay_base = values.stay_base - np.where(values.current >= 0, paid[values.current], 0.0)
        return replace(values, base=base, stay_base=stay_base)

    def plan(self, round: Round) -> Plan:
        order = sorted(range(len(round.jobs)), key=lambda i: (round.jobs[i].submitted_s, round.jobs[i].id))
        jobs = [round.jobs[i] for i in order]
        configurations = self._configuration_set(round, jobs)
        if not jobs or not len(configurations):
            self._program = None
            nothing = decisions_of(round, {}, lambda i: no_configuration(round.jobs[i], configurations))
            return Plan({}, objective=0.0, bound=0.0, gap=0.0, configurations=configurations, decisions=nothing)
        held = {
            job.id: job.placement for job in jobs if job.placement is not None and is_pinned(job, round.cluster)
        }
        kept = keep_place(jobs, held, round.cluster, round.now, self._options.patience_s)
        if round.sharing is not None:
            kept = within_caps(kept, round.sharing, held)
        held.update(kept.given)
        sharing = round.sharing
        teams = None if sharing is None else RoundTeams.of(sharing, configurations, held, round.now)
        kinds = self._kinds_of(round.cluster, jobs)
        jobs = [job for job in jobs if job.id not in kept.waits]
        limits = kinds.limits(configurations.limits(held.values()), configurations, held.values())
        with InterruptsWait():  # once, and not for each change
            program = self._prepare(limits, configurations)
            current, stay_base = self._value(program, jobs, held, configurations)
            shares = np.ones(len(jobs)) if self._turns is None else self._turns.factors(jobs, round.now)
            weights = self.weigh(jobs, current, stay_base, shares)
            if teams is not None:
                weights = weights.times(teams.factors(jobs))
            free = [i for i, job in enumerate(jobs) if job.id not in held]
            ids = [jobs[i].id for i in free]
            program.set_weights(ids, weights.offset[free], weights.scale[free])
            program.set_incumbents(ids, current[free], weights.stay_gain[free])
            to_come = self.to_come(jobs, configurations, round.now)
        others = [f"\0{i}" for i in range(len(to_come))]  # no job is called that
        try:
            if others:
                program.upsert(others, to_come, to_come > 0)
            limits_of = self._options.gap, self._options.time_limit_s
            solution, shared = self._solver.solve(program, ids + others, *limits_of), None
            if teams is not None:
                shared = teams.solve(self._team_prices, program, ids + others, solution, *limits_of)
                solution = shared.solution
        finally:
            program.remove([id for id in others if id in program])

        notes = [Note(note, id) for id in ids if (note := self._kept[id].note) is not None]
        _note(solution, [jobs[i] for i in free], notes)
        wanted = {
            id: configurations[c]
            for id, c in zip(ids, solution.choice[: len(ids)].tolist(), strict=True)
            if c >= 0
        }
        wanted |= {id: _realised(placement, configurations) for id, placement in held.items()}
        demands = LazyMapping([job.id for job in jobs], lambda i: Demand.of(jobs[i].spec))
        placed = Placer().place(
            wanted,
            {**{job.id: job.placement for job in jobs if job.placement is not None}, **kept.given},
            round.cluster,
            held.keys(),
            demands,
        )
        placements, unplaced = dict(placed.placements), placed.unplaced
        if unplaced:  # enough CPUs or memory are free in all, but not together
            found = leftovers(ids, program.entries(ids), placements, configurations, demands.__getitem__)
            for id, placement in found.items():
                if teams is None or teams.within_cap(id, placements, placement):
                    placements[id] = placement
            unplaced = tuple(id for id in unplaced if id not in placements)
        notes += [Note(f"job {id}: no room on the nodes that are left for {wanted[id]}", id) for id in unplaced]
        gains = LazyMapping(
            [job.id for job in jobs],
            lambda i: self._gains(jobs[i], i, configurations, weights, jobs[i].id in held),
        )
        costs = LazyMapping(
            [job.id for job in jobs],
            lambda i: (
                _costs(solution, limits, configurations, kinds.of(demands[jobs[i].id]))
                + (0.0 if teams is None or shared is None else teams.costs(jobs[i].id, shared))
            ),
        )
        prices = _prices(solution, limits, configurations)
        standing = {} if teams is None or shared is None else teams.stand(shared, placements, prices)
        if shared is not None and shared.short:
            gpus = "GPU" if shared.short == 1 else "GPUs"
            notes.append(Note(f"guarantees lack {shared.short:g} {gpus}, for which the nodes leave no room"))
        unmet = {ids[row] for row in solution.unmet}
        resting = frozenset(() if self._turns is None else self._turns.resting)
        reasons = ProgramReasons(
            round, configurations, gains, costs, wanted, placements, unmet, resting, kept.waits, standing
        )
        return Plan(
            placements=placements,
            objective=solution.objective,
            bound=solution.bound,
            gap=solution.gap,
            prices=prices,
            teams=standing,
            solver_s=solution.solver_s,
            evictions=len(placed.evicted) + len(unplaced),
            notes=tuple(notes),
            rows=LazyMapping([job.id for job in jobs], lambda i: self.value_of(jobs[i], configurations).rows[0]),
            gains=gains,
            costs=costs,
            configurations=configurations,
            decisions=decisions_of(round, placements, reasons.why),
        )

    def _prepare(self, limits: Limits, configurations: ConfigurationSet) -> ChoiceProgram:
        """Return the last program with the limits of this round, or a new one if the configurations changed."""
        if self._program is None:
            arrays = configurations.arrays
            sizes = arrays.gpus.astype(float)
            self._program = ChoiceProgram(limits.usage, limits.capacity, groups=arrays.type_index, size=sizes)
            self._kept = {}
        elif limits is not self._limits and not self._program.set_limits(limits.usage, limits.capacity):
            self._kept = {}
        self._limits = limits
        return self._program

    def _value(
        self,
        program: ChoiceProgram,
        jobs: Sequence[JobView],
        held: Mapping[str, Placement],
        configurations: ConfigurationSet,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bring the options of the program up to date. Return `current` and `stay_base` of all jobs."""
        gone = self._kept.keys() - {job.id for job in jobs}
        for id in gone:
            del self._kept[id]
        gone = {id for id in gone if id in program} | {id for id in held if id in program}
        program.remove(sorted(gone))
        changed = self._goodput.update(jobs, configurations).tolist()
        placed = [configurations.index(job.placement) for job in jobs]
        which = []
        for i, job in enumerate(jobs):
            kept = self._kept.get(job.id)
            if (
                self.ageing
                or kept is None
                or changed[i]
                or kept.placed != placed[i]
                or kept.spec is not job.spec
                or kept.largest_gpus != job.largest_gpus
                or (job.id not in program and job.id not in held)
            ):
                which.append(i)
        for at in range(0, len(which), _AT_ONCE):
            self._put(program, jobs, which[at : at + _AT_ONCE], held, configurations, placed)
        known = [self._kept[job.id] for job in jobs]
        return np.array([kept.current for kept in known], np.int64), np.array([kept.stay_base for kept in known])

    def _put(
        self,
        program: ChoiceProgram,
        jobs: Sequence[JobView],
        which: Sequence[int],
        held: Mapping[str, Placement],
        configurations: ConfigurationSet,
        placed: Sequence[int],
    ) -> None:
        some = [jobs[i] for i in which]
        columns = np.array([placed[i] for i in which], np.int64)
        values = self._priced(some, configurations, self._goodput.of(some), columns)
        base, options, required, notes = _constraints(some, values, configurations)
        for i, job in enumerate(some):
            stays = int(values.current[i]) if options[i, values.current[i]] else -1
            self._kept[job.id] = _Kept(
                job.spec, dict(job.largest_gpus), int(columns[i]), stays, float(values.stay_base[i]), notes[i]
            )
        free = [i for i, job in enumerate(some) if job.id not in held]
        kinds = self._kinds
        assert kinds is not None
        kind = np.array([kinds.of(Demand.of(some[i].spec)) for i in free], np.int64) if kinds.count > 1 else None
        program.upsert([some[i].id for i in free], base[free], options[free], required[free], kind)

    def _gains(
        self, job: JobView, place: int, configurations: ConfigurationSet, weights: Weights, held: bool
    ) -> np.ndarray:
        """Return (configurations,) the gain of each over leaving the job out; -inf if it is no option."""
        values = self.value_of(job, configurations)
        base, options, _, _ = _constraints([job], values, configurations)
        options = options[0] & (not held)
        gains = np.where(options, weights.offset[place] + weights.scale[place] * base[0], -np.inf)
        current = int(values.current[0])
        if current >= 0 and options[current]:
            gains[current] = weights.stay_gain[place]
        return gains

    def _configuration_set(self, round: Round, jobs: Sequence[JobView]) -> ConfigurationSet:
        """Return the configurations, as the same object while the nodes and what jobs needed lately stay."""
        extra, most = self._needed.with_those_of(round.cluster, (job.spec for job in jobs))
        key = (round.cluster, extra, most)
        if self._configurations is None or self._configurations[0] != key:
            last, found = self._configurations, ConfigurationSet(round.cluster, extra, most)
            self._configurations = (key, found)
            if last is None or not found.is_like(last[1]):
                self._program = None
            else:  # notes state numbers of GPUs, which may have changed
                self._kept = {id: kept for id, kept in self._kept.items() if kept.note is None}
        return self._configurations[1]

    def _kinds_of(self, cluster: Cluster, jobs: Sequence[JobView]) -> DemandKinds:
        """Return the kinds of jobs. Other kinds than those of the last round need another program."""
        kinds = DemandKinds(cluster, self._needed.demands_with_those_of(job.spec for job in jobs))
        if self._kinds is None or kinds.demands != self._kinds.demands:
            self._program = None
        self._kinds = kinds  # equal ones may still differ in which demands they round
        return kinds


def _realised(placement: Placement, configurations: ConfigurationSet) -> Configuration:
    found = configurations.of(placement)
    return found or Configuration(placement.nodes, placement.gpus, placement.gpu_type)


def _constraints(
    jobs: Sequence[JobView], values: Values, configurations: ConfigurationSet
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str | None]]:
    """Return base values, options, which jobs must be served, and a note per job or None.

    Jobs with a reservation and non-preemptible jobs must be served. A note says why a reservation cannot be met.
    """
    base, options = values.base, values.options
    required = np.zeros(len(jobs), dtype=bool)
    notes: list[str | None] = [None] * len(jobs)
    for i, job in enumerate(jobs):
        required[i] = not job.spec.preemptible and bool(options[i].any())
        reserved = job.spec.reservation
        if reserved is None:
            continue
        exact = _exact(job.spec, configurations)
        if exact.any():
            # A reserved configuration that is no option gets the least value of the job's options.
            base[i, exact & ~options[i]] = base[i, options[i]].min(initial=0.0)
            options[i], required[i] = exact, True
        else:
            cluster = configurations.cluster
            have = f"{cluster.called} has {cluster.capacity().get(reserved.gpu_type, 0)}"
            notes[i] = (
                f"job {job.id}: reservation of {reserved.gpus} {reserved.gpu_type} cannot be met, {have}; the job "
                "competes like any other"
            )
    return base, options, required, notes


def _exact(spec: JobSpec, configurations: ConfigurationSet) -> np.ndarray:
    """Return (configurations,) whether each is what the job reserved."""
    reserved, arrays = spec.reservation, configurations.arrays
    assert reserved is not None
    if reserved.gpu_type not in arrays.gpu_types:
        return np.zeros(len(configurations), dtype=bool)
    exact = (arrays.gpus == reserved.gpus) & (arrays.type_index == arrays.gpu_types.index(reserved.gpu_type))
    return exact & configurations.holds_replicas(spec.gpus_per_replica(reserved.gpu_type) or 1)


def _note(solution: ChoiceSolution, jobs: Sequence[JobView], notes: list[Note]) -> None:
    for row in sorted(solution.unmet):
        job = jobs[row]
        if (reserved := job.spec.reservation) is not None:
            what = f"reservation of {reserved.gpus} {reserved.gpu_type}"
            text = f"job {job.id}: {what} cannot be met beside jobs that may not be preempted; it waits"
        else:
            text = f"job {job.id} waits: jobs that may not be preempted have its GPUs"
        notes.append(Note(text, job.id))
    if not solution.proven:
        how_far = f"the plan is feasible and within {solution.gap:.2%} of the optimum"
        notes.append(Note(f"the search ended at a limit: {how_far}"))


def _prices(solution: ChoiceSolution, limits: Limits, configurations: ConfigurationSet) -> Mapping[str, float]:
    """Return the price of one GPU of each type in units of the objective: that in its dearest configuration.

    It is what a job with the default demand pays.
    """
    arrays = configurations.arrays
    each = (solution.prices @ limits.of_kind(0)) / arrays.gpus
    return {t: float(each[arrays.type_index == i].max(initial=0.0)) for i, t in enumerate(arrays.gpu_types)}


def _costs(solution: ChoiceSolution, limits: Limits, configurations: ConfigurationSet, kind: int) -> np.ndarray:
    """Return (configurations,) what each is worth to other jobs, if a job of this kind has it."""
    if kind:
        return np.asarray(solution.prices @ limits.of_kind(kind))
    arrays = configurations.arrays
    prices = _prices(solution, limits, configurations)
    return np.array([prices[t] for t in arrays.gpu_types])[arrays.type_index] * arrays.gpus
