"""A training process of a Coadapt job: joins and leaves groups, saves, reports, as its executor commands.

Commands are acted on between two batches (`control_points.py`), and at the end of a pass over the data.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import Any

from ....core.training_config import TrainingConfig
from ...protocol import messages
from ..checks.batch_watch import Kept, Rows
from ..collective.group import Disagreement, GroupBroken
from ..data.batches import Unit
from ..data.units import Part
from ..gradients.noise_meter import NoiseSchedule
from ..losses.loss_kind import Kind
from ..sharding.models import copy_once
from ..state.prepared import Prepared
from ..tracking.forwarding import Trackers
from .batch_fusing import BatchFusing
from .catching_up import CatchingUp
from .channel import Channel
from .control_points import ControlPoints
from .emulated_use import pace_of_process
from .group_session import GroupSession
from .membership import Leaving, Membership
from .metric_meeting import MetricMeeting
from .metrics import combine
from .parameter_samples import ParameterSamples
from .provisions import Provisions
from .session_checkpoints import SessionCheckpoints
from .session_reports import SessionReports
from .session_variables import SessionVariables
from .start_up import ready, warm_up
from .state_handover import StateHandover


class ManagedSession(GroupSession):
    """A training process of a Coadapt job."""

    def __init__(
        self,
        prepared: Prepared,
        config: TrainingConfig,
        channel: Channel,
        loss: Kind = Kind.UNKNOWN,
        trackers: Trackers | None = None,
    ) -> None:
        super().__init__(prepared, config, loss)
        self.channel, self.trackers = channel, trackers or Trackers()
        gpu_type = os.environ.get(messages.GPU_TYPE, "cpu")
        self.course.pace = pace = pace_of_process(channel)
        loop, scale, peers, gradients = self.loop, self.scale, self.peers, self.gradients
        self.noise_schedule = NoiseSchedule()
        self.checkpoints = SessionCheckpoints(config, self.state, channel, prepared.shards)
        self.variables = SessionVariables(
            prepared, loop, self.samples, peers, gradients, self.watch, self.sides, self.batch_loop
        )
        self.catching_up = CatchingUp(
            prepared, self.state, self.variables.own, loop, self.samples, gradients, self.sides, peers
        )
        self.handover = StateHandover(
            prepared,
            self.state,
            self.samples,
            self.variables.own,
            self.findings,
            self.catching_up,
            self.checkpoints,
        )
        self.reports = SessionReports(
            config,
            channel,
            gpu_type,
            prepared,
            self.metrics,
            loop,
            scale,
            self.progress,
            self.calls,
            gradients,
            self.noise,
            peers,
            self.source,
        )
        self.membership = Membership(
            config,
            channel,
            prepared,
            gpu_type,
            pace,
            loop,
            self.samples,
            scale,
            peers,
            gradients,
            self.noise_schedule,
            self.watch,
            self.same,
            self.variables,
            self.handover,
            self.checkpoints,
            self.reports,
        )
        has_scheduler = bool(prepared.schedulers)
        self.fusing = BatchFusing(config, scale.script_batch, loop, self.source, has_scheduler)
        self.meeting = MetricMeeting(
            config,
            self.metrics,
            loop,
            self.samples,
            self.progress,
            peers,
            self.fusing,
            self.batch_loop,
            self.trackers,
        )
        self.control = ControlPoints(
            channel,
            loop,
            scale,
            peers,
            gradients,
            self.guard,
            self.same,
            self.variables,
            self.checkpoints,
            self.reports,
            self.membership,
            self.fusing,
            self.meeting,
            ParameterSamples(prepared, self.position),
            Provisions(channel, self.source),
        )
        self._finished = False
        channel.on_abort = self.membership.on_abort
        self.state.extras["variables"] = self.variables.state, self.variables.own.load
        self.state.extras["accumulated"] = self.variables.accumulated, self.variables.load_accumulated

    def start(self) -> None:
        """Say `Ready` and wait for a group. Raises `Leaving` when there will be none."""
        if self.prepared.shards is None:
            warm_up(self.device)
        else:
            copy_once(self.prepared.parameters())
        live, script_batch = self.handover.live, self.scale.script_batch
        self.channel.send(ready(self.prepared, script_batch, self.source.size, live))
        self.membership.follow(self.membership.await_command())

    # --- what the script calls ------------------------------------------------------------------------------

    def report(self, metrics: dict[str, Any], how: dict[str, str]) -> None:
        super().report(metrics, how)
        if self.rank == 0 and self.loop.by_steps:  # no end of an epoch hands them on
            self.trackers.tell({name: self.metrics.values[name] for name in metrics}, self.position.steps)
        if self.world_size == 1:
            return
        mine = self.metrics
        values = {name: mine.values[name] for name in metrics if name not in how}
        counts = [name for name, value in values.items() if self.variables.counts_samples(value)]
        mine.ways |= dict.fromkeys(counts, "sum")
        for name, value in values.items():
            mine.parts.pop(name, None)
            if isinstance(value, float) and (part := self.variables.part_of(value)) is not None:
                mine.parts[name] = part
            mine.over.pop(name, None)
            if (over := self.mean_over(value)) is not None:
                mine.over[name] = over

    def combine(self, value: Any, how: str) -> Any:
        in_batch = self.step.running is not None
        if in_batch:
            self.watch.keep_all()
        while True:
            try:
                if self.group is not None:
                    self.group.place = ("call of coadapt.combine",)
                combined = super().combine(value, how)
                self.variables.note_combined(combined)
                return combined
            except GroupBroken:
                if in_batch:  # the batch is done again as a whole, so what comes of it now counts for nothing
                    self.gradients.give_up()
                    return combine([value], [1.0], how)
                self.membership.recover()

    def mean_over(self, value: Any) -> float | None:
        return self.variables.mean_over(value)

    # --- batches and their parts ----------------------------------------------------------------------------

    def control_point(self) -> bool:
        return self.control.pass_through()

    def enter_loop(self, unit: Unit) -> Generator[Any, None, Unit]:
        return self.catching_up.enter_loop(unit)

    def arrive(self) -> None:
        self.catching_up.arrive()

    def open_unit(self, unit: Unit) -> None:
        self.variables.open_unit(unit)

    def before_part(self, part: Part) -> None:
        self.variables.before_part(part)

    def part_over(self) -> None:
        self.variables.part_over()

    def after_part(self, part: Part) -> None:
        self.variables.after_part(part)

    def after_loop(self) -> None:
        group = self.group
        try:
            if group is not None and not group.broken:
                group.place = ("end of the loop over the data",)
                self.same.sync_buffers()
        except GroupBroken:
            pass  # whatever asks the group next finds out
        self.variables.after_loop()

    def measures_noise(self) -> bool:
        return self.noise_schedule.next_is_measured()

    def step_undone(self) -> None:
        self.variables.undo_batches()

    def script_step_begins(self) -> None:
        self.variables.begin_step()

    def script_step_again(self) -> None:
        self.variables.undo_step()
        self.control_point()

    def found_out(self) -> None:
        self.reports.send()

    def kept_beside(self) -> Sequence[Kept]:
        return self.models_beside()  # variables are put back with each batch that is undone

    def mark_rows(self) -> Rows:
        return self.variables.mark_rows()

    # --- epochs and steps -----------------------------------------------------------------------------------

    def begin_script(self) -> None:
        super().begin_script()
        self.catching_up.begin_script()

    def begin_pass(self) -> None:
        position = self.position
        before = position.pass_samples, position.pass_progress
        self.variables.begin_pass()
        super().begin_pass()
        if self.catching_up.begin_pass():
            position.pass_samples, position.pass_progress = before

    def end_pass(self, epoch: int) -> None:
        """Pass the end of the data together with all ranks, whose metrics decide whether training goes on.

        Each rank is past it before it talks to the others, so after a failure in here nobody comes back.
        """
        if self.position.epoch != epoch:
            return  # this rank took over the state of one that was past it
        super().end_pass(epoch)
        self._meet("end of the epoch")
        self.gradients.timer.regrouped()
        self.control.come_soon()
        self.fusing.choose()
        if self.peers.saves and self.completed:
            self.checkpoints.save()
        elif self.peers.saves and self.checkpoints.at_pass_end:
            self.checkpoints.try_to_save()
        self.variables.own.forget_as_one()
        self.reports.send()

    def end_script_step(self) -> None:
        super().end_script_step()
        if self.peers.saves and self.completed:
            self.checkpoints.save()

    def _meet(self, where: str) -> None:
        """Combine what was reported, so that all decide alike whether the target is reached."""
        group = self.group
        try:
            if group is None or group.broken:
                raise GroupBroken
            group.place = (where,)
            if self.meeting.combine(group):
                self.position.ended = True
                return
            self.position.target_reached = self.meeting.target_reached
            self.same.sync_buffers()
            if self.checkpoints.at_pass_end and self.checkpoints.store is not None:
                self.variables.look_as_one()
        except GroupBroken:
            self.membership.recover()

    # --- the end of the script ------------------------------------------------------------------------------

    @property
    def leaving(self) -> Leaving | None:
        """The exception that unwinds the script, though the script may catch it; None while this process stays."""
        return self.membership.leaving

    @property
    def disagreement(self) -> str:
        """How replicas were found to differ; what they trained then is nobody's model."""
        return self.group.disagreement if self.group is not None else ""

    @property
    def counts(self) -> bool:
        """Whether the script has asked for epochs or steps."""
        return self.loop.epoch_count is not None or self.loop.step_count is not None

    @property
    def done(self) -> bool:
        """Whether all that was asked for is done; else the script ends by itself."""
        return self.completed and not self.position.ended

    @property
    def where(self) -> str:
        """How far the training is, in words."""
        return self.progress.where

    def finish(self) -> None:
        """Combine what was reported last, and keep the state, because the script has come to its end.

        Where all replicas have come to it, they do this together. Where only rank 0 has, what it decided holds
        for all.
        """
        if self._finished:
            return
        self._finished = True
        group = self.group
        try:
            if group is not None:
                group.leave_loop(f"its loop at {self.where}")
                group.place = ("leaves",)
                self.meeting.combine(group, leaves=True)
        except (GroupBroken, Disagreement):
            self.metrics.combined = {**self.metrics.combined, **self.metrics.values}
        if self.peers.saves and self.position.ended:
            self.checkpoints.try_to_save()
        self.reports.send()
