"""The one place where the service talks to jobs' executors, which are Ray actors with names.

One thread makes all calls in the order in which they were asked for. So a slow control plane delays commands,
but no round. An executor that is missing is made again.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..core.doors import Door
from ..core.job import JobSpec, RestartPolicy
from ..core.service_names import NAMESPACE, SERVICE_NAME
from ..core.settings import Settings
from ..core.slot import Slot
from ..estimators.measurements import EVERY_TYPE
from ..executor.adaptive_executor import AdaptiveExecutor
from ..executor.command_executor import CommandExecutor
from ..executor.command_job import CommandJob
from ..executor.commands.reconciler import Rules
from ..executor.executor_job import ExecutorJob, ExecutorStatus
from ..executor.light_actor import light
from ..executor.reconciling.failures import FIXED, POLICY
from .jobs.record import JobRecord
from .packages import PackageStore

log = logging.getLogger(__name__)

TRIES = 3
Command = Callable[[], object]


ACTOR = "coadapt-job-"


def actor_name(job: JobRecord) -> str:
    """Return the name of the executor of a job's present life."""
    return f"{ACTOR}{job.id}{f'~{job.life}' if job.life else ''}"


class Executors:
    """Sends commands to executors, in order and from a thread of its own.

    Args:
        gpu_types: returns the GPU types of the cluster now.
        lost: called with a job id and a reason when its executor cannot be made or is dead for good.
    """

    def __init__(
        self,
        settings: Settings,
        packages: PackageStore,
        gpu_types: Callable[[], Sequence[str]],
        lost: Callable[[str, str], None],
    ) -> None:
        self._settings = settings
        self._packages = packages
        self._gpu_types = gpu_types
        self._lost = lost
        self._handles: dict[str, Any] = {}  # by name
        self._commands: queue.SimpleQueue[tuple[JobRecord | None, Command] | None] = queue.SimpleQueue()
        self._node_id = ray.get_runtime_context().get_node_id()
        self._thread = threading.Thread(target=self._send_all, name="executors", daemon=True)
        self._thread.start()

    # --- commands -----------------------------------------------------------------------------------------

    def assign(self, job: JobRecord, slots: Sequence[Slot], sequence: int) -> None:
        arguments = list(slots), sequence, job.measurements
        self._put(job, lambda: self._call(job, "assign", *arguments, needs_package=bool(slots)))

    def profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._put(job, lambda: self._call(job, "profile", slot, sequence, needs_package=True))

    def end_profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._put(job, lambda: self._call(job, "end_profile", slot, sequence, make=False))

    def cancel(self, job: JobRecord) -> None:
        self._put(job, lambda: self._call(job, "cancel", make=False))

    def restart(self, job: JobRecord) -> None:
        """End the executor and its workers. Ray starts the executor again, empty."""
        self._put(job, lambda: self._kill(actor_name(job), no_restart=False))

    def retire(self, job: JobRecord) -> None:
        """End the executor of a job whose life has ended."""
        self._put(job, lambda: self._kill(actor_name(job), no_restart=True))

    def retire_others(self, jobs: Sequence[JobRecord]) -> None:
        """End the executors of all jobs but these, and of their earlier lives.

        Raises: RayError where Ray does not answer.
        """
        names = {actor_name(job) for job in jobs}
        for actor in ray.util.list_named_actors(all_namespaces=True):
            name = actor["name"]
            is_executor = name.startswith(ACTOR) and "/" not in name  # workers have a slash in their names
            if actor["namespace"] == NAMESPACE and is_executor and name not in names:
                self._put(None, partial(self._kill, name, no_restart=True))

    def drain(self, timeout_s: float) -> None:
        """Wait until everything asked for so far has been sent."""
        done = threading.Event()
        self._put(None, done.set)
        done.wait(timeout_s)

    def stop(self) -> None:
        self._commands.put(None)
        self._thread.join(timeout=10)

    # --- questions: they wait for answers, so rounds ask none -----------------------------------------------

    def statuses(self, jobs: Sequence[JobRecord], timeout_s: float) -> dict[str, ExecutorStatus | None]:
        """Return the status of every executor that exists, None for one that does not answer in time."""
        handles = {job.id: handle for job in jobs if (handle := self._find(actor_name(job))) is not None}
        refs = {job_id: handle.status.remote() for job_id, handle in handles.items()}
        ray.wait(list(refs.values()), num_returns=len(refs), timeout=timeout_s) if refs else None
        return {job_id: _answer(ref) for job_id, ref in refs.items()}

    # --- inside the thread --------------------------------------------------------------------------------

    def _put(self, job: JobRecord | None, command: Command) -> None:
        self._commands.put((job, command))

    def _send_all(self) -> None:
        while (item := self._commands.get()) is not None:
            job, command = item
            error = self._try(command)
            if error is not None and job is not None:
                log.error("executor of job %s: %s", job.id, error)
                with suppress(RayError, ValueError):
                    self._kill(actor_name(job), no_restart=True)
                self._lost(job.id, f"its executor could not be reached: {error}")

    def _try(self, command: Command) -> Exception | None:
        """Try a command a few times, as Ray's control plane may be away for a moment; return the last error."""
        error: Exception | None = None
        for attempt in range(TRIES):
            try:
                command()
                return None
            except Exception as failed:
                error = failed
                if attempt < TRIES - 1:
                    time.sleep(2.0**attempt)  # in the thread that sends; no round waits for it
        return error

    def _call(
        self, job: JobRecord, method: str, *args: Any, make: bool = True, needs_package: bool = False
    ) -> None:
        handle = self._find(actor_name(job))
        if handle is None and not make:
            return
        if needs_package and job.package is not None:
            self._packages.find(job.package)
        if handle is None:
            handle = self._make(job)
        ref = getattr(handle, method).remote(*args)
        ref.future().add_done_callback(lambda done: self._watch(job, done.exception()))

    def _watch(self, job: JobRecord, error: BaseException | None) -> None:
        """Report an executor that has died; other errors of a command are only logged."""
        if isinstance(error, ActorDiedError) and not isinstance(error, ActorUnavailableError):
            if self._handles.pop(actor_name(job), None) is not None:
                self._lost(job.id, f"its executor died: {str(error).splitlines()[0]}")
        elif error is not None:
            log.warning("executor of job %s: %s", job.id, error)

    def _find(self, name: str) -> Any | None:
        if name not in self._handles:
            try:
                self._handles[name] = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                return None
        return self._handles[name]

    def _make(self, job: JobRecord) -> Any:
        native = job.spec.door is Door.NATIVE
        told = (
            executor_job(job, self._settings, self._packages, self._gpu_types())
            if native
            else command_job(job, self._settings, self._packages)
        )
        handle: Any = (
            ray.remote(light(AdaptiveExecutor if native else CommandExecutor))
            .options(
                name=actor_name(job),
                namespace=NAMESPACE,
                lifetime="detached",
                get_if_exists=True,
                max_restarts=-1,
                max_task_retries=-1,
                num_cpus=0,
                max_concurrency=8,
                # Executors run on the service's node: they share log files, and the head outlives other nodes.
                scheduling_strategy=NodeAffinitySchedulingStrategy(self._node_id, soft=False),
            )
            .remote(told)
        )
        self._handles[actor_name(job)] = handle
        return handle

    def _kill(self, name: str, no_restart: bool) -> None:
        handle = self._find(name)
        if handle is not None:
            ray.kill(handle, no_restart=no_restart)
        if no_restart:
            self._handles.pop(name, None)


def executor_job(
    job: JobRecord, settings: Settings, packages: PackageStore, gpu_types: Sequence[str]
) -> ExecutorJob:
    """Return what an executor is told of its job when it is made. `assign` tells it later where to run."""
    spec = job.spec
    return ExecutorJob(
        id=job.id,
        life=job.life,
        script=spec.script,
        args=tuple(spec.args),
        package=str(packages.find(job.package)) if job.package is not None else "",
        folder=job.folder,
        state_dir=settings.state_dir,
        env=spec.env,
        pip=tuple(spec.pip),
        training=spec.training,
        checkpoint_url=settings.checkpoint_url(job.id, spec.training.checkpoint.url),
        outputs_url=settings.outputs_url(job.id, spec.training.checkpoint.url),
        log_dir=str(settings.log_dir(job.id)),
        pace={
            "profile": spec.emulation.profile,
            "time_scale": spec.emulation.time_scale * settings.time_scale,
        },
        gpus_per_replica=gpus_per_replica(spec, gpu_types),
        sharded=spec.is_sharded,
        fewest_replicas=spec.fewest_replicas,
        max_failures=spec.max_failures,
        restarts=spec.restarts,
        measurements=job.measurements,
        service_name=SERVICE_NAME,
        service_namespace=NAMESPACE,
    )


def command_job(job: JobRecord, settings: Settings, packages: PackageStore) -> CommandJob:
    """Return what the executor of a job that never calls `coadapt.prepare` is told when it is made."""
    spec, restarts = job.spec, job.spec.restarts
    errors, losses = restarts is RestartPolicy.ON_FAILURE, restarts is not RestartPolicy.NEVER
    return CommandJob(
        id=job.id,
        life=job.life,
        script=spec.script,
        command=tuple(spec.command or spec.args),
        processes=spec.processes_on_node,
        rules=Rules(
            spec.grace_s,
            retries_errors=errors,
            retries_losses=losses,
            why_not=FIXED if spec.restart_policy is None else POLICY,
        ),
        measured=spec.door is Door.RESTARTING,
        max_failures=spec.max_failures,
        package=str(packages.find(job.package)) if job.package is not None else "",
        working_dir=spec.working_dir if job.package is None else "",
        folder=job.folder,
        state_dir=settings.state_dir,
        env=spec.env,
        pip=tuple(spec.pip),
        outputs_url=settings.outputs_url(job.id, spec.training.checkpoint.url),
        log_dir=str(settings.log_dir(job.id)),
        batch_size=spec.training.initial_batch_size,
        total_steps=spec.progress.total_steps,
        starts=job.starts,
        status_file=spec.progress.file or "",
        pattern=spec.progress.pattern or "",
        pause_profile=spec.emulation.profile if spec.emulation.pause else "",
        fingerprint=spec.fingerprint or job.script_key or job.id,
        report_interval_s=spec.training.report_interval_s,
        measurements=job.measurements,
        service_name=SERVICE_NAME,
        service_namespace=NAMESPACE,
    )


def gpus_per_replica(spec: JobSpec, gpu_types: Sequence[str]) -> dict[str, int]:
    """Return the GPUs of a replica by GPU type that the job may use. `EVERY_TYPE` stands for all types."""
    if spec.resources.gpu_types is None and isinstance(spec.resources.gpus_per_replica, int):
        return {EVERY_TYPE: spec.resources.gpus_per_replica}
    named = set(spec.resources.gpu_types or ()) | set(gpu_types)
    return {t: gpus for t in sorted(named) if (gpus := spec.gpus_per_replica(t)) is not None}


def _answer(ref: Any) -> ExecutorStatus | None:
    try:
        status: ExecutorStatus = ray.get(ref, timeout=0)
        return status
    except Exception:
        return None
