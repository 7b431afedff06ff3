"""The state of a study, as plain data with JSON. Its decisions are in `study`."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import TypeAdapter

from .actions import GroupState, Origin
from .rungs import goodness
from .space import Value


class RunState(StrEnum):
    """Where a run is."""

    WAITING = "waiting"  # for a group
    IN_GROUP = "in_group"  # which waits or runs
    PAUSED = "paused"  # at a rung, until others have come to it
    STOPPED = "stopped"  # at a rung: others are better
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"  # a target that a better one replaced, or that the study did not wait for


@dataclass(slots=True)
class Run:
    """One training of a trial at one width.

    `until`: the epoch after which its group ends. `epoch`: the last that was reported. `last`, `best`: the metric
    after it, and the best after any; None: none was reported, or it was NaN. `rungs`: the metric at each rung.
    `decided`: the last rung at which it was let go on. `eager`: a target that began before the search was over.
    `origin`: where a new group takes it from. `gpu_s`: its part of the GPU-seconds of its groups.
    """

    trial: int
    shrink: int
    until: int
    state: RunState = RunState.WAITING
    group: str = ""
    epoch: int = 0
    last: float | None = None
    best: float | None = None
    rungs: dict[int, float | None] = field(default_factory=dict)
    origin: Origin | None = None
    gpu_s: float = 0.0
    message: str = ""
    decided: int = 0
    eager: bool = False

    @property
    def open(self) -> bool:
        """Whether it may still train."""
        return self.state in (RunState.WAITING, RunState.IN_GROUP, RunState.PAUSED)

    def copied(self) -> Run:
        """Return a copy that may change."""
        found = Run(self.trial, self.shrink, self.until, self.state, self.group, self.epoch, self.last, self.best)
        found.rungs, found.origin, found.gpu_s = dict(self.rungs), self.origin, self.gpu_s
        found.message, found.decided, found.eager = self.message, self.decided, self.eager
        return found

    def reports(self, epoch: int, metric: float | None, mode: str) -> None:
        """Take one report."""
        self.epoch, self.last = epoch, metric
        if self.best is None or goodness(metric, mode) > goodness(self.best, mode):
            self.best = metric


@dataclass(slots=True)
class Group:
    """Runs that train as one job."""

    runs: list[int]  # those that are wanted; the job may still have others
    shrink: int
    until: int
    state: GroupState = GroupState.DECIDED
    fused: bool = True
    elastic: bool = False
    weight: float = 0.25
    origins: dict[int, Origin] = field(default_factory=dict)
    first_runs: list[int] = field(default_factory=list)  # what it was asked to start with
    cancelled: bool = False
    gpu_s: float = 0.0
    place: str = ""  # the stage whose bubbles it trains in; "": a GPU of its own


@dataclass(slots=True)
class StudyState:
    """A study between two decisions.

    `trials`: the values of each trial. `runs`, `groups`: by number and by id. `most`: trials of a group that
    fitted after one that did not, by kind and width as text. `sizes`: of groups of a wave, the same. `unfused`:
    why trials run apart, once a group could not be fused. `finished`: whether the study is over; `chosen` is then
    the trial with the best values, or `why` tells why there is none. `warning`: of a deadline that is too short
    for the target.
    """

    began_s: float | None = None
    trials: list[dict[str, Value]] = field(default_factory=list)
    runs: dict[int, Run] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    most: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    unfused: str = ""
    all_proposed: bool = False  # though there are fewer than were asked for: the deadline came first
    failures: int = 0  # of groups, while no trial has ever reported
    stage: int = -1  # of the ladder of widths; -1: the search itself
    finished: bool = False
    chosen: int | None = None
    chosen_metric: float | None = None
    why: str = ""
    warning: str = ""

    def copied(self) -> StudyState:
        """Return a copy whose open runs and whose groups may change; the other runs are shared."""
        found = copy.copy(self)
        found.trials, found.most, found.sizes = list(self.trials), dict(self.most), dict(self.sizes)
        found.runs = {key: one.copied() if one.open else one for key, one in self.runs.items()}
        found.groups = {key: copy.copy(one) for key, one in self.groups.items()}
        for one in found.groups.values():
            one.runs = list(one.runs)
        return found

    def to_json(self) -> str:
        """Return it as JSON."""
        return _ADAPTER.dump_json(self).decode()

    @staticmethod
    def from_json(text: str) -> StudyState:
        """Return the state that `to_json` wrote. Raises: pydantic.ValidationError."""
        return _ADAPTER.validate_json(text)


_ADAPTER = TypeAdapter(StudyState)
