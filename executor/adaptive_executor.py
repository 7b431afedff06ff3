"""One job's executor: the Ray shell around a `Reconciler`.

One thread owns all state; actor methods only put requests into its inbox and return. A second thread delivers
events to the scheduler service in order, however often the service is restarted.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import ray

from ..core.batch_plan import BatchPlan
from ..core.errors import SecretError
from ..core.reports import ProfileProgress, Report
from ..core.slot import Slot
from ..core.trials import kept
from ..estimators.goodput import JobModel
from ..estimators.measurements import Measurements
from ..estimators.pace import Pace
from ..estimators.profile_plan import profile_plan
from ..estimators.sensitivity.of_input import sensitivity_by
from .batch_choice import better_batch, choose_batch, group_shape
from .bound_cores import BoundCores
from .executor_job import ExecutorJob, ExecutorStatus
from .files.site import Site
from .files.workplace import local_path
from .inbox import Inbox
from .outlets import LEAVE_S, Outlets, put_away, taken_out
from .processes import rendezvous_store as store
from .processes.helper_client import answer
from .processes.template_wire import Owner
from .processes.training_process import Launch
from .protocol.job_events import (
    AtRest,
    Checkpointed,
    GpuNoticed,
    JobFailed,
    JobFinished,
    ProfileFinished,
    Released,
    Reported,
)
from .protocol.messages import Crashed, Event, Finished, Ready, Saved
from .protocol.metric_limits import bounded, places
from .protocol.ranks import Rendezvous
from .protocol.worker_events import Bound, Exited, Gone, Noticed, Output, Sampled, WorkerEvent
from .provision import Provision, input_rate, provision_of
from .reconciler import Reconciler
from .reconciling.effects import Effect, KeepProfile, KillWorker, Send, StartWorker, Tell
from .reconciling.failures import FailureBudget
from .reconciling.states import Stopping
from .reconciling.timeouts import Timeouts
from .sandbox.secrets import Given, GivenSecrets
from .usage.account import UsageAccount
from .worker import Worker
from .worker_actors import WorkerActors
from .worker_environment import worker_environment

__all__ = ["AdaptiveExecutor", "ExecutorJob", "ExecutorStatus"]

log = logging.getLogger(__name__)

SAVED_TOLD_S = 30.0  # checkpoints that nobody asked for are told no more often


def patient(hang_timeout_s: float) -> Timeouts:
    """Return timeouts that allow the longest step or evaluation, since a rank answers only between its steps."""
    usual = Timeouts()
    return Timeouts(
        start_s=max(usual.start_s, hang_timeout_s),
        regroup_s=max(usual.regroup_s, hang_timeout_s),
        broken_s=max(usual.broken_s, hang_timeout_s),
        stop_s=max(usual.stop_s, hang_timeout_s),
        hang_s=hang_timeout_s,
    )


class AdaptiveExecutor:
    """Train one job on the slots it is assigned.

    The scheduler service makes it a detached, restartable Ray actor. All methods return at once. If its process
    dies, Ray ends its workers with it. The restarted executor sends `Released(everything=True)` and waits for
    `assign`; the job goes on from its newest checkpoint.
    """

    def __init__(self, job: ExecutorJob, timeouts: Timeouts | None = None) -> None:
        self._job = job
        self._measurements = job.measurements or Measurements()
        self._target = target.metric if (target := job.training.target) is not None else ""
        self._densest: dict[tuple[int, int], int] = {}
        self._secrets = GivenSecrets()
        self._report: Report | None = None
        self._actors = WorkerActors(job.id, self._on_actor_end)
        incarnation = uuid.uuid4().hex[:6]
        self._outlets = outlets = Outlets(job, incarnation)
        self._service, self._log = outlets.service, outlets.log
        self._usage = UsageAccount(incarnation, self._service.put, time.monotonic())
        self._cores = BoundCores(self._service.put)
        self._sources: dict[str, str] = {}
        self._save_asked, self._saved_told_s = False, -SAVED_TOLD_S
        self._self = ray.get_runtime_context().current_actor
        self._store, listener = _listen()
        self._owner = owner = Owner(ray.get_runtime_context().gcs_address, os.getppid())
        self._machine = Reconciler(
            store=self._store,
            batch_for=self._batch_for,
            profiled=self._profiled,
            budget=FailureBudget(job.max_failures, job.restarts),
            timeouts=timeouts or patient(job.training.hang_timeout_s),
            worker_id=lambda n: f"{incarnation}-{n}",
            script=Path(job.script).name,
            hands_over=bool(job.outputs_url) and local_path(job.outputs_url) is None,
        )
        self._machine.go_on(taken_out(job.kept, outlets.restarted), time.monotonic())
        self._status = self._snapshot()
        self._inbox: Inbox[Effect] = Inbox()
        threading.Thread(target=store.keep, args=(listener, self._store, owner), name="store", daemon=True).start()
        threading.Thread(target=self._run, name="executor", daemon=True).start()

    # --- called by the service ------------------------------------------------------------------------------

    def assign(
        self,
        slots: Sequence[Slot],
        sequence: int,
        measurements: Measurements | None = None,
        secrets: Given | None = None,
    ) -> None:
        """Train on exactly these slots; without any, save, stop and release all. Older sequences change nothing.

        `measurements` is the service's copy. A restarted executor has none, and other jobs may have measured more.
        """

        def act(now: float) -> list[Effect]:
            self._secrets.take(secrets)
            if measurements is not None:
                self._measurements = self._measurements.completed_by(measurements)
            newer = sequence > self._machine.sequence
            if newer:
                self._actors.share(slots)
            effects = self._machine.assign(tuple(slots), sequence, now)
            if newer:
                self._actors.provide(self._provisions(slots))
            return effects

        self._inbox.put(act)

    def profile(self, slot: Slot, sequence: int, secrets: Given | None = None) -> None:
        """Measure one replica in `slot`."""

        def act(now: float) -> list[Effect]:
            self._secrets.take(secrets)
            return self._machine.profile(slot, sequence, now)

        self._inbox.put(act)

    def end_profile(self, slot: Slot, sequence: int) -> None:
        """Give up the profile run `sequence` in `slot`; what trains goes on."""
        self._inbox.put(lambda now: self._machine.end_profile(slot, sequence, now))

    def give(self, secrets: Given) -> None:
        """Take what the job's secrets are now. Processes that start from now on get them."""
        self._secrets.take(secrets)

    def save(self) -> None:
        """Write a checkpoint at the next step boundary and go on."""

        def act(now: float) -> list[Effect]:
            self._save_asked = True
            return self._machine.save(now)

        self._inbox.put(act)

    def keep(self, trials: Sequence[int], with_state: bool = False) -> None:
        """Train only these trials of a group on, by number; `Keep` says when and what becomes of the others."""

        def act(now: float) -> list[Effect]:
            self._job = replace(self._job, trials=tuple(kept(self._job.trials, trials)))
            return self._machine.keep(trials, with_state, now)

        self._inbox.put(act)

    def cancel(self) -> None:
        """End everything at once, without a checkpoint."""
        self._inbox.put(self._machine.cancel)

    def leave(self) -> bool:
        """Tell all that is not told yet, since this executor is not needed any more; return whether that is done.

        It waits for answers, for some seconds at most.
        """
        until_s, rested = time.monotonic() + LEAVE_S, threading.Event()

        def rest(now: float) -> list[Effect]:
            self._usage.tell(now)
            if not self._machine.slots and not self._machine.ended:
                self._service.put(AtRest(put_away(self._machine.kept(now)), self._measurements))
            rested.set()
            return []

        self._inbox.put(rest)
        return rested.wait(LEAVE_S) and self._outlets.flush(until_s)

    def status(self) -> ExecutorStatus:
        return self._status

    # --- called by workers ----------------------------------------------------------------------------------

    def on_worker(self, worker: str, events: Sequence[Event | WorkerEvent]) -> bool:
        """Take events in order; return whether this executor has such a worker."""
        if worker not in self._actors:
            return False
        for event in events:
            self._inbox.put(self._handler(worker, event))
        self._log.wait_for_room()
        return True

    def package_part(self, offset: int) -> bytes:
        """Return a piece of the job's package from an offset on; empty at its end."""
        return self._outlets.disk.package_part(self._job.package, offset)

    # --- the thread that owns the state -----------------------------------------------------------------------

    def _run(self) -> None:
        if self._outlets.restarted and self._service.exists:
            self._begin_again()
        self._outlets.stand()
        while True:
            handle = self._inbox.next(self._machine.next_deadline_s, self._machine.tick)
            try:
                self._carry_out(handle(time.monotonic()))
            except Exception:
                log.exception("executor of job %s", self._job.id)
            self._status = self._snapshot()

    def _handler(self, worker: str, event: Event | WorkerEvent) -> Callable[[float], list[Effect]]:
        return lambda now: self._on_event(worker, event, now)

    def _on_event(self, worker: str, event: Event | WorkerEvent, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case Output():
                self._log.write(self._source(worker), event.text, worker)
                return effects
            case Sampled():
                self._usage.hear(event, now)
                return effects
            case Noticed(text):
                self._service.put(GpuNoticed(text))
                return effects
            case Bound():
                if (known := self._machine.workers.get(worker)) is not None:
                    self._cores.hear(worker, known.slot.node_id, event)
                return effects
            case Ready():
                self._measurements = self._measurements.with_info(event.info)
            case Report():
                effects += self._on_report(event, now)
            case Saved():
                self._on_saved(event, now)
            case Finished():
                event = replace(event, metrics=bounded({}, event.metrics, self._target)[0])
            case Crashed(out_of_memory=True):
                self._on_out_of_memory(worker)
            case Exited():
                self._log.end(worker)
            case Gone():
                self._log.end(worker)
                self._actors.forget(worker)
                self._cores.forget(worker)
        return effects + self._machine.event(worker, event, now)

    def _on_saved(self, event: Saved, now: float) -> None:
        """Tell of a checkpoint: of one that was asked for at once, and of others now and then."""
        asked = self._save_asked or isinstance(self._machine.state, Stopping)
        if asked or now - self._saved_told_s >= SAVED_TOLD_S:
            self._save_asked, self._saved_told_s = False, now
            self._service.put(Checkpointed(event.steps, event.took_s))

    def _on_out_of_memory(self, worker: str) -> None:
        """Note the batch at which training ran out of memory, so that the job does not start with it again."""
        known, batch = self._machine.workers.get(worker), self._machine.batch
        if known is not None and not known.profile and batch is not None:
            self._measurements = self._measurements.without_room_for(known.slot.gpu_type, batch.local_bsz)

    def _on_report(self, report: Report, now: float) -> list[Effect]:
        """Refit the model, choose the batch again, and pass everything on."""
        metrics, left_out = bounded({}, report.metrics, self._target)
        at = places(metrics, {}, report.measured_at, self._target)
        self._report = report = replace(report, metrics=metrics, measured_at=at)
        try:
            self._measurements = self._measurements.with_report(report, self._densest, alone=self._actors.alone())
        except ValueError as error:
            log.warning("job %s: a report was left out: %s", self._job.id, error)
        machine = self._machine
        effects: list[Effect] = []
        current = machine.batch or BatchPlan(report.local_bsz, report.accumulation)
        slots = self._group_slots()
        if slots and report.generation == machine.generation:
            plan = better_batch(self._model(slots), slots, current, self._input_rate(slots))
            if plan is not None:
                effects = machine.set_batch(plan, now)
        used = self._usage.take(now)
        self._service.put(Reported(report, self._measurements, machine.batch or current, left_out, used))
        return effects

    def _model(self, slots: Sequence[Slot]) -> JobModel | None:
        """Return the goodput model, which covers the GPU type of `slots` even if it was never measured."""
        # Without an answer this process fits, and loads what that takes.
        if asked := self._measurements.unfitted():
            self._measurements.take_fits(answer(asked, self._owner) or {})
        per_replica = {**self._job.gpus_per_replica, **{slot.gpu_type: slot.gpus for slot in slots}}
        return self._measurements.job_model(self._job.training, per_replica, self._job.fewest_replicas)

    def _input_rate(self, slots: Sequence[Slot]) -> float:
        return input_rate(slots, sensitivity_by(self._measurements))

    def _batch_for(self, slots: Sequence[Slot]) -> BatchPlan | None:
        _, nodes, replicas, densest = group_shape(slots)
        self._densest[nodes, replicas] = densest
        try:
            return choose_batch(self._model(slots), slots, self._input_rate(slots))
        except (ValueError, ArithmeticError) as error:
            log.warning("job %s: no batch plan from its measurements: %s", self._job.id, error)
            return None

    def _profiled(self, slot: Slot, progress: ProfileProgress) -> bool:
        paced = self._job.pace if slot.emulated else None
        pace = None if paced is None else Pace.of(paced["profile"], slot.gpu_type)
        info = self._measurements.info
        least = info.least_local_bsz if info is not None else 1
        return profile_plan(self._job.training, slot.gpu_type, pace, progress, least).done

    def _group_slots(self) -> list[Slot]:
        return [self._machine.workers[id].slot for id in self._machine.group if id in self._machine.workers]

    def _provisions(self, slots: Sequence[Slot]) -> dict[str, Provision]:
        """Return what the training workers in these slots have of CPUs and memory, by worker."""
        given = {slot: provision_of(slot, slots, self._process_gib) for slot in slots}
        workers = self._machine.workers.values()
        return {one.id: given[one.slot] for one in workers if not one.profile and one.slot in given}

    @property
    def _process_gib(self) -> float | None:
        """Return the measured memory of one training process; None: it was not measured."""
        measured = self._measurements.input
        return measured.process_gib or None if measured is not None else None

    def _source(self, worker: str) -> str:
        known = self._machine.workers.get(worker)
        if known is not None and not known.profile and known.rank >= 0:
            self._sources[worker] = f"rank-{known.rank}"
        return self._sources.get(worker, "rank-?")

    # --- effects --------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        """Do all that the reconciler asks for. A worker that Ray refuses to start is gone at once."""
        for effect in effects:
            try:
                self._carry_out_one(effect)
            except Exception as error:
                log.exception("executor of job %s", self._job.id)
                if isinstance(effect, StartWorker):
                    gone = Gone(f"could not be started: {error}", setup_failed=isinstance(error, SecretError))
                    self._inbox.put(self._handler(effect.worker, gone))

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case StartWorker():
                self._start(effect)
            case Send():
                self._actors.send(effect.worker, effect.command)
            case KillWorker():
                self._actors.kill(effect.worker)
            case KeepProfile():
                self._measurements = self._measurements.with_profile(effect.gpu_type, effect.progress)
            case Tell(ProfileFinished(ok=True) as event):
                self._service.put(replace(event, measurements=self._measurements))
            case Tell(JobFinished() | JobFailed() as event):
                self._usage.tell(time.monotonic())  # nothing counts after it
                self._service.put(event)
            case Tell():
                self._service.put(effect.event)

    def _start(self, start: StartWorker) -> None:
        job, slot = self._job, start.slot
        self._sources[start.worker] = f"profile-{slot.gpu_type}" if start.profile else f"rank-{start.rank}"
        launch = Launch(
            script=job.script,
            args=tuple(job.args),
            env=worker_environment(job, start, self._store),
            cwd=None if job.package else str(Path(job.script).resolve().parent),
            pip=tuple(job.pip),
        )
        site = Site(
            key=job.folder or job.id,
            state_dir=job.state_dir,
            package=bool(job.package),
            outputs_url=job.outputs_url,
            line=job.line,
            profile=start.worker if start.profile else "",
        )
        given = self._secrets.values()
        slots = [slot] if start.profile else self._machine.training.desired
        provision = provision_of(slot, slots, self._process_gib)
        about = launch, site, self._self, slot, job.emulated, provision
        self._actors.start(start.worker, Worker, slot, *about, secrets=given, provision=provision)

    def _on_actor_end(self, worker: str, gone: Gone) -> None:
        self._inbox.put(self._handler(worker, gone))

    def _begin_again(self) -> None:
        """Say that nothing is held, before any command is obeyed. Those sent until then are void."""
        sent = self._service.told(Released(0, everything=True))
        self._machine.ignore(sent.sequence, sent.profile_sequence)

    # --- views ----------------------------------------------------------------------------------------------

    def _snapshot(self) -> ExecutorStatus:
        machine = self._machine
        return ExecutorStatus(
            state=machine.state.name,
            sequence=machine.sequence,
            slots=machine.slots,
            group=tuple(self._group_slots()),
            generation=machine.generation,
            steps=machine.steps,
            report=self._report,
            batch=machine.batch,
            failures=machine.budget.failures,
            recoveries=machine.budget.recoveries,
            last_error=machine.last_error,
            workers={
                worker.id: {
                    "slot": worker.slot,
                    "stage": worker.stage.value,
                    "rank": worker.rank,
                    "pid": worker.pid,
                    "host": worker.host,
                }
                for worker in machine.workers.values()
            },
        )


def _listen() -> tuple[Rendezvous, socket.socket]:
    listener = socket.create_server(("", 0), backlog=1024)
    return Rendezvous(ray.util.get_node_ip_address(), listener.getsockname()[1]), listener
