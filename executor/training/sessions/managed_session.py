"""A training process of a Coadapt job: joins and leaves groups, saves, reports, as its executor commands.

All ranks run the same code and act on commands only at control points: before a batch, when the script has made a
step of all gradients so far, at most about every 50 ms. There rank 0 says what to do and when the next control
point is.
"""

from __future__ import annotations

import itertools
import os
import struct
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from ....core.batch_plan import BatchPlan
from ....core.completion import fraction_done
from ....core.reports import Habits, Progress
from ....core.training_config import Adaptivity, TrainingConfig
from ....estimators.pace import Pace
from ....estimators.profile_plan import largest_local_bsz
from ...protocol import messages
from ...protocol.messages import Join, Leave, Save, SetBatch, Stop
from ...protocol.script_errors import SHARE_DECISIONS
from ..checks.batch_watch import Kept, Rows
from ..collective.broadcast import broadcast_state
from ..collective.group import (
    Abandoned,
    Disagreement,
    Group,
    GroupBroken,
    Stores,
    Superseded,
    backend_for,
    leave_group,
)
from ..data.batches import Unit, another
from ..data.loop_habits import LoopHabits
from ..data.units import Part
from ..gradients.gradient_noise import is_adam_type
from ..gradients.gradients import PartPlan, spans_gpus
from ..losses.loss_kind import Kind
from ..state.beside import Beside, Followers, is_small
from ..state.checkpoint import CheckpointError, CheckpointStore
from ..state.prepared import Prepared
from ..state.step_backup import StepBackup
from ..state.training_state import as_current
from ..variables.own_variables import OwnVariables, share_of
from ..variables.rng import RandomState, capture_rng, restore_rng
from ..variables.script_classes import NotMade
from ..variables.script_frames import leave_out
from ..variables.script_sums import Given
from ..variables.seen_sums import SeenSums
from ..variables.whole_values import norms, rates_of
from .channel import Channel
from .group_session import GroupSession
from .metrics import combine, combine_reports

CONTROL_INTERVAL_S = 0.05
SAMPLE_INTERVAL_S = 2.0  # between two looks at whether replicas hold the same parameters
HEARTBEAT_INTERVAL_S = 1.0
MOST_COMBINED = 4096  # numbers of a pass that are known to be those of all replicas
# The noise is measured at every step at first and then at two in so many, which keeps its cost below 1 %.
NOISE_EVERY = 16
NOISE_FIRST = 48
# The first reports come after so long, and then twice as long: whoever waits for a job sees that it trains.
REPORT_FIRST_S = 2.0

_Taken = TypeVar("_Taken")


class Leaving(BaseException):
    """Unwinds the script when this process leaves the job. Not an Exception: a script should not catch it."""

    def __init__(self, saved: str | None = None) -> None:
        super().__init__("this process leaves the job")
        self.saved = saved


class Unfit(RuntimeError):
    """A newcomer cannot take over the state of those that train; one sentence for the script's owner."""


class _Act(IntEnum):
    GO_ON = 0
    REGROUP = 1
    SET_BATCH = 2
    SAVE = 3
    STOP = 4
    MEET = 5  # in a loop in steps: combine what was reported, and look at the target


class ManagedSession(GroupSession):
    """A training process of a Coadapt job."""

    def __init__(
        self, prepared: Prepared, config: TrainingConfig, channel: Channel, loss: Kind = Kind.UNKNOWN
    ) -> None:
        super().__init__(prepared, config, loss)
        self.channel = channel
        self.gpu_type = os.environ.get(messages.GPU_TYPE, "cpu")
        self.pace = Pace.from_json(os.environ.get(messages.PACE_JSON), os.environ.get(messages.GPU_TYPE, ""))
        url = os.environ.get(messages.CHECKPOINT_URL) or config.checkpoint.url
        self.checkpoints = CheckpointStore(url, config.checkpoint.keep) if url else None
        self.live = False  # holds the state of a run, not just the script's initial one
        self.variables = OwnVariables(
            [*prepared.modules, *prepared.companions],
            prepared.things(),
            prepared.ordering_generators(),
            prepared.reading_generators(),
        )
        for maker in prepared.makers():
            leave_out(maker)
        self._beside: Beside | None = None  # before the running batch
        self._beside_first: Beside | None = None  # before the first batch of the running step
        self._seen = SeenSums()
        self._combined: set[float] = set()  # numbers of all replicas, which the script has combined in this pass
        self._followers = Followers(prepared)
        self._several = False  # it takes several passes
        self._beside_step: Beside | None = None  # before the running step of a loop in steps
        self._little_beside = is_small(prepared) and bool(prepared.companions or prepared.users)
        self.habits = LoopHabits()
        self._replicas_before = 0
        self._of_peers = False  # what is taken over is of those that train, not of a checkpoint
        self._looked = False  # every rank has looked at a loop's habits
        self._finished = False
        self.leaving: Leaving | None = None  # which a script may catch all the same
        self._stores = Stores()
        self._generation = -1  # the newest one that was tried
        self._began = False  # the script's loop
        # A state that a script may change before its loop, which goes on from here all the same.
        self._taken_over: dict[str, Any] | None = None
        self._next_control = 0  # iteration of the next control point
        self._saved_s = self._reported_s = self._heartbeat_s = time.monotonic()
        self._report_after_s = REPORT_FIRST_S
        self._measured_steps = 0
        self._sampled, self._sampled_s = 0, 0.0
        channel.on_abort = self._on_abort
        self.state.extras["variables"] = self._variables_state, self.variables.load
        self.state.extras["accumulated"] = self._capture_accumulated, self._load_accumulated

    def start(self) -> None:
        """Say `Ready` and wait for a group. Raises `Leaving` when there will be none."""
        warm_up(self.device)
        self.channel.send(ready(self.prepared, self.script_batch, self.source.size, self.live))
        self._follow(self._await_membership())

    # --- the script's own variables ----------------------------------------------------------------------

    def begin_script(self) -> None:
        super().begin_script()
        self._began = True
        if self._taken_over is not None:
            self.state.put_back(self._taken_over, self.rank)
        self.variables.begin()

    def report(self, metrics: dict[str, Any], how: dict[str, str]) -> None:
        super().report(metrics, how)
        if self.world_size > 1:
            values = {name: self.metrics.values[name] for name in metrics if name not in how}
            # Counts that are alike on all replicas by chance would be taken for one count of all.
            own = {n: v for n, v in values.items() if isinstance(v, int) and v not in self._combined}
            counts = [name for name, value in own.items() if self.variables.counts_samples(value)]
            self.metrics.ways |= dict.fromkeys(counts, "sum")
            for name, value in values.items():
                self.metrics.parts.pop(name, None)
                if isinstance(value, float) and (part := self._part_of(value)) is not None:
                    self.metrics.parts[name] = part
                self.metrics.over.pop(name, None)
                if (over := self._mean_over(value)) is not None:
                    self.metrics.over[name] = over

    def _mean_over(self, value: Any) -> float | None:
        if not isinstance(value, float):
            return None
        if (count := self.variables.mean_over(value)) is not None:
            return count
        # What was added up before replicas came is the same on all of them.
        batches = self.batch_count() if self.source.size is not None else 0
        of_batches = self.variables.is_mean_of_batches(value, batches)
        return float(self._samples_since) if of_batches else None

    def _part_of(self, value: float) -> float | None:
        """As `OwnVariables.part_of` of a sum that is divided by the number of all samples, as by `len(data)`."""
        size = self.source.size
        if size is None:
            return None
        return self.variables.part_of(value, size, self._local_samples, self._combined)

    def _variables_state(self) -> dict[str, Any]:
        if left := self.variables.too_large:
            self.tell(
                f"{', '.join(sorted(left))} of the script is too large to be kept in checkpoints and handed to "
                "newcomers; give prepare an object with state_dict and load_state_dict"
            )
        return self.variables.state(self._in_loop, self.position.pass_samples)

    def _begin_pass(self) -> None:
        before = self.position.pass_samples, self.position.pass_progress
        self._beside, self._combined = None, set()
        super()._begin_pass()
        if self._take_variables(self.variables.begin_pass):
            self.position.pass_samples, self.position.pass_progress = before

    def _take_variables(self, begin: Callable[[int, int], _Taken]) -> _Taken:
        """Variables are taken over, if there are any to take; a newcomer that cannot do that says why."""
        try:
            return begin(self.rank, self.world_size)
        except NotMade as why:
            if not self._of_peers:
                raise
            raise Unfit(f"the job cannot grow: {why}") from None

    def _enter_loop(self, unit: Unit) -> Generator[Any, None, Unit]:
        if self._is_behind:
            unit = yield from self._catch_up(unit)
            self._arrive()
        return unit

    @property
    def _is_behind(self) -> bool:
        return self.by_next and self.step_count is None and self._given < self.position.batch

    def _arrive(self) -> None:
        taken, self._taken_over = self._taken_over, None
        if taken is not None and taken["variables"]["in_pass"]:
            self.state.put_back(taken, self.rank)
        samples = self._take_variables(self.variables.begin_loop)
        if samples is not None:
            self._local_samples = self._samples_apart = samples

    def _catch_up(self, unit: Unit) -> Generator[Any, None, Unit]:
        """Let a loop that counts what it takes run to where the others are: on one batch, and for nothing."""
        batch = unit.fetch()
        before = StepBackup(self.prepared), Beside(self.prepared, full=True), capture_rng()
        self._step.void = self.in_iteration = True
        self.sides.catch_up()
        for _ in range(self._given, self.position.batch):
            self.gradients.begin_part(PartPlan(1, 1, visible=False, void=True))
            yield another(batch, deep=True)
            self._given += 1
        self._step.void = self.in_iteration = False
        step, beside, rng = before
        step.restore()
        beside.restore()
        restore_rng(rng)
        self.schedule_calls = [0] * len(self.schedule_calls)
        data = itertools.chain([batch], (unit.fetch() for _ in unit.parts[1:]))
        return replace(unit, fetch=lambda: next(data))

    def _open_unit(self, unit: Unit) -> None:
        self._several = several = len(unit.parts) > 1
        first = not self._step.ahead
        self.variables.begin_batch(self.world_size > 1 or self._watch.compares_whole, several, first)
        earlier = self._beside if first or self._beside is not self._beside_first else None
        self._beside = None
        if several or self.world_size > 1:
            full = several or self._little_beside
            self._beside = Beside(self.prepared, full, several, earlier, self._followers.look())
        if first:
            self._beside_first = self._beside

    def _before_part(self, part: Part) -> None:
        self.gradients.keeps_loss = self.variables.looks
        if self.variables.looks:
            self._seen.begin(part.samples)
        self.variables.begin_part(not self.partial, not part.counts, lambda: self.trained)

    def _close_part(self) -> None:
        self._seen.end()
        super()._close_part()

    def _end_loop(self) -> None:
        self._seen.end()
        super()._end_loop()
        if self.world_size > 1:
            self.variables.loop_ended()

    def _after_part(self, part: Part) -> None:
        batch = self._step.batch
        given = Given(
            part.samples,
            self._step.ahead[-1].samples,
            lambda counts: [*self._added_losses(part.samples), *self._seen.over([part.samples, *counts])],
            lambda: set(_sizes_in(batch)),
        )
        self.variables.end_part(
            given,
            not self.partial,
            self._whole_values,
            last_alone=self.sides.looked_aside,
        )
        self._seen.drop()
        if self._several and self._beside is not None:
            self._beside.pass_done(part.samples, not self.partial)

    def _whole_values(self) -> list[float]:
        return [*norms(), *rates_of(self.prepared.optimizers, self.prepared.schedulers)]

    def _added_losses(self, samples: int) -> list[float]:
        """What a sum of the last loss over this part's samples, or over what it counts, would have grown by."""
        loss, term = self.gradients.loss, self.gradients.loss_term
        if loss is None or loss.numel() != 1 or 1 < samples == self.position.per_step:
            return []  # a loss divided by as many batches, times the samples, would be the loss itself
        value = float(loss) / self._loss_scale()
        added = [value * samples]
        if term is not None and term.weight is not None:
            added.append(value * float(term.weight))
        elif term is not None and term.kind is Kind.SUM:
            added.append(value)
        return added

    def kept_beside(self) -> Sequence[Kept]:
        return self._models_beside()  # variables are put back with each batch that is undone

    def mark_rows(self) -> Rows:
        return self.variables.rows(self.source.size) if self.source.size else ()

    def _undo_step(self) -> None:
        super()._undo_step()
        self.variables.undo_batches()
        if self._beside_first is not None:
            self._beside_first.restore()

    def _look_as_one(self) -> None:
        group = self.group
        if group is not None and group.world_size > 1:
            self.variables.look_as_one(group, self._samples_since)

    def _capture_accumulated(self) -> dict[int, Any]:
        return self.gradients.accumulated() if self._step.unstepped else {}

    def _load_accumulated(self, gradients: dict[int, Any]) -> None:
        self.gradients.load_accumulated(gradients)
        self._step.unstepped = bool(gradients)

    # --- control points --------------------------------------------------------------------------------

    def _control_point(self) -> bool:
        if self.group is not None and self.group.disagreement:
            self.group.differ(self.group.disagreement)  # the script has caught it
        self._tell()
        self._look_at_habits()
        changed = False
        while True:
            group = self.group
            try:
                if group is None or group.broken:
                    self._recover()
                    changed = True
                    continue
                self._align(group)
                self._look_at_parameters()
                waits = self.position.iterations < self._next_control
                if self._step.unstepped or (waits and (group.world_size > 1 or not self.channel.waiting)):
                    return changed
                group.place = "batch", self.position.batch, self.position.epoch
                act, argument, plan, again = self._agree(group)
                if act is _Act.GO_ON:
                    return changed
                changed |= self._act(act, argument, plan)
                if not again and act is not _Act.REGROUP:
                    return changed
            except GroupBroken:
                continue

    def _agree(self, group: Group) -> tuple[_Act, int, BatchPlan, bool]:
        """What rank 0 decided, and whether to ask again at once."""
        words = [*self._decide(group), *self._sample_of_parameters(group)] if group.rank == 0 else [0] * 8
        if group.rank != 0:
            self.channel.discard(SetBatch, Save)  # for rank 0; must not surface when this rank becomes it
        act, argument, local_bsz, accumulation, batch_size, following, number, sample = group.broadcast_ints(words)
        if number >= 0 and group.rank != 0:
            self._compare_parameters(group, number, sample)
        self._next_control = self.position.iterations + following
        return _Act(act), argument, BatchPlan(local_bsz, accumulation, batch_size or None), following == 0

    def _decide(self, group: Group) -> list[int]:
        plan = self.plan
        act, argument = _Act.GO_ON, 0
        membership = self.channel.membership(group.generation)
        if membership is not None:
            act, argument = _Act.REGROUP, membership.generation
        elif (stop := self.channel.take(Stop)) is not None:
            act, argument = _Act.STOP, int(stop.save)
        elif (batch := self.channel.take(SetBatch)) is not None:
            act, plan = _Act.SET_BATCH, batch.batch
        elif self.channel.take(Save) is not None or self._checkpoint_due():
            act = _Act.SAVE
        elif self._has_news:
            act = _Act.MEET
        following = 0 if self.channel.waiting else self._control_distance()
        return [act, argument, plan.local_bsz, plan.accumulation, plan.batch_size or 0, following]

    @property
    def _has_news(self) -> bool:
        """Whether a loop in steps, which no end of an epoch interrupts, has reported its target."""
        target = self.config.target
        return self.step_count is not None and target is not None and target.metric in self.metrics.fresh

    def _sample_of_parameters(self, group: Group) -> tuple[int, int]:
        """Now and then the number of a parameter and what it looks like, for the others to compare; else -1."""
        now = time.monotonic()
        if group.world_size == 1 or now - self._sampled_s < SAMPLE_INTERVAL_S:
            return -1, 0
        self._sampled_s = now
        self._sampled += 1
        parameters = self.prepared.parameters()
        number = self._sampled % len(parameters)
        return number, sample_of(parameters[number])

    def _compare_parameters(self, group: Group, number: int, sample: int) -> None:
        parameter = self.prepared.parameters()[number]
        if not alike(sample, sample_of(parameter)):
            name = self.prepared.name_of(parameter)
            group.differ(
                f"{name} is not the same on replicas 0 and {group.rank} in batch {self.position.batch} of epoch "
                f"{self.position.epoch}; something changes it that is not made of combined gradients, such as a "
                "value of one replica's own samples"
            )

    def _control_distance(self) -> int:
        """Steps to the next control point: about `CONTROL_INTERVAL_S`."""
        step_s = self.timer.last_step_s() or CONTROL_INTERVAL_S
        return max(1, min(1000, round(CONTROL_INTERVAL_S / max(step_s, 1e-6))))

    def _act(self, act: _Act, argument: int, plan: BatchPlan) -> bool:
        """Do what was agreed on. True when group, batch plan or position changed."""
        match act:
            case _Act.REGROUP:
                self._look_as_one()
                self._sync_buffers()
                self._follow(self._await_membership(argument - 1))
                return True
            case _Act.SET_BATCH:
                changed = plan != self.plan
                self.plan = plan
                if changed:
                    self.timer.regrouped()
                return changed
            case _Act.SAVE:
                self._look_as_one()
                self._sync_buffers()
                if self.rank == 0:
                    self._try_to_save()
                self.variables.forget_as_one()
                self.timer.regrouped()
            case _Act.MEET:
                group = self.group
                assert group is not None
                if not self._combine_metrics(group):
                    self.position.target_reached = self._target_reached()
            case _Act.STOP:
                self._look_as_one()
                self._leave(save=bool(argument) and self.rank == 0)
        return False

    def _checkpoint_due(self) -> bool:
        minutes = self.config.checkpoint.every_minutes
        due = minutes is not None and time.monotonic() - self._saved_s >= minutes * 60
        return due and self.checkpoints is not None

    def _tell(self) -> None:
        now = time.monotonic()
        if now - self._heartbeat_s >= HEARTBEAT_INTERVAL_S:
            self._heartbeat_s = now
            self.channel.send(messages.Heartbeat(self._generation, self.position.steps))
        if now - self._reported_s >= min(self.config.report_interval_s, self._report_after_s):
            self._report_after_s *= 2
            self.send_report()

    # --- groups ----------------------------------------------------------------------------------------

    def _await_membership(self, after: int | None = None) -> Join | Leave:
        command = self.channel.wait_for_membership(self._generation if after is None else after)
        if isinstance(command, Stop):
            save = command.save and self.live
            if save and self._replicas_before > 1 and not self.variables.known_as_one:
                self.variables.look_as_one(None, self._samples_since, replicas=self._replicas_before)
            self._leave(save)
        assert isinstance(command, Join | Leave)
        return command

    def _recover(self) -> None:
        """The group broke: say so once, await the next one. Raises `Abandoned` where there will be none."""
        if self.leaving is not None:
            raise self.leaving
        if self.group is not None and self.group.abandoned:
            raise Abandoned
        self.gradients.forget_step()
        self.channel.send(messages.Broken(self._generation, self.position.steps))
        self._follow(self._await_membership())

    def _follow(self, command: Join | Leave) -> None:
        """Join the newest group there is, or leave."""
        while True:
            if isinstance(command, Leave):
                self._generation = command.generation
                self._leave(command.save)
            assert isinstance(command, Join)
            self._generation = command.generation
            try:
                self._join(command)
                return
            except Superseded:
                if self.channel.aborted(command.generation):
                    self.channel.send(messages.Broken(command.generation, self.position.steps))
            except GroupBroken:
                self.channel.send(messages.Broken(command.generation, self.position.steps))
            command = self._await_membership()

    def _join(self, join: Join) -> None:
        self._detach()

        def given_up() -> bool:
            generation = join.generation
            return self.channel.aborted(generation) or self.channel.membership(generation) is not None

        try:
            store = self._stores.get(join.store_host, join.store_port)
        except (RuntimeError, OSError) as error:
            raise GroupBroken(str(error)) from None
        spans = any(map(spans_gpus, self.prepared.modules))
        group = Group.form(join, self.device, store, given_up, spans)
        self.group = group
        if self.channel.aborted(join.generation):
            group.fail()
            raise GroupBroken
        source = self._take_over_state(group, join)
        self._replicas_before = join.world_size
        self.plan = join.batch or self._default_plan(join.world_size)
        self.gradients.attach(group)
        self._watch.regrouped()
        self._held = self.prepared.held_count()
        self.live = True
        self._next_control = self.position.iterations
        self._measured_steps = 0
        self.timer.regrouped()
        self._samples_since = 0
        if self.pace is not None:
            self.pace.forgive()
        _export_ranks(join)
        self.channel.send(messages.Joined(join.generation, self.position.steps, source))
        if (least := self.least_local_bsz) > 1:
            self.tell(
                f"the model normalises over its batch: each replica is given at least {least} samples, unless "
                "the job's fewest replicas are too many for that; nn.SyncBatchNorm has no such floor"
            )

    def _take_over_state(self, group: Group, join: Join) -> str:
        """All ranks continue from the most advanced live one; returns where this rank's state came from."""
        position = self.position
        ranks = group.gather_ints(
            [
                int(self.live),
                *position.key,
                position.iterations,
                int(position.target_reached),
                int(self.variables.known_as_one),
                self._replicas_before,
                *map(int, self.learned),
            ]
        )
        for words in ranks:
            self.learn([bool(word) for word in words[9:]])
        progress = [words[:7] for words in ranks]
        best = max(range(group.world_size), key=lambda rank: (progress[rank], -rank))
        if not ranks[best][0]:
            return self._start_state(group)
        here = progress[group.rank] == progress[best]
        seen_as_one = all(words[7] for words in ranks if words[:7] == progress[best])
        before = ranks[best][8]
        if not seen_as_one and (group.world_size > 1 or before > 1):
            self.variables.look_as_one(group, self._samples_since, here, before)
        if not all(words == progress[best] for words in progress):
            state = broadcast_state(group, self.state.capture() if group.rank == best else None, best)
            self._apply_state(group, state, here)
        if here and group.world_size + before > 2:
            self.variables.take_share(join.rank, join.world_size)
            self._local_samples = share_of(position.pass_samples, join.rank, join.world_size)
            self._samples_apart = self._local_samples
        self.variables.forget_as_one()
        return "peer"

    def _apply_state(self, group: Group, state: dict[str, Any], here: bool) -> None:
        """Newcomers take the state over; one whose script has become another one cannot, and says so to all."""
        why = ""
        if not here:
            try:
                self._take_over(state, group.rank)
                self._of_peers = True
            except ValueError as error:
                why = str(error)
        fits = group.gather_ints([not why])
        if why:
            raise Unfit(f"the job cannot grow: {why.removeprefix('checkpoint: ')}")
        if not all(fit for (fit,) in fits):
            group.fail()
            raise GroupBroken

    def _start_state(self, group: Group) -> str:
        """Nobody trained yet: rank 0 reads the newest checkpoint, or its initial state counts for all."""
        found = self.checkpoints.load_newest(self.device) if group.rank == 0 and self.checkpoints else None
        (restored,) = group.broadcast_ints([int(found is not None)])
        state = (found[1] if found is not None else self.state.capture()) if group.rank == 0 else None
        state = broadcast_state(group, state, 0) if group.world_size > 1 else state
        if state is not None and restored:
            self._take_over(state, group.rank)
        elif state is not None and group.rank != 0:
            self.state.apply(state, group.rank)
        return "checkpoint" if restored else "fresh"

    def _take_over(self, state: dict[str, Any], rank: int) -> None:
        self.state.apply(state, rank)
        self._taken_over = None if self._began else as_current(state)

    def _default_plan(self, replicas: int) -> BatchPlan:
        """The initial batch size, in as few passes as local limits allow."""
        each = -(-self.script_batch // replicas)
        limit = largest_local_bsz(self.config, self.gpu_type, self.pace)
        passes = -(-each // limit) if limit else 1
        return BatchPlan(-(-each // passes), passes - 1, self.script_batch)

    def _detach(self) -> None:
        self.gradients.detach()
        self.group = None

    def _on_abort(self, generation: int) -> None:
        """Called by the command thread."""
        group = self.group
        if group is not None and group.generation <= generation:
            group.fail()

    def _leave(self, save: bool) -> None:
        saved = self._save() if save and self.live else None
        if self.live and self.group is not None and self.group.rank == 0:
            self.send_report()
        self._detach()
        leave_group()
        self.leaving = Leaving(saved)
        raise self.leaving

    # --- durable state and reports ---------------------------------------------------------------------

    def _save(self) -> str | None:
        if self.checkpoints is None:
            return None
        path = self.checkpoints.save(self.state.capture(), self.position.steps)
        self._saved_s = time.monotonic()
        self.channel.send(messages.Saved(path, self.position.steps))
        return path

    def _try_to_save(self) -> None:
        """A checkpoint on the way may fail as storage does for a moment: the last good one stays."""
        try:
            self._save()
        except CheckpointError as error:
            print(f"coadapt: {error}; training goes on", file=sys.stderr, flush=True)
            self._saved_s = time.monotonic()

    def _sync_buffers(self) -> None:
        """Running statistics differ from rank to rank; rank 0's are the ones that are kept."""
        if self.group is not None:
            self.group.broadcast_tensors(self.prepared.buffers(), 0)

    def _after_loop(self) -> None:
        group = self.group
        try:
            if group is not None and not group.broken:
                group.place = ("end of the loop over the data",)
                self._sync_buffers()
        except GroupBroken:
            pass  # whatever asks the group next finds out

    def _end_epoch(self, epoch: int) -> None:
        """All ranks pass the end of a pass over the data together; their metrics decide whether training goes on.

        Each rank is past it before it talks to the others, so that after a failure in here nobody comes back.
        """
        if self.position.epoch != epoch:
            return  # this rank took over the state of one that was past it
        super()._end_epoch(epoch)
        self._meet("end of the epoch")
        self.timer.regrouped()
        self._next_control = self.position.iterations
        self._choose_batches()
        if self.rank == 0 and self.completed:
            self._save()
        elif self.rank == 0 and self.config.checkpoint.at_epoch_end:
            self._try_to_save()
        self.variables.forget_as_one()
        self.send_report()

    def _begin_script_step(self) -> None:
        super()._begin_script_step()
        if self.world_size > 1 and not self._step.ahead:
            self.variables.begin_step()
            self._beside_step = Beside(self.prepared, full=self._little_beside)

    def _do_step_again(self) -> None:
        super()._do_step_again()
        self.variables.undo_step()
        if self._beside_step is not None:
            self._beside_step.restore()
        self._control_point()

    def _end_script_step(self) -> None:
        super()._end_script_step()
        if self.rank == 0 and self.completed:
            self._save()

    def _meet(self, where: str) -> None:
        """Combine what was reported, and let all decide alike whether the target is reached."""
        group = self.group
        try:
            if group is None or group.broken:
                raise GroupBroken
            group.place = (where,)
            if self._combine_metrics(group):
                self.position.ended = True
                return
            self.position.target_reached = self._target_reached()
            self._sync_buffers()
            if self.config.checkpoint.at_epoch_end and self.checkpoints is not None:
                self._look_as_one()
        except GroupBroken:
            self._recover()

    def _combine_metrics(self, group: Group, leaves: bool = False) -> bool:
        """Combine what was reported; returns whether rank 0 leaves its loop, which holds for all."""
        mine = self.metrics
        whole = (
            self.source.size is None or self.position.last_samples >= self.batch_count() * self.script_batch * 0.99
        )
        counts = self.position.counted or self.habits.counts or self.one_pass or not whole
        told = {
            "report": (dict(mine.values), dict(mine.ways), self._samples_weight(), dict(mine.over)),
            "samples": self._local_samples,
            "parts": dict(mine.parts),
            "counts": counts,
            "looked": self.habits.looked,
            "leaves": leaves,
        }
        everyone = group.gather_objects(told)
        self.position.counted = any(one["counts"] for one in everyone)
        self._looked = all(one["looked"] for one in everyone)
        parts = dict(set.intersection(*(set(one["parts"].items()) for one in everyone)))
        told_reports = [one["report"] for one in everyone]
        reports = [(values, dict.fromkeys(parts, "sum") | ways, *rest) for values, ways, *rest in told_reports]
        combined, odd = combine_reports(reports, [one["samples"] for one in everyone])
        combined |= {n: combined[n] - whole * (len(everyone) - 1) for n, whole in parts.items() if whole}
        for sentence in odd:
            self.tell(sentence)
        mine.combined, mine.fresh = combined, set()
        leaving = [rank for rank, one in enumerate(everyone) if one["leaves"]]
        if leaving and leaving[0] != 0:
            group.differ(
                f"replica {leaving[0]} has left its loop at {self.where}, replica 0 goes on; {SHARE_DECISIONS}"
            )
        return bool(leaving)

    def _target_reached(self) -> bool:
        target = self.config.target
        value = self.metrics.combined.get(target.metric) if target is not None else None
        return target is not None and value is not None and target.reached(value)

    @property
    def disagreement(self) -> str:
        """How replicas were found to differ; what they trained then is nobody's model."""
        return self.group.disagreement if self.group is not None else ""

    @property
    def done(self) -> bool:
        """Whether all that was asked for is done; else the script ends by itself."""
        return self.completed and not self.position.ended

    @property
    def where(self) -> str:
        """How far the training is, in words."""
        position = self.position
        if self.step_count is not None:
            return f"step {int(position.script_steps)} of {round(self.step_count)}"
        return f"epoch {int(self._epochs_done + 1e-6) + position.begun} of {round(self.epoch_count or 0)}"

    def finish(self) -> None:
        """The script has come to its end: combine what was reported last, and keep the state.

        Where all replicas have, they do it together. Where only rank 0 has, what it decided holds for all.
        """
        if self._finished:
            return
        self._finished = True
        group = self.group
        try:
            if group is not None:
                group.leave_loop(f"its loop at {self.where}")
                group.place = ("leaves",)
                self._combine_metrics(group, leaves=True)
        except (GroupBroken, Disagreement):
            self.metrics.combined = {**self.metrics.combined, **self.metrics.values}
        if self.rank == 0 and self.position.ended:
            self._try_to_save()
        self.send_report()

    def combine(self, value: Any, how: str) -> Any:
        in_batch = self._step.running is not None
        if in_batch:
            self._watch.keep_all()
        while True:
            try:
                if self.group is not None:
                    self.group.place = ("call of coadapt.combine",)
                combined = super().combine(value, how)
                if isinstance(combined, int | float) and len(self._combined) < MOST_COMBINED:
                    self._combined.add(combined)
                return combined
            except GroupBroken:
                if in_batch:  # which is done again as a whole: what comes of it now counts for nothing
                    self.gradients.give_up()
                    return combine([value], [1.0], how)
                self._recover()

    def _look_at_habits(self) -> None:
        if self._may_fuse:
            position = self.position
            self.habits.look(position.batch, self._rates(), bool(self.prepared.schedulers))

    @property
    def _may_fuse(self) -> bool:
        """Whether larger batches than the script's own are an option at all."""
        config = self.config
        adapts = config.adaptivity is Adaptivity.ADAPTIVE and (config.max_batch_size or 0) > self.script_batch
        return adapts and self.source.fusable and self.step_count is None and config.fuse_batches != "never"

    def _choose_batches(self) -> None:
        """After a pass that all have looked at: larger batches for a loop that was not seen to count its own."""
        position = self.position
        if position.whole and self._may_fuse and position.per_step == 1:
            always = self.config.fuse_batches == "always"
            position.whole = not (always or (self._looked and not position.counted))

    def found_out(self) -> None:
        self.send_report()

    def send_report(self) -> None:
        """Rank 0's measurements since the last report."""
        self._reported_s = time.monotonic()
        rows = self.timer.rows()
        group = self.group
        if group is None or group.rank != 0:
            return
        optimizer = self.prepared.optimizers[0]
        split = self.split
        self.channel.send(
            messages.Report(
                generation=group.generation,
                gpu_type=self.gpu_type,
                nodes=group.nodes,
                replicas=group.world_size,
                rows=rows,
                grad_sqr=self.noise.sqr if self.noise.settled else None,
                grad_var=self.noise.var if self.noise.settled else None,
                batch_size=self.full_batch_size,
                local_bsz=split.local_bsz,
                accumulation=split.passes * self._units_per_step - 1,
                lr=float(optimizer.param_groups[0]["lr"]) * self.lr_factor(optimizer),
                gain=self.gain,
                progress=self._progress(),
                metrics=self.metrics.combined or dict(self.metrics.values),
                habits=self._habits(),
            )
        )

    def _habits(self) -> Habits:
        position, weights = self.position, self.gradients.weights
        return Habits(
            per_step=position.per_step,
            whole_batches=position.whole,
            one_pass=self.one_pass,
            undivided=weights.whole or weights.counted or self.by_next,
            least_local_bsz=self.script_batch if weights.whole else self.least_local_bsz,
        )

    def _progress(self) -> Progress:
        position, count = self.position, self.epoch_count
        if self.step_count is not None:  # its steps count what is to be counted
            asked, progress, passes = self.step_count, position.script_steps, position.script_steps
        else:
            asked, progress, passes = count or 0, self.progress_epochs, self.passes_done
        return Progress(
            epoch=int(self._epochs_done + 1e-6),
            epochs=None if count is None else round(count),
            fraction=fraction_done(self.config.count, asked, progress, passes),
            steps=position.steps,
            samples=position.samples,
            progress_samples=position.progress_samples,
        )

    # --- measuring -------------------------------------------------------------------------------------

    def _measures_noise(self) -> bool:
        self._measured_steps += 1
        return self._measured_steps <= NOISE_FIRST or self._measured_steps % NOISE_EVERY < 2


def sample_of(parameter: Tensor) -> int:
    """What some elements of a parameter look like, as a whole number that travels."""
    some = parameter.detach().reshape(-1)[:4096].double()
    return struct.unpack("q", struct.pack("d", float(some.square().mean().sqrt() + some.mean())))[0]


def alike(first: int, second: int) -> bool:
    """Whether two samples are those of the same parameter, but for the round-off of different machines."""
    a, b = (struct.unpack("d", struct.pack("q", sample))[0] for sample in (first, second))
    if a != a or b != b:
        return a != a and b != b
    return abs(a - b) <= 1e-3 * max(abs(a), abs(b)) + 1e-9


def ready(prepared: Prepared, script_batch: int, dataset_size: int | None, has_state: bool) -> messages.Ready:
    return messages.Ready(
        fingerprint=prepared.fingerprint(),
        initial_batch_size=script_batch,
        parameters=sum(parameter.numel() for parameter in prepared.parameters()),
        dataset_size=dataset_size,
        optimizer=type(prepared.optimizers[0]).__name__,
        adam_type=is_adam_type(prepared.optimizers[0]),
        has_state=has_state,
        least_local_bsz=prepared.least_local_bsz,
    )


def _sizes_in(batch: Any) -> Iterator[int]:
    """Elements of each tensor or array of a batch."""
    if isinstance(batch, Tensor | np.ndarray):
        yield batch.numel() if isinstance(batch, Tensor) else batch.size
    elif isinstance(batch, dict | list | tuple):
        for item in batch.values() if isinstance(batch, dict) else batch:
            yield from _sizes_in(item)


def warm_up(device: torch.device) -> None:
    """Pay for torch's lazy imports and the device's context before the others wait for this process."""
    leave_group()
    dist.init_process_group(backend_for(device), store=dist.HashStore(), rank=0, world_size=1)
    with RandomState(0).borrowed():  # what the script draws next is as alone
        layer = torch.nn.Linear(1, 1)
    layer.to(device)(torch.zeros(1, 1, device=device)).sum().backward()
    dist.all_reduce(torch.zeros(1, device=device))
    leave_group()


def _export_ranks(join: Join) -> None:
    """What torchrun would tell the script."""
    os.environ.update(
        RANK=str(join.rank),
        WORLD_SIZE=str(join.world_size),
        LOCAL_WORLD_SIZE=str(join.local_world_size),
    )
