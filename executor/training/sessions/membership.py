"""Lets a managed process join groups, leave them, and find the next one when its group breaks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from torch.distributed import Store

from ....core.batch_plan import BatchPlan
from ....core.training_config import TrainingConfig
from ....estimators.pace import Pace
from ....estimators.profile_plan import largest_local_bsz
from ...protocol import messages
from ...protocol.messages import Join, Leave, Stop
from ..checks.batch_watch import BatchWatch
from ..collective.group import Abandoned, Group, GroupBroken, Stores, Superseded, leave_group
from ..collective.sharded_group import ShardedGroup
from ..gradients.gradients import Gradients
from ..gradients.noise_meter import NoiseSchedule
from ..gradients.parameter_list import spans_gpus
from ..state.checkpoint_errors import StorageError
from ..state.prepared import Prepared
from .channel import Channel
from .loop_state import LoopState
from .peers import Peers
from .same_parameters import SameParameters
from .sample_counts import SampleCounts
from .session_checkpoints import SessionCheckpoints
from .session_reports import SessionReports
from .session_variables import SessionVariables
from .state_handover import StateHandover
from .step_scale import StepScale

STOPS = 1 << 40  # stands for a `Stop`, beside numbers of generations


class Leaving(BaseException):
    """Unwinds the script when this process leaves the job; no Exception, since a script should not catch it.

    `refused`: the storage's error where the state was to be saved and could not be.
    """

    def __init__(self, saved: str | None = None, refused: StorageError | None = None) -> None:
        super().__init__("this process leaves the job")
        self.saved, self.refused = saved, refused


@dataclass(eq=False)
class Membership:
    """Follows the executor's `Join` and `Leave` commands. `pace` is set on emulated nodes only."""

    config: TrainingConfig
    channel: Channel
    prepared: Prepared
    gpu_type: str
    pace: Pace | None
    loop: LoopState
    samples: SampleCounts
    scale: StepScale
    peers: Peers
    gradients: Gradients
    noise_schedule: NoiseSchedule
    watch: BatchWatch
    same: SameParameters
    variables: SessionVariables
    handover: StateHandover
    checkpoints: SessionCheckpoints
    reports: SessionReports

    def __post_init__(self) -> None:
        self.generation = -1  # the newest one that was tried
        self.leaving: Leaving | None = None  # a script may catch it all the same
        self._stores = Stores()

    def await_command(self, after: int | None = None) -> Join | Leave:
        """Wait for a group that is newer than `after`, or than the last one. Raises `Leaving` at a `Stop`."""
        command = self.channel.wait_for_membership(self.generation if after is None else after)
        command = self._same_in_replica(command)
        if isinstance(command, Stop):
            save, replicas = command.save and self.handover.live, self.handover.replicas_before
            if save and replicas > 1 and not self.variables.own.known_as_one:
                self.variables.own.look_as_one(None, self.samples.since, replicas=replicas)
            self.leave(save)
        assert isinstance(command, Join | Leave)
        return command

    def _same_in_replica(self, command: Join | Leave | Stop) -> Join | Leave | Stop:
        """Return the newest command that a process of this replica has, which all of them obey together."""
        shards = self.prepared.shards
        while shards is not None:
            mine = STOPS if isinstance(command, Stop) else command.generation
            told = [number for (number,) in shards.told_by_all([mine])]
            newest = max(told)
            if min(told) == newest:
                break
            if mine < newest:
                command = self.channel.wait_for_membership(newest - 1)
        return command

    def recover(self) -> None:
        """Tell once that the group broke, and await the next one. Raises `Abandoned` where there will be none."""
        if self.leaving is not None:
            raise self.leaving
        if self.peers.group is not None and self.peers.group.abandoned:
            raise Abandoned
        self.gradients.forget_step()
        self._tell_broken(self.generation)
        self.follow(self.await_command())

    def follow(self, command: Join | Leave) -> None:
        """Join the newest group there is, or leave."""
        while True:
            if isinstance(command, Leave):
                self.generation = command.generation
                self.leave(command.save)
            assert isinstance(command, Join)
            self.generation = command.generation
            try:
                self._join(command)
                return
            except Superseded:
                if self.channel.aborted(command.generation):
                    self._tell_broken(command.generation)
            except GroupBroken:
                self._tell_broken(command.generation)
            command = self.await_command()

    def leave(self, save: bool) -> None:
        """Leave the job. Raises `Leaving`."""
        live, group = self.handover.live, self.peers.group
        saved, refused = None, None
        try:
            saved = self.checkpoints.save() if save and live else None
        except StorageError as error:
            refused = error
        if live and group is not None and group.rank == 0:
            self.reports.send()
        self._detach()
        leave_group()
        self.leaving = Leaving(saved, refused)
        raise self.leaving

    def on_abort(self, generation: int) -> None:
        """End the group where the executor has given it up. The command thread calls this."""
        group = self.peers.group
        if group is not None and group.generation <= generation:
            group.fail()

    def _tell_broken(self, generation: int) -> None:
        self.channel.send(messages.Broken(generation, self.loop.position.steps))

    def _detach(self) -> None:
        self.gradients.detach()
        if isinstance(self.peers.group, ShardedGroup):
            self.peers.group.end()
        self.peers.group = None

    def _join(self, join: Join) -> None:
        """Form a group with the others, and take over the state of the most advanced one. Raises GroupBroken."""
        self._detach()

        def given_up() -> bool:
            generation = join.generation
            return self.channel.aborted(generation) or self.channel.membership(generation) is not None

        group = self.peers.group = self._form(join, given_up)
        if self.channel.aborted(join.generation):
            group.fail()
            if group.shards is None:
                raise GroupBroken
        source = self.handover.take_over(group, join)
        self.scale.plan = join.batch or self._default_plan(group.replicas)
        self.gradients.attach(group)
        self.watch.regrouped()
        self.same.regrouped()
        self.handover.live = True
        self.noise_schedule.begin_again()
        self.gradients.timer.regrouped()
        self.samples.since = 0
        if self.pace is not None:
            self.pace.forgive()
        _export_ranks(join)
        self.channel.send(messages.Joined(join.generation, self.loop.position.steps, source))
        if (least := self.scale.least_local_bsz) > 1:
            self.peers.tell(
                f"the model normalises over its batch: each replica is given at least {least} samples, unless "
                "the job's fewest replicas are too many for that; nn.SyncBatchNorm has no such floor"
            )

    def _form(self, join: Join, given_up: Callable[[], bool]) -> Group:
        device, shards = self.prepared.device, self.prepared.shards

        def store() -> Store:
            try:
                return self._stores.get(join.store_host, join.store_port)
            except (RuntimeError, OSError) as error:
                raise GroupBroken(str(error)) from None

        if shards is not None:
            return ShardedGroup.form_beside(join, device, store, shards, given_up)
        spans = any(map(spans_gpus, self.prepared.modules))
        return Group.form(join, device, store(), given_up, spans)

    def _default_plan(self, replicas: int) -> BatchPlan:
        """Return the batch plan of the initial batch size, in as few passes as local limits allow."""
        script_batch = self.scale.script_batch
        each = -(-script_batch // replicas)
        limit = largest_local_bsz(self.config, self.gpu_type, self.pace)
        passes = -(-each // limit) if limit else 1
        return BatchPlan(-(-each // passes), passes - 1, script_batch)


def _export_ranks(join: Join) -> None:
    """Set what torchrun would tell the script."""
    os.environ.update(
        RANK=str(join.rank),
        WORLD_SIZE=str(join.world_size),
        LOCAL_WORLD_SIZE=str(join.local_world_size),
    )
