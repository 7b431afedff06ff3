"""Which new jobs are measured first, and on how many nodes: Lucid's profiler (section 4.3.1). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ...core.placement import Placement


class ProfilingOrder(StrEnum):
    """In which order new jobs are measured."""

    SPACE = "space"  # least GPUs first, as in Algorithm 3
    ARRIVAL = "arrival"  # first come, first measured


class ProfilerOptions(BaseModel):
    """What an operator may set of the profiler.

    nodes: so many nodes measure new jobs; 0: none are. At most a quarter of all nodes are taken.
    pool: the pool whose nodes do so; None: nodes of the largest pools.
    t_prof_s: a job is there at most so long. burst_s: so long while nodes are borrowed.
    n_prof: jobs of more GPUs are measured where they run.
    grow_at: with more jobs waiting, a node is borrowed from the pool with most idle nodes.
    shrink_at: with fewer, a borrowed node that is idle goes back.
    most_borrowed: so many nodes are borrowed at once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    nodes: int = Field(default=2, ge=0)
    pool: str | None = None
    t_prof_s: float = Field(default=200.0, gt=0)
    burst_s: float = Field(default=200.0, gt=0)
    n_prof: int = Field(default=8, ge=1)
    grow_at: int = Field(default=10, ge=0)
    shrink_at: int = Field(default=5, ge=0)
    most_borrowed: int = Field(default=1, ge=0)
    order: ProfilingOrder = ProfilingOrder.SPACE

    @model_validator(mode="after")
    def _in_order(self) -> ProfilerOptions:
        if self.shrink_at > self.grow_at:
            raise ValueError(f"shrink_at: {self.shrink_at} is more than grow_at {self.grow_at}; it would flap")
        if self.burst_s > self.t_prof_s:
            raise ValueError(f"burst_s: {self.burst_s:g} s is more than t_prof_s {self.t_prof_s:g} s")
        return self

    def limit_s(self, borrowed: int) -> float:
        """Return T_prof now."""
        return self.burst_s if borrowed else self.t_prof_s


@dataclass(frozen=True)
class Newcomer:
    """A job that is to be measured, or that is being measured.

    attained_s: for how long it has had its GPUs. cold_start_s: so much of that does not count.
    """

    id: str
    gpus: int
    submitted_s: float
    attained_s: float = 0.0
    cold_start_s: float = 0.0

    def left_s(self, limit_s: float) -> float:
        """Return for how long it may still be there."""
        return limit_s + self.cold_start_s - self.attained_s


def evicted(measured: Iterable[Newcomer], limit_s: float) -> list[str]:
    """Return the jobs that have been there for T_prof."""
    return [one.id for one in measured if one.left_s(limit_s) <= 1e-6]


def in_order(waiting: Sequence[Newcomer], order: ProfilingOrder) -> list[Newcomer]:
    """Return the jobs that wait in the order in which they are measured."""
    space = order is ProfilingOrder.SPACE
    return sorted(waiting, key=lambda one: (one.gpus if space else 0, one.submitted_s, one.id))


def started(
    waiting: Iterable[Newcomer],
    room: Callable[[Newcomer], Placement | None],
    take: Callable[[str, Placement], None],
) -> dict[str, Placement]:
    """Return where jobs that wait, in their order, begin to be measured; the first without room holds up the rest.

    Args:
        room: returns exclusive GPUs on as few nodes as possible, without taking them.
    """
    found: dict[str, Placement] = {}
    for one in waiting:
        if (placement := room(one)) is None:
            break
        take(one.id, placement)
        found[one.id] = placement
    return found


def borrows(waiting: int, borrowed: int, options: ProfilerOptions) -> bool:
    """Return whether one more node is to be borrowed."""
    return waiting > options.grow_at and borrowed < options.most_borrowed


def returns(waiting: int, options: ProfilerOptions, ahead_gpus: float) -> bool:
    """Return whether a borrowed node goes back once it is idle.

    Args:
        ahead_gpus: GPUs that jobs ask for in the mean of the next slots of 10 min, as forecast.
    """
    return waiting < options.shrink_at and ahead_gpus <= 5.0 * options.n_prof
