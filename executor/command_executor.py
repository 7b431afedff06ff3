"""The executor of a job that runs a command: the Ray shell around a `CommandReconciler`.

One thread owns all state; actor methods only put requests into its inbox and return.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import ray

from ..core.errors import SecretError
from ..core.reports import Report
from ..core.slot import Slot
from ..estimators.measurements import Measurements
from ..estimators.pace import part_of_fastest
from .batch_choice import group_shape
from .bound_cores import BoundCores
from .command_job import CommandJob
from .command_worker import CommandWorker
from .commands.crews import CrewPlan, crew_plans
from .commands.effects import Effect, KillCrew, SendCrew, StartCrew, TellService
from .commands.progress import CommandProgress, Group
from .commands.reconciler import CommandReconciler, Phase
from .commands.refusals import Refusals
from .executor_job import ExecutorStatus
from .files.site import Site
from .inbox import Inbox
from .outlets import LEAVE_S, Outlets, put_away, taken_out
from .processes.template_wire import ONE_THREAD
from .programs.command_processes import CommandLaunch
from .protocol.command_events import CommandEvent, Refused, Said, Status
from .protocol.job_events import AtRest, GpuNoticed, JobFailed, JobFinished, ProfileFinished, Released, Reported
from .protocol.messages import DEVICES, GPU_TYPE, JOB_ID, NODE_ID
from .protocol.metric_limits import bounded
from .protocol.worker_events import Bound, Exited, Gone, Noticed, Sampled
from .provision import Provision, provision_of
from .reconciling.failures import FailureBudget
from .sandbox.secrets import Given, GivenSecrets
from .usage.account import UsageAccount
from .worker_actors import WorkerActors
from .worker_environment import tracking

log = logging.getLogger(__name__)

NO_PROFILE = "a command is not measured before it runs"

Handle = Callable[[float], list[Effect]]


class CommandExecutor:
    """Run one job's command on the slots it is assigned; the same verbs as `AdaptiveExecutor`.

    The scheduler service makes it a detached, restartable Ray actor. All methods return at once. If its process
    dies, Ray ends its workers with it, and their guards end the processes.
    """

    def __init__(self, job: CommandJob) -> None:
        self._job = job
        self._progress = CommandProgress(job.batch_size, job.total_steps)
        self._measurements = job.measurements or Measurements()
        if job.measured:
            self._measurements = self._measurements.with_info(self._progress.info(job.fingerprint))
        self._secrets = GivenSecrets()
        self._report: Report | None = None
        self._report_due_s = float("inf")
        self._self = ray.get_runtime_context().current_actor
        incarnation = uuid.uuid4().hex[:6]
        self._outlets = outlets = Outlets(job, incarnation)
        self._service, self._log = outlets.service, outlets.log
        self._machine = CommandReconciler(
            job.processes,
            job.rules,
            FailureBudget(job.max_failures),
            worker_id=lambda n: f"{incarnation}-{n}",
            program=job.called,
        )
        self._machine.go_on(taken_out(job.kept, outlets.restarted), time.monotonic())
        self._progress.go_on(job.kept.get("first_sizes", {}))
        self._status = self._snapshot()
        self._inbox: Inbox[Effect] = Inbox()
        self._actors = WorkerActors(job.id, self._on_actor_end)
        self._refusals = Refusals(incarnation)
        self._usage = UsageAccount(incarnation, self._service.put, time.monotonic())
        self._cores = BoundCores(self._service.put)
        threading.Thread(target=self._run, name="executor", daemon=True).start()

    # --- called by the service ------------------------------------------------------------------------------

    def assign(
        self,
        slots: Sequence[Slot],
        sequence: int,
        measurements: Measurements | None = None,
        secrets: Given | None = None,
    ) -> None:
        """Run on exactly these slots; without any, stop and release all. Older sequences change nothing."""

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
        """Refuse to measure: a command has no step that could be timed by itself."""

        def act(now: float) -> list[Effect]:
            ended = ProfileFinished(slot.gpu_type, ok=False, reason=NO_PROFILE, sequence=sequence)
            return [TellService(ended), TellService(Released(self._machine.sequence, (slot,)))]

        self._inbox.put(act)

    def end_profile(self, slot: Slot, sequence: int) -> None:
        """Release a slot in which nothing was measured."""
        self._inbox.put(lambda now: [TellService(Released(self._machine.sequence, (slot,)))])

    def give(self, secrets: Given) -> None:
        """Take what the job's secrets are now. Processes that start from now on get them."""
        self._secrets.take(secrets)

    def save(self) -> None:
        """Do nothing: only the program knows how to save."""

    def cancel(self) -> None:
        """End everything, with a few seconds after SIGTERM."""
        self._inbox.put(self._machine.cancel)

    def leave(self) -> bool:
        """Tell all that is not told yet, since this executor is not needed any more; return whether that is done.

        It waits for answers, for some seconds at most.
        """
        until_s, rested = time.monotonic() + LEAVE_S, threading.Event()

        def rest(now: float) -> list[Effect]:
            self._tell_progress()
            self._usage.tell(now)
            if not self._machine.slots and self._machine.phase is not Phase.ENDED:
                kept = {**self._machine.kept(now), "first_sizes": self._progress.kept()}
                self._service.put(AtRest(put_away(kept), self._measurements))
            rested.set()
            return []

        self._inbox.put(rest)
        return rested.wait(LEAVE_S) and self._outlets.flush(until_s)

    def status(self) -> ExecutorStatus:
        return self._status

    # --- called by workers ----------------------------------------------------------------------------------

    def on_worker(self, worker: str, events: Sequence[CommandEvent | Exited | Sampled | Noticed | Bound]) -> bool:
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
            # Commands that were sent until now are void: the service counts on this executor holding nothing.
            self._machine.ignore(self._service.told(Released(0, everything=True)).sequence)
        self._outlets.stand()
        while True:
            handle = self._inbox.next(min(self._machine.next_deadline_s, self._report_due_s), self._machine.tick)
            try:
                self._carry_out(handle(time.monotonic()))
                if time.monotonic() >= self._report_due_s:
                    self._tell_progress()
            except Exception:
                log.exception("executor of job %s", self._job.id)
            self._status = self._snapshot()

    def _handler(self, worker: str, event: CommandEvent | Exited | Gone | Sampled | Noticed | Bound) -> Handle:
        return lambda now: self._on_event(worker, event, now)

    def _on_event(
        self, worker: str, event: CommandEvent | Exited | Gone | Sampled | Noticed | Bound, now: float
    ) -> list[Effect]:
        match event:
            case Sampled():
                self._usage.hear(event, now)
                return []
            case Noticed(text):
                self._service.put(GpuNoticed(text))
                return []
            case Bound():
                if (crew := self._machine.crews.get(worker)) is not None:
                    self._cores.hear(worker, crew.plan.node_id, event)
                return []
            case Said():
                self._log.write(f"rank-{event.rank}", event.text, f"{worker}/{event.rank}")
                return []
            case Refused():
                self._on_refused(worker, event, now)
                return []
            case Status():
                self._on_status(event, now)
                return []
            case Gone():
                self._log.end(worker)
                self._actors.forget(worker)
                self._cores.forget(worker)
        return self._machine.event(worker, event, now)

    def _on_status(self, status: Status, now: float) -> None:
        self._progress.take(status, self._machine.generation)
        self._machine.progressed(self._progress.step)
        self._report_due_s = min(self._report_due_s, now + self._job.report_interval_s)

    def _on_refused(self, worker: str, event: Refused, now: float) -> None:
        if event.logged:
            self._log.write("rank-0", f"coadapt: {event.sentence}\n", worker)
        wait_s = 0.0 if self._refusals.hear(worker, event) else self._job.report_interval_s
        self._report_due_s = min(self._report_due_s, now + wait_s)

    def _on_actor_end(self, worker: str, gone: Gone) -> None:
        self._inbox.put(self._handler(worker, gone))

    def _tell_progress(self) -> None:
        """Report what the program has said since the last report."""
        self._report_due_s = float("inf")
        if (refused := self._refusals.take()) is not None:
            self._service.put(refused)
        slots = self._machine.last_group  # what it says while it ends is of these, too
        if not slots:
            return
        nodes = len({slot.node_id for slot in slots})
        gpus = sum(slot.gpus for slot in slots)
        report = self._progress.report(Group(self._machine.generation, slots[0].gpu_type, nodes, gpus))
        if report is None:
            return
        metrics, left_out = bounded({}, report.metrics, "")
        self._report = report
        self._progress.metrics = dict(metrics)
        if self._job.measured:
            self._learn(report, slots)
        used = self._usage.take(time.monotonic())
        self._service.put(Reported(report, self._measurements, None, left_out, used))

    def _learn(self, report: Report, slots: Sequence[Slot]) -> None:
        _, nodes, replicas, densest = group_shape(slots)
        try:
            alone = self._actors.alone()
            self._measurements = self._measurements.with_report(report, {(nodes, replicas): densest}, alone=alone)
        except ValueError as error:
            log.warning("job %s: a report was left out: %s", self._job.id, error)

    # --- effects --------------------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            try:
                self._carry_out_one(effect)
            except Exception as error:
                log.exception("executor of job %s", self._job.id)
                if isinstance(effect, StartCrew):
                    gone = Gone(f"could not be started: {error}", setup_failed=isinstance(error, SecretError))
                    self._inbox.put(self._handler(effect.worker, gone))

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case StartCrew():
                self._start(effect.worker, effect.plan)
            case SendCrew():
                self._actors.send(effect.worker, effect.order)
            case KillCrew():
                self._actors.kill(effect.worker)
            case TellService(JobFinished() as event):
                self._tell_progress()
                self._usage.tell(time.monotonic())  # nothing counts after it
                self._service.put(JobFinished(dict(self._progress.metrics), ended_early=event.ended_early))
            case TellService(JobFailed() as event):
                self._tell_progress()
                self._usage.tell(time.monotonic())
                self._service.put(event)
            case TellService():
                self._service.put(effect.event)

    def _provisions(self, slots: Sequence[Slot]) -> dict[str, Provision]:
        """Return what the workers of the nodes of these slots have of CPUs and memory, by worker."""
        places = [plan.place for plan in crew_plans(slots, self._job.processes)]
        given = {place: provision_of(place, places) for place in places}
        crews = self._machine.crews.values()
        return {crew.id: given[place] for crew in crews if (place := crew.plan.place) in given}

    def _start(self, worker: str, plan: CrewPlan) -> None:
        job, slot = self._job, plan.place
        script = (sys.executable, "-u", job.script) if job.script else ()
        threads, hidden = (ONE_THREAD, {"CUDA_VISIBLE_DEVICES": ""}) if slot.emulated else ({}, {})
        launch = CommandLaunch(
            job_id=job.id,
            command=(*script, *job.command),
            processes=job.processes,
            count=plan.processes,
            gpus=slot.gpus,
            env={
                **threads,
                **tracking(job.id, profile=False, trackers=job.trackers),
                **job.env,
                **hidden,
                JOB_ID: job.id,
                GPU_TYPE: slot.gpu_type,
                NODE_ID: slot.node_id,
                DEVICES: ",".join(map(str, slot.devices)),
                "PYTHONUNBUFFERED": "1",
            },
            pip=tuple(job.pip),
            cwd=None if job.package else job.working_dir or str(Path(job.script).resolve().parent),
            status_file=job.status_file,
            pattern=job.pattern,
            called=job.called,
            earlier=job.starts + self._outlets.restarted,
            pace=part_of_fastest(job.pause_profile, slot.gpu_type) if slot.emulated and job.pause_profile else 1.0,
        )
        site = Site(
            key=job.folder or job.id,
            state_dir=job.state_dir,
            package=bool(job.package),
            outputs_url=job.outputs_url,
            line=job.line,
        )
        given = self._secrets.values()
        provision = provision_of(slot, [slot])
        about = launch, site, self._self, slot, job.emulated, provision
        self._actors.start(worker, CommandWorker, slot, *about, secrets=given, provision=provision)

    # --- views ----------------------------------------------------------------------------------------------

    def _snapshot(self) -> ExecutorStatus:
        machine = self._machine
        return ExecutorStatus(
            state=machine.phase.value,
            sequence=machine.sequence,
            slots=machine.slots,
            group=machine.group,
            generation=machine.generation,
            steps=machine.steps,
            report=self._report,
            failures=machine.budget.failures,
            recoveries=machine.budget.recoveries,
            last_error=machine.last_error,
            workers={
                crew.id: {
                    "slot": crew.plan.place,
                    "stage": crew.stage.value,
                    "rank": crew.first_rank,
                    "pids": crew.pids,
                }
                for crew in machine.crews.values()
            },
        )
