"""Simulates one world from the live state to the end of its jobs, and tells when they started and ended."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import mean

import numpy as np

from ...core.cluster import Cluster
from ...estimators.predictor import asked_speeds
from ...forecasts.answers import Hold
from ...forecasts.state import LiveJob, LiveState, Part, PastJob
from ...policies.catalogue import make_policy
from ...policies.per_pool import PerPool
from ..engine.engine import Engine, Timing
from ..engine.errors import Stuck
from ..engine.job_states import Begun
from ..engine.outcome import Outcome
from .arrivals import arrivals
from .clock import WideningRounds
from .live_shares import LiveShares
from .stand_ins import with_stand_ins
from .truth import ENDLESS, Truth, truth_of
from .world import Habit, InWorld, LiveWorld, Speeds

LEAST_AHEAD_S, MOST_AHEAD_S = 4 * 3600.0, 14 * 86_400.0  # how far arrivals are drawn
MOST_PACE = 4.0  # a job that seems so many times faster or slower than its model was seen wrongly


@dataclass(frozen=True)
class WorldEnd:
    """What became of the jobs of one world, by id; times are seconds of the scheduler's steady clock.

    started_s: when a job that waited got GPUs; absent: it did not.
    ended_s: absent: it did not by the end of the world, `until_s`.
    """

    until_s: float
    started_s: dict[str, float]
    ended_s: dict[str, float]
    gpu_hours: dict[str, dict[str, float]] = field(default_factory=dict)
    holds: dict[str, tuple[Hold, ...]] = field(default_factory=dict)


class Ahead:
    """The state from which worlds begin, and what they share.

    past: jobs of the last weeks, in order of submission.
    near: how many rounds are as live before they lie further apart.
    """

    def __init__(self, state: LiveState, past: Sequence[PastJob], near: int = 20) -> None:
        self.state, self.past, self._near = with_stand_ins(state, past), past, near
        self.cluster = Cluster(state.nodes)
        self._speeds = Speeds()
        self._asked = self._asked_speeds([(job.id, job) for job in self.state.jobs])
        seen: list[LiveJob | PastJob] = [*state.jobs, *past]
        starts = [one.start_s for one in seen if one.start_s is not None]
        moves = [one.move_s for one in seen if one.move_s is not None]
        self._habit = Habit(
            mean(starts) if starts else state.restart_cost_s, mean(moves) if moves else state.restart_cost_s
        )

    def _asked_speeds(self, jobs: Sequence[tuple[str, LiveJob]]) -> dict[str, float]:
        """Return the samples/s of jobs on the GPUs that they ask for, by id."""
        found: dict[str, float] = {}
        for pool in {job.spec.pool or "" for _, job in jobs}:
            of = [(id, job) for id, job in jobs if (job.spec.pool or "") == pool]
            speeds = asked_speeds(
                [job.model for _, job in of], [job.spec.asked_gpus for _, job in of], self.cluster.of_pool(pool)
            )
            found.update(zip((id for id, _ in of), speeds.samples_per_s.tolist(), strict=True))
        return found

    def known(self, job: LiveJob) -> bool:
        """Return whether anybody can tell how long a job takes."""
        return self.truth(job, 0).known

    def truth(self, job: LiveJob, world: int) -> Truth:
        """Return what is true of a job in a world."""
        asked, slower = self._asked[job.id], self._slower(job)
        return truth_of(job, world, asked, slower, self.past, self._since_report(job, asked))

    def _since_report(self, job: LiveJob, asked_per_s: float) -> float:
        """Return what a job has done since its last report, in samples or, without a model, in seconds."""
        if job.reported_s is None or job.placement is None or job.pause_s > 0:
            return 0.0
        passed_s = max(self.state.now_s - job.reported_s, 0.0)
        if job.pace is not None:
            return passed_s * job.pace
        if job.model is None or asked_per_s <= 0:
            return passed_s
        return passed_s * self._speeds.of(job.model, job.placement)

    def _slower(self, job: LiveJob) -> float:
        """Return how much faster a job was just seen to train than its model says on the same GPUs."""
        if job.pace is None or job.model is None or job.placement is None or job.pause_s > 0:
            return 1.0
        told = self._speeds.of(job.model, job.placement)
        found = job.pace / told if told > 0 else 1.0
        return found if 1 / MOST_PACE <= found <= MOST_PACE else 1.0

    def _until_s(self, jobs: Sequence[InWorld]) -> float:
        """Return how far arrivals are drawn: beyond the time that all the work takes on all GPUs."""
        gpus = max(sum(self.cluster.capacity().values()), 1)
        known = [
            one.truth.left / (1.0 if one.truth.in_seconds else one.asked_per_s * one.truth.factor)
            for one in jobs
            if one.truth.left < ENDLESS and (one.truth.in_seconds or one.asked_per_s > 0)
        ]
        asked = [one.job.spec.asked_gpus for one in jobs]
        work_s = sum(known) * max(asked, default=1) / gpus
        ahead_s = 2 * work_s + 2 * max(known, default=0.0)
        return self.state.now_s + min(max(ahead_s, LEAST_AHEAD_S), MOST_AHEAD_S)

    def world(self, number: int, cpu_s: float) -> WorldEnd | None:
        """Return what becomes of all jobs in a world; None: it took more than so many seconds of one core.

        World 0 is the middle one: all that is drawn has its median.

        Raises: RunFailed where the policy fails; ValueError for a policy or option that is none.
        """
        state = self.state
        now = [
            InWorld(job, self.truth(job, number), self._asked[job.id])
            for job in sorted(state.jobs, key=lambda job: (job.submitted_s, job.id))
        ]
        until_s = self._until_s(now)
        coming = [
            InWorld(job, truth)
            for job, truth in arrivals(self.past, state.now_s, until_s, number)
            if self._fits(job)
        ]
        jobs = sorted([*now, *coming], key=lambda one: one.job.submitted_s)
        world = LiveWorld(jobs, self._speeds, self._habit)
        engine = Engine(
            world,
            self.cluster,
            PerPool(partial(make_policy, state.policy, **state.options)),
            Timing(interval_s=state.interval_s, first_s=state.now_s, early_s=state.early_s),
            shares=None if state.teams is None else LiveShares(state.teams, [one.job for one in jobs]),
            clock=WideningRounds(state.now_s, state.interval_s, state.early_s, self._near),
        )
        place = {one.job.id: i for i, one in enumerate(jobs)}
        engine.take_up(state.now_s, {place[one.job.id]: _begun(one.job) for one in now})
        asked = [one for one in now if one.job.part is not Part.PROFILE]
        left = [one.job.id for one in asked if one.truth.left < ENDLESS]
        waiting = [one.job.id for one in asked if one.truth.left >= ENDLESS and one.job.placement is None]
        until_cpu_s = time.process_time() + cpu_s
        cancelled = sorted(
            ((one.job.cancelled_s, one.job.id) for one in now if one.job.cancelled_s is not None), reverse=True
        )
        try:
            while (left or (waiting and engine.now_s < until_s)) and engine.step():
                while cancelled and cancelled[-1][0] < engine.now_s:
                    engine.cancel(cancelled.pop()[1])
                while left and not math.isnan(engine.finished_s(left[-1])):
                    left.pop()
                while waiting and engine.has_begun(waiting[-1]):
                    waiting.pop()
                if time.process_time() > until_cpu_s:
                    return None
        except Stuck:
            pass  # jobs wait that nothing here can run
        return _end(engine.outcome(), [one.job for one in now], engine.now_s, place)

    def _fits(self, job: LiveJob) -> bool:
        """Return whether a job of the past would find enough GPUs here, so that it does not wait for ever."""
        here = self.cluster.of_pool(job.spec.pool or "").capacity()
        return any(
            gpus >= job.spec.asked_gpus for t, gpus in here.items() if job.spec.gpus_per_replica(t) is not None
        )


def _begun(job: LiveJob) -> Begun:
    placement = job.placement
    if placement is not None:  # as plans of the simulator, which name no GPUs
        shares = tuple(replace(share, devices=()) if share.share == 1.0 else share for share in placement.shares)
        placement = replace(placement, shares=shares)
    return Begun(placement, job.pause_s, job.progress, job.attained_gpu_s, job.restarts, job.largest_gpus)


def _end(outcome: Outcome, jobs: Sequence[LiveJob], until_s: float, place: dict[str, int]) -> WorldEnd:
    """Return what became of the live jobs."""
    held: dict[int, list[Hold]] = {}
    for change in outcome.holdings:
        held.setdefault(change.job, []).append(Hold(change.time_s, change.gpu_type, math.ceil(change.gpus)))
    found = WorldEnd(until_s, {}, {})
    for job in jobs:
        if job.part is Part.PROFILE:
            continue
        at = place[job.id]
        started_s, ended_s = float(outcome.started_s[at]), float(outcome.finished_s[at])
        if job.placement is None and np.isfinite(started_s):
            found.started_s[job.id] = started_s
        if np.isfinite(ended_s):
            found.ended_s[job.id] = ended_s
        holds = tuple(held.get(at, ()))
        found.holds[job.id] = holds
        found.gpu_hours[job.id] = _gpu_hours(holds, until_s)
    return found


def _gpu_hours(holds: Sequence[Hold], until_s: float) -> dict[str, float]:
    """Return the GPU-hours of what a job holds, by GPU type."""
    found: dict[str, float] = {}
    ends_s = [*(hold.from_s for hold in holds[1:]), until_s]
    for hold, end_s in zip(holds, ends_s, strict=False):
        if hold.gpus:
            hours = hold.gpus * max(end_s - hold.from_s, 0.0) / 3600
            found[hold.gpu_type] = found.get(hold.gpu_type, 0.0) + hours
    return found
