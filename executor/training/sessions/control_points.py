"""Points between two batches at which all ranks do what rank 0 decides.

All ranks run the same code and act on commands only at control points. One comes before a batch, about every 50
ms, when the script has made a step of all gradients so far.
There rank 0 says what to do, and when the next control point is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from ....core.batch_plan import BatchPlan
from ...protocol.messages import Save, SetBatch, Stop
from ..collective.group import Group, GroupBroken
from ..gradients.gradients import Gradients
from .batch_fusing import BatchFusing
from .channel import Channel
from .loop_state import LoopState
from .membership import Membership
from .metric_meeting import MetricMeeting
from .parameter_samples import ParameterSamples
from .peers import Peers
from .provisions import Provisions
from .same_parameters import SameParameters
from .session_checkpoints import SessionCheckpoints
from .session_reports import SessionReports
from .session_variables import SessionVariables
from .step_guard import StepGuard
from .step_scale import StepScale

CONTROL_INTERVAL_S = 0.05
MOST_STEPS = 1000  # the most steps to the next control point


class Act(IntEnum):
    """What all ranks do at a control point."""

    GO_ON = 0
    REGROUP = 1
    SET_BATCH = 2
    SAVE = 3
    STOP = 4
    MEET = 5  # in a loop in steps: combine what was reported, and look at the target
    PROVIDE = 6  # have other loader workers


class ControlWord(NamedTuple):
    """What rank 0 tells all ranks at a control point.

    argument: the generation to follow (REGROUP), whether to save (STOP), or loader workers (PROVIDE).
    local_bsz, accumulation, batch_size: the batch plan.
    following: steps to the next control point; 0: ask again at once.
    parameter, sample: the number of a parameter and what it looks like on rank 0; -1 where no sample is due.
    """

    act: int = Act.GO_ON
    argument: int = 0
    local_bsz: int = 0
    accumulation: int = 0
    batch_size: int = 0
    following: int = 0
    parameter: int = -1
    sample: int = 0

    @property
    def plan(self) -> BatchPlan:
        return BatchPlan(self.local_bsz, self.accumulation, self.batch_size or None)


@dataclass(eq=False)
class ControlPoints:
    """Decides on rank 0, and acts on all ranks."""

    channel: Channel
    loop: LoopState
    scale: StepScale
    peers: Peers
    gradients: Gradients
    guard: StepGuard
    same: SameParameters
    variables: SessionVariables
    checkpoints: SessionCheckpoints
    reports: SessionReports
    membership: Membership
    fusing: BatchFusing
    meeting: MetricMeeting
    samples: ParameterSamples
    provisions: Provisions

    def __post_init__(self) -> None:
        self._next = 0  # iteration of the next control point
        self._generation = -1  # generation of the group for which that was agreed

    def pass_through(self) -> bool:
        """Do what the ranks agree on before the next batch. Returns whether group, plan or position changed."""
        if self.peers.group is not None and self.peers.group.disagreement:
            self.peers.group.differ(self.peers.group.disagreement)  # the script has caught it
        self.reports.tell(self.membership.generation)
        self.fusing.look(self.guard.rates())
        self.provisions.here()
        position, changed = self.loop.position, False
        while True:
            group = self.peers.group
            try:
                if group is None or group.broken:
                    self.membership.recover()
                    changed = True
                    continue
                self.same.align(group)
                self.same.take_in_new()
                waits = position.iterations < self._next and self._generation == group.generation
                if self.loop.step.unstepped or (waits and (group.world_size > 1 or not self.channel.waiting)):
                    return changed
                group.place = "batch", position.batch, position.epoch
                word = self._agree(group)
                if word.act == Act.GO_ON:
                    return changed
                changed |= self._act(word)
                if word.following and word.act != Act.REGROUP:
                    return changed
            except GroupBroken:
                continue

    def come_soon(self) -> None:
        """Let a control point come before the next batch."""
        self._next = self.loop.position.iterations

    def _agree(self, group: Group) -> ControlWord:
        """Return what rank 0 decided."""
        word = self._decide(group) if group.rank == 0 else ControlWord()
        if group.rank != 0:
            # they are for rank 0, and must not surface when this rank becomes it
            self.channel.discard(SetBatch, Save)
        word = ControlWord(*group.broadcast_ints(list(word)))
        if word.parameter >= 0 and group.rank != 0:
            self.samples.compare(group, word.parameter, word.sample)
        self._next, self._generation = self.loop.position.iterations + word.following, group.generation
        return word

    def _decide(self, group: Group) -> ControlWord:
        """Return what the waiting commands and the state of the training ask for."""
        plan, act, argument = self.scale.plan, Act.GO_ON, 0
        membership = self.channel.membership(group.generation)
        if membership is not None:
            act, argument = Act.REGROUP, membership.generation
        elif (stop := self.channel.take(Stop)) is not None:
            act, argument = Act.STOP, int(stop.save)
        elif (batch := self.channel.take(SetBatch)) is not None:
            act, plan = Act.SET_BATCH, batch.batch
        elif self.provisions.waiting:
            act, argument = Act.PROVIDE, self.provisions.words()
        elif self.channel.take(Save) is not None or self.checkpoints.due:
            act = Act.SAVE
        elif self.meeting.has_news:
            act = Act.MEET
        following = 0 if self.channel.waiting else self._distance()
        sizes = plan.local_bsz, plan.accumulation, plan.batch_size or 0
        return ControlWord(act, argument, *sizes, following, *self.samples.take(group))

    def _distance(self) -> int:
        """Return steps to the next control point, about `CONTROL_INTERVAL_S` away."""
        step_s = self.gradients.timer.last_step_s() or CONTROL_INTERVAL_S
        return max(1, min(MOST_STEPS, round(CONTROL_INTERVAL_S / max(step_s, 1e-6))))

    def _act(self, word: ControlWord) -> bool:
        """Do what was agreed on. Returns whether group, batch plan or position changed."""
        match word.act:
            case Act.REGROUP:
                self.variables.look_as_one()
                self.same.sync_buffers()
                self.membership.follow(self.membership.await_command(word.argument - 1))
                return True
            case Act.SET_BATCH:
                changed = word.plan != self.scale.plan
                self.scale.plan = word.plan
                if changed:
                    self.gradients.timer.regrouped()
                return changed
            case Act.SAVE:
                self.variables.look_as_one()
                self.same.sync_buffers()
                if self.peers.saves:
                    self.checkpoints.try_to_save()
                self.variables.own.forget_as_one()
                self.gradients.timer.regrouped()
            case Act.MEET:
                group = self.peers.group
                assert group is not None
                if not self.meeting.combine(group):
                    self.loop.position.target_reached = self.meeting.target_reached
            case Act.PROVIDE:
                if self.provisions.agreed(word.argument):
                    self.gradients.timer.regrouped()
            case Act.STOP:
                self.variables.look_as_one()
                self.membership.leave(save=bool(word.argument) and self.peers.saves)
        return False
