"""Optimus: GPUs go where they shorten jobs the most, by the speed that is known (Peng et al., EuroSys'18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..core.placement import Placement
from .choosing.decided import QueueReasons, decisions_of
from .choosing.eligibility import eligibility
from .contract.configuration import Configuration, ConfigurationSet, needs
from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .leases.grid import lease_at
from .placing.demand import Demand
from .placing.ledger import is_pinned
from .placing.placer import Placer
from .queueing import QueueingOptions, served
from .registry import register

Floats = NDArray[np.float64]
LEAST_S = 1.0  # that a job of unknown length, which has had nothing, is taken to need
NONE = -1


class OptimusOptions(QueueingOptions):
    """What an operator may set.

    interval_s: running jobs keep what they have for so long, on a grid of time.
    """

    interval_s: float = Field(default=600.0, gt=0)


@register("optimus")
class OptimusPolicy:
    """Gives each job its fewest GPUs, least GPU-time left first, and then each GPU where it saves most time.

    A job of a fixed size gets that or nothing, and so does one whose speed is not known yet. Where there are
    teams, every job gets the GPUs that it asks for.
    """

    Options = OptimusOptions
    traits = PolicyTraits(fixed_sizes=False, uses_models=True, preempts=True, needs_expected=True)

    def __init__(self, options: OptimusOptions | None = None) -> None:
        self.options = options or OptimusOptions()
        self._fixed: dict[str, bool] = {}  # of each job, whether it has a fixed size
        self._mark: int | None = None

    def plan(self, round: Round) -> Plan:
        columns = round.columns
        mark = lease_at(round.now, self.options.interval_s)
        anew, self._mark = mark != self._mark, mark
        left_s = np.where(np.isnan(columns.remaining_s), _had_s(round), columns.remaining_s)
        gpu_s = left_s * columns.gpus
        stays = np.zeros(len(gpu_s), bool) if anew else columns.held > 0
        order = np.lexsort((columns.submitted_s, gpu_s, ~stays))
        ranged = () if round.sharing is not None else self._ranged(round)
        gain_s = np.full(len(gpu_s), np.nan)
        if not ranged:
            plan = served(round, order, self.options, preempts=True)
        else:
            plan = self._by_gain(round, order, stays, gain_s)
        return replace(plan, figures={"gpu_s": gpu_s, "gain_s": gain_s})

    def _ranged(self, round: Round) -> Sequence[int]:
        """Return positions of jobs that may have several sizes, and whose speed is known."""
        known, ids = self._fixed, round.columns.ids.tolist()
        self._fixed = {}
        for i, id in enumerate(ids):
            self._fixed[id] = known[id] if id in known else round.jobs[i].spec.resources.gpus is not None
        return [i for i, id in enumerate(ids) if not self._fixed[id] and round.jobs[i].model is not None]

    def _by_gain(self, round: Round, order: np.ndarray, stays: np.ndarray, gain_s: Floats) -> Plan:
        """Return the plan by marginal gain, and set what the next GPUs would save each job, in s per GPU."""
        jobs, cluster = round.jobs, round.cluster
        configurations = ConfigurationSet(cluster, *needs(cluster, (job.spec for job in jobs)))
        pinned = {job.id: job.placement for job in jobs if job.placement is not None and is_pinned(job, cluster)}
        room = _Room(configurations, list(pinned.values()))
        options = _Options.of(round, configurations)
        chosen: dict[int, int] = {}
        for i in order.tolist():
            if jobs[i].id in pinned:
                continue
            held = configurations.index(jobs[i].placement)
            first = [held] if stays[i] and held >= 0 and options.may[i, held] else options.fewest(i)
            if (found := next((c for c in first if room.take(c)), None)) is not None:
                chosen[i] = found
        waiting: list[tuple[float, int, int]] = []
        for i, c in chosen.items():
            options.push(waiting, i, c)
        while waiting:
            loss, i, c = heappop(waiting)
            gain_s[i] = -loss
            if not stays[i] and room.change(chosen[i], c):
                chosen[i] = c
                gain_s[i] = 0.0
                options.push(waiting, i, c)
        wanted = {jobs[i].id: configurations[c] for i, c in chosen.items()}
        wanted |= {
            id: configurations.of(held) or Configuration(held.nodes, held.gpus, held.gpu_type)
            for id, held in pinned.items()
        }
        current = {job.id: job.placement for job in jobs if job.placement is not None}
        demands = {job.id: Demand.of(job.spec) for job in jobs}
        placements = dict(Placer().place(wanted, current, cluster, pinned, demands).placements)
        reasons = QueueReasons(round, placements, order, np.ones(len(order), bool))
        decisions = decisions_of(round, placements, reasons.why)
        return Plan(placements, order=order, decisions=decisions, configurations=configurations)

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by its GPU-time left, and by what more GPUs would save it."""
        i = job_of(job, round)
        gpu_s, gain_s = (float(plan.figures[name][i]) for name in ("gpu_s", "gain_s"))
        standing = [
            f"It needs {gpu_s / 3600:.3g} GPU-hours more; jobs that need least get their fewest GPUs first."
        ]
        if gain_s > 0:
            standing.append(
                f"Each GPU of its next size would save it {gain_s:.3g} s; the largest savings come first."
            )
        length, facts = expectation(round.jobs[i], "it is taken to need as long as it has had")
        return explained(job, round, plan, [*standing, length], {"gpu_s": gpu_s, "gain_s": gain_s, **facts})


class _Room:
    """What is left of the limits of a set of configurations."""

    def __init__(self, configurations: ConfigurationSet, held: Sequence[Placement]) -> None:
        limits = configurations.limits(held)
        self._usage, self._left = limits.usage, limits.capacity.copy()

    def take(self, c: int) -> bool:
        """Take a configuration if it fits."""
        return self.change(NONE, c)

    def change(self, old: int, c: int) -> bool:
        """Give a configuration back for another one, if that then fits."""
        left = self._left - self._usage[:, c] + (self._usage[:, old] if old >= 0 else 0.0)
        if (left < -1e-9).any():
            return False
        self._left = left
        return True


class _Options:
    """How long each job would take in each configuration, s.

    may: (jobs, configurations) what it may have.
    """

    def __init__(self, configurations: ConfigurationSet, may: NDArray[np.bool_], time_s: Floats) -> None:
        self.may, self._time_s = may, time_s
        self._gpus, self._type = configurations.arrays.gpus, configurations.arrays.type_index

    @classmethod
    def of(cls, round: Round, configurations: ConfigurationSet) -> _Options:
        """Return the options of the jobs of a round, by what is known of their speed."""
        jobs, columns, gpus = round.jobs, round.columns, configurations.arrays.gpus
        goodput = round.goodput(configurations)
        found = eligibility(jobs, configurations, goodput)
        may, had_s = found.within_growth.copy(), _had_s(round)
        time_s = np.full(goodput.shape, np.inf)
        for i, job in enumerate(jobs):
            left_s = float(columns.remaining_s[i]) if columns.remaining_s[i] >= 0 else float(had_s[i])
            asked = found.usable[i] & (gpus == columns.gpus[i])
            if job.model is None:
                may[i] = asked
                time_s[i, asked] = left_s
                continue
            speed = goodput[i]
            fastest = float(speed[asked].max(initial=0.0)) or float(speed[found.usable[i]].min(initial=np.inf))
            work = left_s * fastest if job.remaining is None else job.remaining
            time_s[i, may[i]] = work / speed[may[i]]
        return cls(configurations, may, time_s)

    def fewest(self, i: int) -> list[int]:
        """Return the smallest configuration of a job on each GPU type, fastest first."""
        columns = np.flatnonzero(self.may[i])
        best = dict[int, int]()
        for c in columns[np.argsort(self._gpus[columns], kind="stable")].tolist():
            best.setdefault(int(self._type[c]), c)
        return sorted(best.values(), key=lambda c: float(self._time_s[i, c]))

    def push(self, waiting: list[tuple[float, int, int]], i: int, c: int) -> None:
        """Add the next larger configuration of a job on its GPU type, by what each GPU of it would save."""
        larger = self.may[i] & (self._type == self._type[c]) & (self._gpus > self._gpus[c])
        if larger.any():
            at = int(np.where(larger, self._gpus, np.iinfo(np.int64).max).argmin())
            saved_s = float(self._time_s[i, c] - self._time_s[i, at]) / int(self._gpus[at] - self._gpus[c])
            if saved_s > 0:
                heappush(waiting, (-saved_s, i, at))


def _had_s(round: Round) -> Floats:
    """Return (jobs,) how long each has had its GPUs: what it is taken to need if nobody knows."""
    columns = round.columns
    return np.maximum(columns.attained_gpu_s / np.maximum(columns.gpus, 1), LEAST_S)
