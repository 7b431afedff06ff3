"""The one place where the service talks to jobs' executors, which are Ray actors with names.

A few threads make all calls, in order for each job. So a slow control plane delays commands, but no round, and a
job's executor that fails delays no other job's. An executor that is missing is made again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ..core.doors import Door
from ..core.service_names import NAMESPACE
from ..core.settings import Settings
from ..core.slot import Slot
from ..executor.adaptive_executor import AdaptiveExecutor
from ..executor.command_executor import CommandExecutor
from ..executor.executor_job import ExecutorStatus
from ..executor.light_actor import executor_class
from .executor_jobs import command_job, executor_job
from .jobs.record import JobRecord
from .lanes import Lanes
from .packages import PackageStore

log = logging.getLogger(__name__)

TRIES = 3
FIRST_WAIT_S = 1.0  # before the second try; each further one waits twice as long
Command = Callable[[], object]
ACTOR = "coadapt-job-"


def actor_name(job: JobRecord) -> str:
    """Return the name of the executor of a job's present life."""
    return f"{ACTOR}{job.id}{f'~{job.life}' if job.life else ''}"


class Executors:
    """Sends commands to executors, in order for each job and from threads of its own.

    Args:
        gpu_types: returns the GPU types of the cluster now.
        lost: called with a job id and a reason when its executor cannot be made or is dead for good.
        first_wait_s: before a command that failed is tried again.
    """

    def __init__(
        self,
        settings: Settings,
        packages: PackageStore,
        gpu_types: Callable[[], Sequence[str]],
        lost: Callable[[str, str], None],
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._settings = settings
        self._packages = packages
        self._gpu_types = gpu_types
        self._lost = lost
        self._handles: dict[str, Any] = {}  # by name
        self._node_id = ray.get_runtime_context().get_node_id()
        self._first_wait_s = first_wait_s
        self._lanes = Lanes("executors")

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
                work = _Tries(partial(self._kill, name, no_restart=True), _log_of(name), self._first_wait_s)
                self._lanes.put(_job_of(name), work)

    def drain(self, timeout_s: float) -> None:
        """Wait until everything asked for so far has been sent."""
        self._lanes.drain(timeout_s)

    def stop(self) -> None:
        self._lanes.stop()

    # --- questions: they wait for answers, so rounds ask none -----------------------------------------------

    def statuses(self, jobs: Sequence[JobRecord], timeout_s: float) -> dict[str, ExecutorStatus | None]:
        """Return the status of every executor that exists, None for one that does not answer in time."""
        handles = {job.id: handle for job in jobs if (handle := self._find(actor_name(job))) is not None}
        refs = {job_id: handle.status.remote() for job_id, handle in handles.items()}
        ray.wait(list(refs.values()), num_returns=len(refs), timeout=timeout_s) if refs else None
        return {job_id: _answer(ref) for job_id, ref in refs.items()}

    # --- inside the threads -------------------------------------------------------------------------------

    def _put(self, job: JobRecord, command: Command) -> None:
        self._lanes.put(job.id, _Tries(command, partial(self._unreachable, job), self._first_wait_s))

    def _unreachable(self, job: JobRecord, error: Exception) -> None:
        log.error("executor of job %s: %s", job.id, error)
        with suppress(RayError, ValueError):
            self._kill(actor_name(job), no_restart=True)
        self._lost(job.id, f"its executor could not be reached: {error}")

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
            ray.remote(executor_class(AdaptiveExecutor if native else CommandExecutor))
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


def _answer(ref: Any) -> ExecutorStatus | None:
    try:
        status: ExecutorStatus = ray.get(ref, timeout=0)
        return status
    except Exception:
        return None


class _Tries:
    """Work that is tried a few times, as Ray's control plane may be away for a moment.

    Args:
        failed: called with the last error.
    """

    def __init__(self, command: Command, failed: Callable[[Exception], None], first_wait_s: float) -> None:
        self._command, self._failed, self._wait_s = command, failed, first_wait_s
        self._left = TRIES

    def __call__(self) -> float | None:
        """Try once. Return the seconds until the next try; None where none follows."""
        try:
            self._command()
            return None
        except Exception as error:
            self._left -= 1
            if not self._left:
                self._failed(error)
                return None
        wait_s, self._wait_s = self._wait_s, 2 * self._wait_s
        return wait_s


def _job_of(name: str) -> str:
    """Return the id of the job whose executor has a name."""
    return name.removeprefix(ACTOR).partition("~")[0]


def _log_of(name: str) -> Callable[[Exception], None]:
    return lambda error: log.error("actor %s could not be ended: %s", name, error)
