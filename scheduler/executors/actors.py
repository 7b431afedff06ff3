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

from ...core.doors import Door
from ...core.service_names import NAMESPACE
from ...core.settings import Settings
from ...core.slot import Slot
from ...executor.adaptive_executor import AdaptiveExecutor
from ...executor.command_executor import CommandExecutor
from ...executor.executor_job import ExecutorStatus
from ...executor.head_files import FILES_NAME, HeadFiles
from ...executor.light_actor import executor_class, light, packed
from ..files.packages import PackageStore
from ..jobs.record import JobRecord
from ..runtime.lanes import Lanes
from .executor_jobs import command_job, executor_job
from .leaving import Leaving

log = logging.getLogger(__name__)

TRIES = 3
FIRST_WAIT_S = 1.0  # before the second try; each further one waits twice as long
Command = Callable[[], object]
ACTOR = "coadapt-job-"
NODE_LABEL = "ray.io/node-id"  # Ray's own


def actor_name(job: JobRecord) -> str:
    """Return the name of the executor of a job's present life."""
    return f"{ACTOR}{job.id}{f'~{job.life}' if job.life else ''}"


class Executors:
    """Sends commands to executors, in order for each job and from threads of its own.

    Args:
        gpu_types: returns the GPU types of the cluster now.
        lost: called with a job id and a reason when its executor cannot be made or is dead for good.
        home: returns the node on which a job's executor shall stand that is given slots; None: the service's own.
        newest: returns what is stored of a job now.
        first_wait_s: before a command that failed is tried again.
        secrets: returns what processes of a job are given as `Secrets.given` does.
    """

    def __init__(
        self,
        settings: Settings,
        packages: PackageStore,
        gpu_types: Callable[[], Sequence[str]],
        lost: Callable[[str, str], None],
        home: Callable[[JobRecord, Sequence[Slot]], str | None] = lambda job, slots: None,
        newest: Callable[[JobRecord], JobRecord] = lambda job: job,
        first_wait_s: float = FIRST_WAIT_S,
        secrets: Callable[[JobRecord], dict[str, Any] | None] = lambda job: None,
    ) -> None:
        self._settings = settings
        self._packages = packages
        self._gpu_types = gpu_types
        self._lost, self._home, self._newest, self._secrets = lost, home, newest, secrets
        self._handles: dict[str, Any] = {}  # by name
        self._node_id = ray.get_runtime_context().get_node_id()
        self._first_wait_s = first_wait_s
        self._has_files = False
        self._lanes = Lanes("executors")

    # --- commands -----------------------------------------------------------------------------------------

    def assign(self, job: JobRecord, slots: Sequence[Slot], sequence: int) -> None:
        arguments = list(slots), sequence, job.measurements
        self._put(job, lambda: self._call(job, "assign", *arguments, *self._given(job, slots), slots=slots))

    def profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._put(
            job, lambda: self._call(job, "profile", slot, sequence, *self._given(job, (slot,)), slots=(slot,))
        )

    def give(self, job: JobRecord) -> None:
        """Tell an executor that is there what its job's secrets are now, for the processes that it starts next."""
        self._put(job, lambda: self._call(job, "give", *self._given(job), make=False))

    def _given(self, job: JobRecord, slots: Sequence[Slot] | None = None) -> tuple[dict[str, Any], ...]:
        """Return the secrets of a job as an argument; nothing where it has none, or starts nothing.

        They go with calls, and not with what an actor is made of: that Ray keeps.
        """
        found = self._secrets(job) if slots is None or slots else None
        return () if found is None else (found,)

    def end_profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        self._put(job, lambda: self._call(job, "end_profile", slot, sequence, make=False))

    def save(self, job: JobRecord) -> None:
        self._put(job, lambda: self._call(job, "save", make=False))

    def keep(self, job: JobRecord, with_state: bool) -> None:
        numbers = [trial.number for trial in job.spec.trials]
        self._put(job, lambda: self._call(job, "keep", numbers, with_state, make=False))

    def cancel(self, job: JobRecord) -> None:
        self._put(job, lambda: self._call(job, "cancel", make=False))
        if held := list(job.held):
            # An assignment may have been lost with the service that sent it. After its end an executor starts
            # nothing, and releases those of these slots that nothing is in.
            arguments = held, job.sequence, job.measurements
            self._put(job, lambda: self._call(job, "assign", *arguments, make=False))

    def restart(self, job: JobRecord) -> None:
        """End the executor and its workers. Ray starts the executor again, empty."""
        self._put(job, lambda: self._kill(actor_name(job), no_restart=False))

    def retire(self, job: JobRecord) -> None:
        """End the executor of a job that holds nothing, or whose life has ended, when it has told all it knows."""
        self._retire(actor_name(job))

    def retire_others(self, jobs: Sequence[JobRecord]) -> None:
        """End the executors of all jobs but these, and of their earlier lives.

        Raises: RayError where Ray does not answer.
        """
        names = {actor_name(job) for job in jobs}
        for actor in ray.util.list_named_actors(all_namespaces=True):
            name = actor["name"]
            is_executor = name.startswith(ACTOR) and "/" not in name  # workers have a slash in their names
            if actor["namespace"] == NAMESPACE and is_executor and name not in names:
                self._retire(name)

    def drain(self, timeout_s: float) -> None:
        """Wait until everything asked for so far has been sent."""
        self._lanes.drain(timeout_s)

    def stop(self) -> None:
        self._lanes.stop()

    def end_all(self, jobs: Sequence[JobRecord], timeout_s: float) -> None:
        """End the executors of jobs and the writer of their logs, also where the rest is not told in time."""
        for job in jobs:
            self.retire(job)
        if not self._lanes.drain(timeout_s):
            for job in jobs:
                with suppress(RayError, ValueError):
                    self._kill(actor_name(job), no_restart=True)
        self._has_files = False
        with suppress(ValueError):
            ray.kill(ray.get_actor(FILES_NAME, namespace=NAMESPACE), no_restart=True)

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
        log.error("its executor: %s", error, extra={"job": job.id})
        with suppress(RayError, ValueError):
            self._kill(actor_name(job), no_restart=True)
        self._lost(job.id, f"its executor could not be reached: {error}")

    def _retire(self, name: str) -> None:
        self._lanes.put(_job_of(name), Leaving(name, self._find, partial(self._kill, name, no_restart=True)))

    def _call(
        self, job: JobRecord, method: str, *args: Any, make: bool = True, slots: Sequence[Slot] = ()
    ) -> None:
        handle = self._find(actor_name(job))
        if handle is None and not make:
            return
        if slots and job.package is not None:
            self._packages.find(job.package)
        if handle is None:
            handle = self._make(job, slots)
        ref = getattr(handle, method).remote(*args)
        ref.future().add_done_callback(lambda done: self._watch(job, handle, done.exception()))

    def _watch(self, job: JobRecord, handle: Any, error: BaseException | None) -> None:
        """Report an executor that has died, unless another one follows; other errors are only logged."""
        name = actor_name(job)
        if isinstance(error, ActorDiedError) and not isinstance(error, ActorUnavailableError):
            if self._handles.get(name) is handle:
                self._handles.pop(name, None)
                self._lost(job.id, f"its executor died: {str(error).splitlines()[0]}")
        elif error is not None:
            log.warning("its executor: %s", error, extra={"job": job.id})

    def _find(self, name: str) -> Any | None:
        if name not in self._handles:
            try:
                self._handles[name] = ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                return None
        return self._handles[name]

    def _make(self, job: JobRecord, slots: Sequence[Slot]) -> Any:
        newest = self._newest(job)
        job = newest if newest.life == job.life else job
        node = self._home(job, slots) or self._node_id
        if node != self._node_id:
            self._make_files()
        native = job.spec.door is Door.NATIVE
        told = (
            executor_job(job, self._settings, self._packages, self._gpu_types(), self._node_id)
            if native
            else command_job(job, self._settings, self._packages, self._node_id)
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
                # If the node is lost, Ray makes the executor anew on another one. A soft affinity would not hold,
                # as Ray makes an actor that needs no CPU where it was asked for.
                label_selector={NODE_LABEL: node},
                fallback_strategy=[{"label_selector": {NODE_LABEL: f"!{node}"}}],
            )
            .remote(packed(told))
        )
        self._handles[actor_name(job)] = handle
        return handle

    def _make_files(self) -> None:
        """Make the actor that executors on other nodes need, once."""
        if self._has_files:
            return
        ray.remote(light(HeadFiles)).options(
            name=FILES_NAME,
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            num_cpus=0,
            max_concurrency=16,
            scheduling_strategy=NodeAffinitySchedulingStrategy(self._node_id, soft=False),
        ).remote(self._settings.state_dir)
        self._has_files = True

    def _kill(self, name: str, no_restart: bool) -> None:
        handle = self._find(name)
        if no_restart:
            self._handles.pop(name, None)  # first, so that nobody takes it for lost
        if handle is not None:
            ray.kill(handle, no_restart=no_restart)


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
