"""What would have to give for a job's deadline to hold: fewer jobs, more nodes, or a later deadline. Pure.

Each way is tried in the middle world. What the job itself may take longer is added as its forecast has it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..core.cluster import Node
from ..core.rewards import Rewards
from ..forecasts.answers import Gives
from ..forecasts.state import LiveJob, LiveState, Part, PastJob
from .forecasting.worlds import Ahead, WorldEnd
from .live import MOST_WORLDS, forecast_of, worlds

MOST_NODES, MOST_WITHOUT = 16, 6
STEPS = 4  # of halving between a deadline that does not hold and one that does
FORECAST_PART = 0.4  # of the time, for the forecast as things are


def giving(
    state: LiveState,
    past: Sequence[PastJob],
    job_id: str,
    *,
    cpu_s: float = 5.0,
    near: int = 20,
    most_worlds: int = MOST_WORLDS,
) -> Gives:
    """Return when a job ends, and what would have to give for its first deadline to hold.

    What is not found in time is left out. The forecast is made in any case.

    Args:
        state: with the job, which has a deadline.
        cpu_s: seconds of one core.

    Raises:
        ValueError: for a job that is not in the state, or has no deadline.
        TooLong, RunFailed: as `live.forecast`.
    """
    job = next((one for one in state.jobs if one.id == job_id), None)
    if job is None or job.rewards is None:
        raise ValueError(f"job: {job_id!r} is not to run, or has no deadline")
    until_s = time.process_time() + cpu_s
    ahead = Ahead(state, past, near)
    ends = worlds(ahead, FORECAST_PART * cpu_s, most_worlds)
    told = forecast_of(ahead, ends, 0.0).jobs[job_id]
    due_s = job.submitted_s + job.rewards.by_s[0]
    found = Gives(state.now_s, told.end, told.why_no_end)
    if told.end is None and not ahead.known(job):
        return found
    stretch = 1.0
    if told.end is not None:
        if told.end.high_s <= due_s:
            return replace(found, holds=True)
        stretch = max((told.end.high_s - state.now_s) / max(told.end.at_s - state.now_s, 1e-9), 1.0)
    trial = _Trial(state, past, job_id, near, due_s, stretch, until_s)
    try:
        alone = trial.holds(_only(state, {job_id}))
        if alone:
            found = replace(found, without=_fewest(trial, state, ends[0], due_s, job))
            nodes, node = _fewest_nodes(trial, state, job)
            found = replace(found, nodes=nodes, node=node)
        else:
            found = replace(found, alone=False)
        if told.end is not None:
            found = replace(found, later_s=_earliest(trial, state, job, told.end.high_s))
    except _OutOfTime:
        pass
    return found


class _OutOfTime(Exception):
    """Nothing more can be tried."""


@dataclass(frozen=True)
class _Trial:
    """What is tried: whether a job ends in time in the middle world, stretched by what is not known."""

    state: LiveState
    past: Sequence[PastJob]
    job_id: str
    near: int
    due_s: float
    stretch: float
    until_s: float

    def holds(self, state: LiveState, due_s: float | None = None) -> bool:
        """Return whether it would hold. Raises: _OutOfTime."""
        left_s = self.until_s - time.process_time()
        world = Ahead(state, self.past, self.near).world(0, left_s) if left_s > 0 else None
        if world is None:
            raise _OutOfTime
        ended_s = world.ended_s.get(self.job_id)
        if ended_s is None:
            return False
        now_s = self.state.now_s
        return now_s + (ended_s - now_s) * self.stretch <= (self.due_s if due_s is None else due_s)


def _only(state: LiveState, ids: set[str]) -> LiveState:
    return replace(state, jobs=tuple(job for job in state.jobs if job.id in ids))


def _fewest(trial: _Trial, state: LiveState, as_is: WorldEnd, due_s: float, job: LiveJob) -> tuple[str, ...]:
    """Return jobs without which it would hold: those that hold most until the deadline first."""
    pool = job.spec.pool
    others = [one for one in state.jobs if one.id != job.id and one.part is not Part.PROFILE]
    taken = {one.id: _gpu_s(as_is, one.id, due_s) for one in others if one.spec.pool == pool}
    order = sorted((id for id in taken if taken[id] > 0), key=lambda id: -taken[id])[:MOST_WITHOUT]

    def without(ids: Sequence[str]) -> bool:
        return trial.holds(replace(state, jobs=tuple(one for one in state.jobs if one.id not in ids)))

    count = _least(lambda count: without(order[:count]), len(order))
    chosen = order[:count]
    for id in list(chosen[:-1]):  # one that holds much need not be in the way
        if len(chosen) > 1 and without([one for one in chosen if one != id]):
            chosen.remove(id)
    return tuple(chosen)


def _gpu_s(world: WorldEnd, job_id: str, due_s: float) -> float:
    """Return the GPU-seconds that a job holds until a moment."""
    holds = world.holds.get(job_id, ())
    ends_s = [*(hold.from_s for hold in holds[1:]), due_s]
    return sum(
        hold.gpus * max(min(end_s, due_s) - hold.from_s, 0.0) for hold, end_s in zip(holds, ends_s, strict=True)
    )


def _fewest_nodes(trial: _Trial, state: LiveState, job: LiveJob) -> tuple[int, str]:
    """Return how many more nodes, like the largest one that can run the job, are enough; 0: not so few."""
    pool = job.spec.pool or ""
    usable = [one for one in state.nodes if one.pool == pool and job.spec.gpus_per_replica(one.gpu_type)]
    if not usable:
        return 0, ""
    held = None if job.placement is None else job.placement.gpu_type
    like = max(usable, key=lambda one: (one.gpu_type == held, one.gpus, one.id))

    def more(count: int) -> bool:
        come = tuple(_like(like, number) for number in range(count))
        return trial.holds(replace(state, nodes=(*state.nodes, *come)))

    return _least(more, MOST_NODES), f"{like.gpu_type}:{like.gpus}"


def _like(node: Node, number: int) -> Node:
    return Node(f"~more-{number:04d}", node.gpu_type, node.gpus, node.cpus, node.memory_gib, pool=node.pool)


def _earliest(trial: _Trial, state: LiveState, job: LiveJob, ends_s: float) -> float:
    """Return the earliest deadline that holds; that by which it ends as things are holds in any case."""
    low_s, high_s = trial.due_s, ends_s
    try:
        for _ in range(STEPS):
            middle_s = (low_s + high_s) / 2
            asked = replace(job, rewards=Rewards.strict(middle_s - job.submitted_s))
            jobs = tuple(asked if one.id == job.id else one for one in state.jobs)
            if trial.holds(replace(state, jobs=jobs), middle_s):
                high_s = middle_s
            else:
                low_s = middle_s
    except _OutOfTime:
        pass
    return high_s


def _least(enough: Callable[[int], bool], most: int) -> int:
    """Return the least number from 1 on that is enough, as more are if fewer are; 0: the most are not."""
    low, high = 0, 1
    while high <= most and not enough(high):
        low, high = high, min(2 * high, most) if high < most else most + 1
    if high > most:
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
