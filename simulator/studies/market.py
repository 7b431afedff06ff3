"""Studies on a shared cluster: their groups and targets are jobs of rounds, beside other people's jobs.

The engine of traces has a closed list of jobs, and a study's jobs come of its results. So this holds rounds of its
own, by the same contract: a policy is asked with a `Round`, and its placements are what jobs run on. Between
rounds groups train exactly, epoch by epoch. A study decides once a round, just before it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from ...core.cluster import Cluster
from ...core.job import JobSpec
from ...core.placement import Placement
from ...estimators.tabulated import ANY_NODES, TabulatedConfigurations, TabulatedModel
from ...policies.contract.round import JobView, Planner, Round
from ...policies.contract.sharing import Sharing
from ...tuning.actions import Action, Cancel, Finish, GroupState, Keep, Seen, SeenGroup, Submit, Weigh
from ...tuning.planner import EpochTime
from ...tuning.state import StudyState
from ...tuning.study import decide
from ...tuning.study_file import StudyFile
from .fusion_profile import FusionProfile
from .pool import START_S
from .response import Response
from .thesis_rules import LEAST_ACTIVITY

COUNTS = (1, 2, 4, 8)
MOVE_S = 30.0  # without progress, when a job moves


@dataclass(frozen=True)
class GpuSpeed:
    """How fast a GPU type is over an A100: in what waits for the host, and in what fills the GPU.

    A V100 launches kernels as fast as its host does, and computes at somewhat less than half the speed: 125 of 312
    TFLOP/s and 900 of 2,039 GB/s by the data sheets.
    """

    host: float = 1.0
    compute: float = 1.0

    def epoch_s(self, seconds: float, host_s: float) -> float:
        """Return an epoch's time. `seconds`: on an A100; `host_s`: the part of it that waits for the host."""
        host_s = min(host_s, seconds)
        return host_s / self.host + (seconds - host_s) / self.compute


SPEEDS = {"a100": GpuSpeed(), "v100": GpuSpeed(0.9, 0.44)}
HOST_S = 5.0  # of an epoch of 195 steps: what a group of one narrow trial takes, all but its arithmetic


@dataclass(frozen=True)
class MarketStudy:
    """A study that comes at a time. `scale`: arithmetic of its model, over ResNet-18."""

    study: StudyFile
    arrives_s: float
    response: Response
    scale: float = 1.0


@dataclass(frozen=True)
class OtherJob:
    """Somebody's job of a fixed number of GPUs. `length_s`: on A100. `v100`: its speed on V100."""

    id: str
    arrives_s: float
    gpus: int
    length_s: float
    v100: float


@dataclass(frozen=True)
class MarketOutcome:
    """What became of studies and of other people's jobs.

    `studies_jct_s`, `others_jct_s`: completion times, s, by name; of those that have ended. `studies_metric`: of
    what each study found. `makespan_s`: from the start of the run to the last end of a study.
    `light_gpu_s`, `full_gpu_s`: GPU-seconds of groups by GPU type: of those that keep an A100 busy for less than
    half of the time, and of the others. `others_gpu_s`: GPU-seconds of other people's jobs.
    """

    studies_jct_s: Mapping[str, float]
    studies_metric: Mapping[str, float]
    makespan_s: float
    others_jct_s: Mapping[str, float]
    light_gpu_s: Mapping[str, float]
    full_gpu_s: Mapping[str, float]
    others_gpu_s: float

    @property
    def studies_gpu_s(self) -> float:
        """GPU-seconds of all groups."""
        return sum(self.light_gpu_s.values()) + sum(self.full_gpu_s.values())

    def light_on(self, gpu_type: str) -> float:
        """Return the share of the GPU-seconds of light groups on a GPU type; 0 if there were none."""
        return self.light_gpu_s.get(gpu_type, 0.0) / (sum(self.light_gpu_s.values()) or 1.0)


@dataclass
class Work:
    """A job of the market. `left`: what it still has to do; rates are its progress per second."""

    id: str
    spec: JobSpec
    arrived_s: float
    activity: float  # part of the time for which it keeps an A100 busy
    placement: Placement | None = None
    pause_s: float = 0.0
    gpu_s: float = 0.0
    restarts: int = 0
    largest: dict[str, int] = field(default_factory=dict)
    model: TabulatedModel | None = None

    def move(self, placement: Placement | None) -> None:
        """Take what a round gives."""
        if placement == self.placement:
            return
        if placement is not None:
            self.pause_s = START_S if self.placement is None and not self.largest else MOVE_S
            self.restarts += bool(self.largest)
            most = self.largest.get(placement.gpu_type, 0)
            self.largest[placement.gpu_type] = max(most, placement.gpus)
        self.placement = placement


@dataclass
class _Group(Work):
    submit: Submit | None = None
    study: int = 0
    runs: list[int] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)
    done: float = 0.0  # of the epoch
    state: GroupState = GroupState.WAITING
    new: dict[int, dict[int, float]] = field(default_factory=dict)


@dataclass
class _Other(Work):
    left_s: float = 0.0
    v100: float = 0.5
    ended_s: float | None = None


@cache
def _spec(gpus: int | None, weight: float = 1.0) -> JobSpec:
    """Return a job of so many GPUs; None: of any number, with its batch size kept."""
    adaptivity = "strong-scaling" if gpus is None else "rigid"
    resources: dict[str, Any] = {"cpus_per_gpu": 0.0, "max_gpus": 8}
    if gpus is not None:
        resources["gpus"] = gpus
    return JobSpec.model_validate(
        {
            "name": "market",
            "script": "s.py",
            "weight": weight,
            "resources": resources,
            "training": {"adaptivity": adaptivity},
        }
    )


_TABLES = {
    counts: TabulatedConfigurations(tuple((t, ANY_NODES, n) for t in SPEEDS for n in counts))
    for counts in {(n,) for n in COUNTS} | {COUNTS}
}


class Market:
    """A run of studies and jobs under a policy.

    `blind`: the policy is told of every GPU type what holds for an A100.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Planner,
        studies: Sequence[MarketStudy],
        others: Sequence[OtherJob] = (),
        profile: FusionProfile | None = None,
        round_s: float = 30.0,
        blind: bool = False,
    ) -> None:
        self.cluster, self.policy, self.studies, self.round_s, self.blind = (
            cluster,
            policy,
            studies,
            round_s,
            blind,
        )
        self.profile = profile or FusionProfile(gpu_gib=32.0)  # so that a group fits both types
        self.states = [StudyState() for _ in studies]
        self.finished_s: list[float | None] = [None] * len(studies)
        self.found: dict[str, float] = {}
        self.groups: dict[str, _Group] = {}
        self.others = [
            _Other(one.id, _spec(one.gpus), one.arrives_s, 0.9, left_s=one.length_s, v100=one.v100)
            for one in others
        ]
        self.now_s = 0.0
        self.light_gpu_s: defaultdict[str, float] = defaultdict(float)
        self.full_gpu_s: defaultdict[str, float] = defaultdict(float)

    def run(self, most_s: float = 7 * 86_400.0, studies: bool = True) -> MarketOutcome:
        """Go on until everything has ended; without `studies`: until other people's jobs have.

        Raise ValueError if that takes longer than `most_s`.
        """
        while (studies and None in self.finished_s) or any(one.ended_s is None for one in self.others):
            if self.now_s > most_s:
                raise ValueError(f"not ended after {most_s:g} s")
            self._decide()
            self._hold_round()
            self._pass(self.round_s)
        ended = [(one, end) for one, end in zip(self.studies, self.finished_s, strict=True) if end is not None]
        return MarketOutcome(
            studies_jct_s={one.study.name: end - one.arrives_s for one, end in ended},
            studies_metric=self.found,
            makespan_s=max((end for _, end in ended), default=0.0),
            others_jct_s={one.id: (one.ended_s or 0.0) - one.arrived_s for one in self.others},
            light_gpu_s=self.light_gpu_s,
            full_gpu_s=self.full_gpu_s,
            others_gpu_s=sum(one.gpu_s for one in self.others),
        )

    # Studies

    def _decide(self) -> None:
        idle = sum(self.cluster.capacity().values()) - sum(
            one.placement.gpus for one in self._active() if one.placement is not None
        )
        waiting = [one for one in self._active() if one.placement is None]
        idle -= sum(one.spec.resources.gpus or 1 for one in waiting)
        for at, one in enumerate(self.studies):
            if one.arrives_s > self.now_s or self.finished_s[at] is not None:
                continue
            idle -= self._decide_one(at, one, max(idle, 0), any(job not in self._of(at) for job in waiting))

    def _of(self, study: int) -> list[Work]:
        return [group for group in self.groups.values() if group.study == study]

    def _decide_one(self, at: int, one: MarketStudy, idle: int, others_wait: bool) -> int:
        """Let a study decide; return how many groups it has asked for."""
        open_before = sum(group.state is GroupState.WAITING for group in self.groups.values() if group.study == at)
        seen = Seen(
            self.now_s,
            {"any": idle + open_before},
            {
                id: SeenGroup(group.state, tuple(group.runs), group.new, group.gpu_s, weight=group.spec.weight)
                for id, group in self.groups.items()
                if group.study == at
            },
            {((), shrink): self.profile.memory(shrink) for shrink in {one.study.shrink, *one.study.ladder}},
            {((), shrink): self._time(one, shrink) for shrink in {one.study.shrink, *one.study.ladder}},
            restart_s=MOVE_S,
            others_wait=others_wait,
        )
        self.states[at], actions = decide(one.study, self.states[at], seen)
        for group in [group for group in self.groups.values() if group.study == at]:
            group.new = {}
            if group.state.over:
                del self.groups[group.id]
        for action in actions:
            self._do(at, one, action)
        return sum(isinstance(action, Submit) for action in actions)

    def _do(self, at: int, one: MarketStudy, action: Action) -> None:
        if isinstance(action, Submit):
            start = {run: action.origins[run].epoch if run in action.origins else 0 for run in action.runs}
            group = _Group(
                action.group,
                _spec(None if action.elastic else 1, action.weight),
                self.now_s,
                0.0,
                submit=action,
                study=at,
                runs=list(action.runs),
                at=start,
            )
            self.groups[action.group] = group
            self._tell(group)
        elif isinstance(action, Keep):
            self.groups[action.group].runs = list(action.runs)
            self._tell(self.groups[action.group])
        elif isinstance(action, Cancel):
            self.groups[action.group].state = GroupState.CANCELLED
            self.groups[action.group].placement = None
        elif isinstance(action, Finish):
            if action.metric is None:
                raise ValueError(f"{one.study.name}: {action.why}")
            self.finished_s[at], self.found[one.study.name] = self.now_s, action.metric
            for group in [group for group in self.groups.values() if group.study == at]:
                del self.groups[group.id]
        else:
            assert isinstance(action, Weigh)
            group = self.groups[action.group]
            group.spec = _spec(group.spec.resources.gpus, action.weight)

    def _time(self, one: MarketStudy, shrink: int) -> EpochTime:
        """Return the line of epoch times that a study has measured on an A100."""
        base = self.profile.time(shrink)
        return EpochTime(HOST_S + (base.alone_s - HOST_S) * one.scale, base.each_s * one.scale)

    def _epoch_s(self, group: _Group, gpu_type: str, gpus: int) -> float:
        """Return the seconds of an epoch. A model of more arithmetic takes longer in what fills the GPU."""
        assert group.submit is not None
        base_s = self.profile.epoch_s(len(group.runs), group.submit.shrink)
        scaled_s = HOST_S + max(base_s - HOST_S, 0.0) * self.studies[group.study].scale
        return SPEEDS[gpu_type].epoch_s(scaled_s, HOST_S) / self.profile.speed_up(gpus)

    def _tell(self, group: _Group) -> None:
        """Make the model that policies are told, and how busy the group keeps an A100."""
        counts = (1,) if group.spec.resources.gpus else COUNTS
        alone_s = self._epoch_s(group, "a100", 1)
        group.activity = 1 - HOST_S / alone_s
        types = ["a100" if self.blind else gpu_type for gpu_type in SPEEDS]
        rates = [alone_s / self._epoch_s(group, gpu_type, n) for gpu_type in types for n in counts]
        group.model = TabulatedModel(_TABLES[counts], np.array(rates))

    # Rounds

    def _active(self) -> list[Work]:
        others = [one for one in self.others if one.arrived_s <= self.now_s and one.ended_s is None]
        return [*others, *(group for group in self.groups.values() if not group.state.over)]

    def _hold_round(self) -> None:
        active = sorted(self._active(), key=lambda one: (one.arrived_s, one.id))
        if not active:
            return
        for one in active:
            if isinstance(one, _Other) and one.model is None:
                gpus = one.spec.resources.gpus or 1
                v100 = 1.0 if self.blind else one.v100
                one.model = TabulatedModel(_TABLES[(gpus,)], np.array([1.0, v100]))
        # What progress is worth reaches policies as in the live service, where there are no teams.
        worth = {one.id: one.spec.worth for one in active if one.spec.worth != 1.0}
        sharing = Sharing({}, {}, worth) if worth else None
        views = [self._view(one) for one in active]
        plan = self.policy.plan(Round(self.now_s, self.round_s, self.cluster, views, sharing=sharing))
        for one in active:
            one.move(plan.placements.get(one.id))
            if isinstance(one, _Group):
                one.state = GroupState.WAITING if one.placement is None else GroupState.RUNNING

    def _view(self, one: Work) -> JobView:
        return JobView(
            id=one.id,
            spec=one.spec,
            model=one.model,
            placement=one.placement,
            age_s=self.now_s - one.arrived_s,
            restarts=one.restarts,
            restart_cost_s=MOVE_S,
            largest_gpus=one.largest,
            attained_gpu_s=one.gpu_s,
            submitted_s=one.arrived_s,
            progress=one.activity,  # for the thesis' rules, which go by it
        )

    def _pass(self, seconds: float) -> None:
        for one in self._active():
            if one.placement is None:
                continue
            paused = min(one.pause_s, seconds)
            one.pause_s -= paused
            if isinstance(one, _Other):
                speed = 1.0 if one.placement.gpu_type == "a100" else one.v100
                took = min(one.left_s / speed, seconds - paused)
                one.left_s -= took * speed
                one.gpu_s += (paused + took) * one.placement.gpus
                if one.left_s <= 1e-9:
                    one.ended_s, one.placement = self.now_s + paused + took, None
            elif isinstance(one, _Group):
                of = self.light_gpu_s if one.activity < LEAST_ACTIVITY else self.full_gpu_s
                held_s = (paused + self._train(one, seconds - paused)) * one.placement.gpus
                one.gpu_s += held_s
                of[one.placement.gpu_type] += held_s
                if one.state.over:
                    one.placement = None
        self.now_s += seconds

    def _train(self, group: _Group, seconds: float) -> float:
        """Let a group train; return the seconds that it used."""
        assert group.submit is not None
        assert group.placement is not None
        one, used = self.studies[group.study], 0.0
        epoch_s = self._epoch_s(group, group.placement.gpu_type, group.placement.gpus)
        while used < seconds:
            left_s = (1 - group.done) * epoch_s
            if used + left_s > seconds:
                group.done += (seconds - used) / epoch_s
                return seconds
            used, group.done = used + left_s, 0.0
            for run in group.runs:
                group.at[run] += 1
                values = group.submit.runs[run]
                metric = one.response.metric(values, group.submit.shrink, group.at[run], one.study.epochs)
                group.new.setdefault(run, {})[group.at[run]] = metric
            if min(group.at[run] for run in group.runs) >= group.submit.until:
                group.state = GroupState.ENDED
                break
        return used
