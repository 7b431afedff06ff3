"""A study alone on a pool of GPUs of one type, decided as a live one is."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...tuning.actions import Action, Cancel, Finish, GroupState, Keep, Seen, SeenGroup, Submit, Weigh
from ...tuning.bubbles import Place
from ...tuning.planner import EpochTime, GroupMemory, Kind, kind_of
from ...tuning.rungs import levels
from ...tuning.space import Value
from ...tuning.state import Run, StudyState
from ...tuning.study import decide
from ...tuning.study_file import StudyFile
from .fusion_profile import FusionProfile
from .response import Response

START_S = 8.5  # of a process up to its first step: the median of the authors' trials by Ray Tune
RESIZE_S = 5.0  # a target that gets or gives up GPUs
COMPILE_EPOCHS, COMPILE_GAIN, COMPILE_FROM = 2.0, 0.10, 20  # Hydro, section 3.4.2: lazy intra-trial fusion
MOST_GPUS = 8  # of a target
EVERY = 5  # epochs of a group between two decisions where no rung is


@dataclass(frozen=True)
class Ways:
    """What a run of a study does and leaves out.

    `merge`: thinned groups are merged and filled again. `compiles`: what trains a known number of epochs, at least
    20, is compiled; between two rungs the number is known. `elastic`: targets take GPUs that are idle.
    `splits`: idle GPUs take part of a group.
    """

    merge: bool = True
    compiles: bool = True
    elastic: bool = True
    splits: bool = True


@dataclass(frozen=True)
class StudyOutcome:
    """What a simulated study took and found.

    `searched_s`: when the last narrow trial ended. `gpu_s`: GPU-seconds of groups. `start_gpu_s`: those of starts.
    `epochs`: of trials, all widths. `values`, `trial`, `metric`: the answer. `largest`: trials of a group, most.
    """

    makespan_s: float
    searched_s: float
    gpu_s: float
    start_gpu_s: float
    epochs: int
    groups: int
    largest: int
    values: Mapping[str, Value]
    trial: int
    metric: float
    state: StudyState


@dataclass
class _Job:
    submit: Submit
    runs: list[int]
    at: dict[int, int]
    kind: Kind
    state: GroupState = GroupState.WAITING
    gpus: int = 0
    gpu_s: float = 0.0
    new: dict[int, dict[int, float]] = field(default_factory=dict)
    compiled: bool = False
    changed: bool = False  # since its last epoch: trials left it

    @property
    def left(self) -> int:
        return self.submit.until - min(self.at[run] for run in self.runs)


class Pool:
    """GPUs that a study has to itself; `play` returns what became of it.

    `bubbles`: stages of other people's pipelines. What trains there costs no GPU-seconds.
    """

    def __init__(
        self,
        study: StudyFile,
        gpus: int,
        profile: FusionProfile,
        response: Response,
        ways: Ways = Ways(),
        trials: Sequence[Mapping[str, Value]] | None = None,
        bubbles: Sequence[Place] = (),
    ) -> None:
        self.study, self.gpus, self.profile, self.response, self.ways = study, gpus, profile, response, ways
        self.bubbles = {place.name: place for place in bubbles}
        self.apart = study.cannot_fuse()
        algorithm = study.algorithm
        self._rungs = levels(algorithm.grace, algorithm.reduction, study.epochs) if algorithm.stops else []
        self.state = StudyState() if trials is None else preset(study, trials)
        self.jobs: dict[str, _Job] = {}
        self.now_s, self.searched_s, self.start_gpu_s, self.epochs = 0.0, 0.0, 0.0, 0
        self._events: list[tuple[float, int, str]] = []
        self._sequence = 0
        self.finish: Finish | None = None
        self._memory: dict[tuple[Kind, int], GroupMemory] = {}
        self._times: dict[tuple[Kind, int], EpochTime] = {}
        for kind in self._kinds():
            for shrink in {study.shrink, *study.ladder}:
                self._memory[kind, shrink] = profile.memory(shrink)
                self._times[kind, shrink] = profile.time(shrink, _batch(kind))

    def _kinds(self) -> list[Kind]:
        space = self.study.searched()
        batch = next((one for one in space.searched if one.name == "batch_size"), None)
        return [()] if batch is None else [(("batch_size", size),) for size in batch.values()]

    def play(self) -> StudyOutcome:
        """Go on until the study has finished."""
        self._decide()
        while self.finish is None:
            if not self._events:
                raise ValueError("the study waits, and nothing trains")
            self.now_s, _, id = heapq.heappop(self._events)
            if self._advance(id):
                while self._events and self._events[0][0] <= self.now_s + 1e-9:  # those at one time go together
                    self._advance(heapq.heappop(self._events)[2])
                self._decide()
        if self.finish.values is None or self.finish.trial is None or self.finish.metric is None:
            raise ValueError(self.finish.why)
        return StudyOutcome(
            makespan_s=self.now_s,
            searched_s=self.searched_s,
            gpu_s=sum(job.gpu_s for job in self.jobs.values()),
            start_gpu_s=self.start_gpu_s,
            epochs=self.epochs,
            groups=len(self.jobs),
            largest=max(len(job.submit.runs) for job in self.jobs.values()),
            values=self.finish.values,
            trial=self.finish.trial,
            metric=self.finish.metric,
            state=self.state,
        )

    def _decide(self) -> None:
        self._decide_once()
        self._place()

    def _decide_once(self) -> None:
        held = sum(job.state is GroupState.RUNNING and not job.submit.place for job in self.jobs.values())
        taken = {job.submit.place for job in self.jobs.values() if not job.state.over}
        groups = {
            id: SeenGroup(job.state, tuple(job.runs), job.new, job.gpu_s)
            for id, job in self.jobs.items()
            if id not in self.state.groups or not self.state.groups[id].state.over
        }
        seen = Seen(
            self.now_s,
            {"a100": self.gpus - held},
            groups,
            self._memory,
            self._times,
            restart_s=START_S if self.ways.splits else float("inf"),
            bubbles=[place for name, place in self.bubbles.items() if name not in taken],
        )
        self.state, actions = decide(self.study, self.state, seen, self.ways.merge)
        for job in self.jobs.values():
            job.new = {}
        for action in actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        if isinstance(action, Submit):
            at = {run: action.origins[run].epoch if run in action.origins else 0 for run in action.runs}
            first = next(iter(action.runs.values()))
            self.jobs[action.group] = _Job(action, list(action.runs), at, kind_of(first, self.apart))
        elif isinstance(action, Keep):
            self.jobs[action.group].runs = list(action.runs)
            self.jobs[action.group].changed = True
        elif isinstance(action, Cancel):
            self._stop(self.jobs[action.group], GroupState.CANCELLED)
        elif isinstance(action, Finish):
            self.finish = action
        else:
            assert isinstance(action, Weigh)

    def _stop(self, job: _Job, state: GroupState) -> None:
        job.state, job.gpus = state, 0

    def _place(self) -> None:
        """Start what waits, what weighs most first, on GPUs that nobody holds."""
        waiting = [(id, job) for id, job in self.jobs.items() if job.state is GroupState.WAITING]
        for id, job in sorted(waiting, key=lambda pair: -pair[1].submit.weight):
            if job.submit.place:
                job.state = GroupState.RUNNING
                self._next(id, job, START_S)
                continue
            if self._free() < 1:
                continue
            job.state, job.gpus = GroupState.RUNNING, 1
            if job.submit.elastic and self.ways.elastic:
                others = sum(one.state is GroupState.WAITING for one in self.jobs.values())
                job.gpus += max(min(self._free() - others, MOST_GPUS - 1), 0)
            pause = START_S + self._compiling_s(job)
            self.start_gpu_s += pause * job.gpus
            self._next(id, job, pause)

    def _compiling_s(self, job: _Job) -> float:
        """Compile a group if that pays up to its next change, and return what it takes, s."""
        at = min(job.at[run] for run in job.runs)
        ahead = [rung for rung in self._rungs if rung > at and job.submit.shrink == self.study.shrink]
        job.compiled = False
        plain_s = self._epoch_s(job)
        job.compiled = self.ways.compiles and min([*ahead, job.submit.until]) - at >= COMPILE_FROM
        return COMPILE_EPOCHS * plain_s if job.compiled else 0.0

    def _free(self) -> int:
        return self.gpus - sum(job.gpus for job in self.jobs.values())

    def _epoch_s(self, job: _Job) -> float:
        seconds = self.profile.epoch_s(len(job.runs), job.submit.shrink, _batch(job.kind), job.gpus)
        seconds *= 1 - COMPILE_GAIN if job.compiled else 1.0
        return seconds / (self.bubbles[job.submit.place].rate if job.submit.place else 1.0)

    def _next(self, id: str, job: _Job, pause_s: float) -> None:
        seconds = pause_s + self._epoch_s(job)
        job.gpu_s += seconds * job.gpus
        self._sequence += 1
        heapq.heappush(self._events, (self.now_s + seconds, self._sequence, id))

    def _advance(self, id: str) -> bool:
        """Let a group end an epoch. Return whether there is something to decide."""
        job = self.jobs[id]
        if job.state is not GroupState.RUNNING:
            return False
        for run in job.runs:
            job.at[run] += 1
        self.epochs += len(job.runs)
        at = min(job.at[run] for run in job.runs)
        quiet = job.left > 0 and at % EVERY and at not in self._rungs
        if quiet and not job.submit.elastic:
            self._next(id, job, 0.0)
            return False
        for run in job.runs:
            values, shrink = job.submit.runs[run], job.submit.shrink
            metric = self.response.metric(values, shrink, job.at[run], self.study.epochs)
            job.new.setdefault(run, {})[job.at[run]] = metric
        if job.submit.shrink == self.study.shrink:
            self.searched_s = self.now_s
        if job.left <= 0:
            self._stop(job, GroupState.ENDED)
            return True
        self._decide_once()  # its runs may stop here, before it goes on
        if job.state is not GroupState.RUNNING or self.finish is not None:
            return True
        pause = self._resize(job) if job.submit.elastic and self.ways.elastic else 0.0
        if job.submit.place:
            job.changed = False
        elif job.changed or (job.compiled and min(job.at[run] for run in job.runs) in self._rungs):
            compiling_s = self._compiling_s(job)
            self.start_gpu_s += compiling_s
            pause, job.changed = pause + compiling_s, False
        self._next(id, job, pause)
        return True

    def _resize(self, job: _Job) -> float:
        """Give a target its part of the idle GPUs at the end of an epoch, and return the pause."""
        waiting = sum(one.state is GroupState.WAITING for one in self.jobs.values())
        targets = [one for one in self.jobs.values() if one.submit.elastic and one.state is GroupState.RUNNING]
        spare = self._free() + sum(one.gpus - 1 for one in targets) - waiting
        fair = max(1, min(1 + spare // len(targets), MOST_GPUS))
        wanted = min(fair, job.gpus + max(self._free() - waiting, 0))
        if wanted == job.gpus:
            return 0.0
        gain = job.left * (self._at(job, job.gpus) - self._at(job, wanted))
        if wanted > job.gpus and gain < RESIZE_S:
            return 0.0
        job.gpus = wanted
        return RESIZE_S

    def _at(self, job: _Job, gpus: int) -> float:
        return self.profile.epoch_s(1, job.submit.shrink, _batch(job.kind), gpus)


def preset(study: StudyFile, trials: Sequence[Mapping[str, Value]]) -> StudyState:
    """Return the state of a study whose trials are given, rather than proposed."""
    state = StudyState(trials=[dict(one) for one in trials])
    state.runs = {i: Run(trial=i, shrink=study.shrink, until=study.epochs) for i in range(len(trials))}
    return state


def _batch(kind: Kind) -> int:
    size = dict(kind).get("batch_size", 256)
    return size if isinstance(size, int) else 256
