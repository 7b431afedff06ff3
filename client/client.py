"""The Python client: the same verbs as the `coadapt` command.

>>> import coadapt
>>> client = coadapt.connect()          # doctest: +SKIP
>>> job = client.submit("job.yaml")     # doctest: +SKIP
>>> client.wait([job])                  # doctest: +SKIP
"""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic import ValidationError

from ..core.cluster import Cluster, Node
from ..core.errors import JobStateError, PackageError, StateError
from ..core.job import JobSpec, Phase
from ..core.machine_states import MachineState
from ..core.output_tree import Name, Output
from ..core.ray_noise import without_ray_noise
from ..core.schemas import (
    ALL,
    MEASURING,
    ClusterView,
    ForkView,
    HealthView,
    JobDetails,
    JobRow,
    MachineRow,
    NodeRow,
    SubmitView,
    TimelineRow,
)
from ..core.service_names import NAMESPACE, SERVICE_NAME
from ..core.settings import Settings
from . import jobfile
from .cluster_record import ClusterRecord
from .fetch import Fetched, fetch
from .package import Packer
from .submit_check import of_spec, would_happen
from .user_name import user_name

if TYPE_CHECKING:
    from types import ModuleType

RETRY_S = 60.0
REACH_S = 10.0


class NoClusterError(RuntimeError):
    """No cluster, or no scheduler service on it; one sentence for a person."""


class UnknownJobError(KeyError):
    """No job has this id."""

    def __str__(self) -> str:
        return str(self.args[0])


def connect(address: str | None = None, *, state_dir: str | Path | None = None) -> Client:
    """Return a client of the running scheduler.

    Without an address: `COADAPT_ADDRESS` or `RAY_ADDRESS` of the environment, else the cluster that
    `coadapt up` recorded. Raises: NoClusterError.
    """
    address = address or os.environ.get("COADAPT_ADDRESS") or os.environ.get("RAY_ADDRESS")
    if address:
        return Client.connect(ClusterRecord(address, auth_mode=os.environ.get("RAY_AUTH_MODE", "")))
    record = ClusterRecord.load(state_dir)
    if record is None:
        raise NoClusterError('no cluster is running; start one with `coadapt up --emulate "1x a100:4, 2x t4:4"`')
    if not record.alive:
        raise NoClusterError(
            "the cluster that `coadapt up` started has ended; repeat that `coadapt up`, and jobs go on"
        )
    return Client.connect(record)


def cluster_of(view: ClusterView) -> Cluster:
    """Return the nodes that a client was shown, and those that sleep: jobs may wait for them."""
    asleep = (row for row in view["asleep"] if MachineState(row["state"]).is_awaited)
    return Cluster(
        (*(_node(row["id"], row) for row in view["nodes"]), *(_node(row["machine"], row) for row in asleep))
    )


def _node(id: str, row: NodeRow | MachineRow) -> Node:
    return Node(id, row["gpu_type"], row["gpus"], row["cpus"], row["memory_gib"], pool=row["pool"])


def settings_of(answer: object, address: str) -> Settings:
    """Read the settings that a service answers. Raises: NoClusterError for those of another version."""
    try:
        return Settings.model_validate(answer)
    except ValidationError as error:
        fields = ", ".join(sorted({str(found["loc"][0]) for found in error.errors() if found["loc"]}))
        raise NoClusterError(
            f"the scheduler at {address} is of another version than this client, which reads its settings "
            f"otherwise ({fields or 'all'}); use the same version of Coadapt for both"
        ) from None


class Client:
    """Talks to one scheduler service. Reading calls are repeated while the service restarts."""

    def __init__(self, service: Any, settings: Settings) -> None:
        self._service = service
        self.settings = settings

    @classmethod
    def connect(cls, record: ClusterRecord, timeout_s: float = RETRY_S) -> Client:
        """Connect to the service. Raises: NoClusterError where there is no cluster or no service on it."""
        ray = connected_ray(record)
        deadline = time.monotonic() + timeout_s
        try:
            service = ray.get_actor(SERVICE_NAME, namespace=NAMESPACE)
            settings = ray.get(service.settings.remote(), timeout=max(deadline - time.monotonic(), 1))
        except ValueError:
            raise NoClusterError(
                f"no scheduler runs on the cluster at {record.address}; start it with `coadapt up --address auto`"
            ) from None
        except ray.exceptions.GetTimeoutError:
            raise NoClusterError(
                f"the scheduler at {record.address} does not answer in {timeout_s:.0f} s"
            ) from None
        return cls(service, settings_of(settings, record.address))

    @classmethod
    def address_of(cls, record: ClusterRecord) -> str:
        """Connect to the cluster; return where it really is. Raises: NoClusterError where none answers."""
        return cast(str, connected_ray(record).get_runtime_context().gcs_address)

    # --- verbs --------------------------------------------------------------------------------------------

    def submit(
        self,
        job: JobSpec | str | Path,
        *,
        idempotency_key: str | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> str:
        """Send a job, given as a spec or as the path of a job file; returns its id.

        The working directory travels along. With an idempotency key, a repeated submit makes no second job.
        `tell` is called with a sentence for each kind of file that stays behind and is no known kind.

        Raises: jobfile.JobFileError for a file or folder that cannot be used, PackageError for a folder that
            is too large.
        """
        (job_id,) = self._submit([jobfile.located(job)], lambda _, text: tell(text), idempotency_key)
        return job_id

    def submit_all(
        self, jobs: Sequence[JobSpec], *, tell: Callable[[str, str], None] = lambda name, text: None
    ) -> Sequence[str]:
        """Send several jobs; returns their ids. None is submitted before the folders of all have arrived.

        `tell` is called as by `submit`, with the job's name before the sentence. Raises: as `submit` does.
        """
        return self._submit([jobfile.locate(job, Path.cwd()) for job in jobs], tell)

    def check(self, job: JobSpec | str | Path) -> SubmitView:
        """Say what would happen to a job if it were submitted: door, sizes, what would be refused."""
        nodes = cluster_of(self.cluster())
        return would_happen(job, nodes, self.settings.max_package_mib)

    def fork(
        self,
        job_id: str,
        steps: int | None = None,
        job: JobSpec | str | Path | None = None,
        *,
        name: str | None = None,
        idempotency_key: str | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> str:
        """Submit a job that starts from a checkpoint of another one; returns its id.

        Args:
            steps: of the checkpoint; by default the newest one.
            job: another job file or spec, whose script prepares the same model; by default the same job again.
            name: another name.

        Raises: JobStateError where there is no such checkpoint; as `submit` does.
        """
        key, changed = idempotency_key or uuid.uuid4().hex, dict[str, str]()
        if job is not None:
            spec, packer = jobfile.located(job), Packer(self.settings.max_package_mib)
            changed = packer.told(spec)
            found = self._would_fork(job_id, steps, changed)
            if found["refused"] and idempotency_key is None:
                raise JobStateError(found["refused"][0])
            for note in found["notes"]:
                tell(note)
            self._send(spec, lambda _, text: tell(text), packer)
        if name is not None:
            changed["name"] = jobfile.from_mapping({"name": name, "script": "-"}, "fork").name
        return cast(str, self.call("fork", job_id, steps, key, changed))

    def check_fork(
        self, job_id: str, steps: int | None = None, job: JobSpec | str | Path | None = None
    ) -> SubmitView:
        """Say what would become of a fork, with the arguments of `fork`; nothing is sent."""
        nodes, most_mib = cluster_of(self.cluster()), self.settings.max_package_mib
        packer, changed = Packer(most_mib), dict[str, str]()
        if job is None:
            view = of_spec(JobSpec.model_validate(self.describe(job_id)["spec"]), job_id, nodes)
        else:
            view = would_happen(job, nodes, most_mib, packer=packer)
            if view["name"] is None:
                return view
            with suppress(PackageError):  # the view tells it
                changed = packer.told(jobfile.located(job))
        found = self._would_fork(job_id, steps, changed)
        view["refused"] += found["refused"]
        start = [] if found["steps"] is None else [f"it starts from the checkpoint of step {found['steps']}"]
        view["notes"] = [*start, *found["notes"], *view["notes"]]
        return view

    def _would_fork(self, job_id: str, steps: int | None, changed: dict[str, str]) -> ForkView:
        return cast(ForkView, self.call("would_fork", job_id, steps, changed))

    def _submit(
        self, specs: Sequence[JobSpec], tell: Callable[[str, str], None], idempotency_key: str | None = None
    ) -> Sequence[str]:
        packer, owner = Packer(self.settings.max_package_mib), user_name()
        sent = [(self._send(spec, tell, packer), idempotency_key or uuid.uuid4().hex) for spec in specs]
        return [
            cast(str, self.call("submit", told["spec"], told["package"], key, told["script_key"], owner))
            for told, key in sent
        ]

    def _send(self, spec: JobSpec, tell: Callable[[str, str], None], packer: Packer) -> dict[str, str]:
        """Send a job's folder, and return what the service is told of the job."""
        package, new = packer.of(spec)
        for sentence in package.left_behind if new else ():
            tell(spec.name, sentence)
        if not self.call("has_package", package.name):
            self.call("put_package", package.name, package.data)
        return packer.told(spec)

    def list(self) -> list[JobRow]:
        return cast("list[JobRow]", self.call("list"))

    def describe(self, job_id: str) -> JobDetails:
        """Return all that is known of a job. Raises: UnknownJobError, as do all calls with a job id."""
        return cast(JobDetails, self.call("describe", job_id))

    def cancel(self, job_id: str) -> bool:
        """End a job; False if it had ended before."""
        return bool(self.call("cancel", job_id))

    def pause(self, job_id: str) -> bool:
        """Hold a job: it saves and gets no GPUs until it is resumed; False if it was paused before.

        Raises: JobStateError if it has ended.
        """
        return self._change(job_id, "pause")

    def resume(
        self,
        job_id: str,
        job: JobSpec | str | Path | None = None,
        *,
        tell: Callable[[str], None] = lambda text: None,
    ) -> bool:
        """Let a paused job take part again, or a failed or cancelled one go on from its last checkpoint.

        Args:
            job: a changed job file or spec, which counts when the job has left its GPUs.

        Raises: JobStateError if it is neither, or the file does not fit; with a file as `submit` does.
        """
        if job is None:
            return self._change(job_id, "resume")
        packer = Packer(self.settings.max_package_mib)
        sent = self._send(jobfile.located(job), lambda _, text: tell(text), packer)
        told = sent["spec"], sent["package"], sent["script_key"]
        return bool(self.call("resume_changed", job_id, *told, uuid.uuid4().hex))

    def requeue(self, job_id: str) -> bool:
        """Have a job give up its GPUs and wait again, or run again if it has ended; False if it waits already.

        Raises: JobStateError if it is paused.
        """
        return self._change(job_id, "requeue")

    def _change(self, job_id: str, verb: str) -> bool:
        return bool(self.call("change", job_id, verb, uuid.uuid4().hex))

    def logs(
        self,
        job_id: str,
        follow: bool = False,
        poll_s: float = 0.5,
        *,
        rank: int | Literal["all"] = 0,
        measuring: bool = False,
    ) -> Iterator[str]:
        """Yield the job's output in pieces, oldest first; with `follow` until the job has ended.

        Of one rank as it was written, or of all ranks, or with `measuring` of all profile runs, line by line, each
        after its source.
        """
        source = MEASURING if measuring else ALL if rank == "all" else f"rank-{rank}"
        offset = 0
        while True:
            text, following, done = self.call("logs", job_id, offset, source)
            if text:
                yield text
            elif following == offset:
                if done or not follow:
                    return
                time.sleep(poll_s)
            offset = following

    def log_sources(self, job_id: str) -> Sequence[str]:
        """Return what of the job has written something: `rank-0`, `profile-a100`, …"""
        return cast("Sequence[str]", self.call("log_sources", job_id))

    def outputs(self, job_id: str) -> Iterator[Output]:
        """Yield what the job's script wrote to its output folder, in order."""
        after: Name = ()
        while page := cast("list[Output]", self.call("output_page", job_id, after)):
            yield from page
            after = page[-1].name

    def fetch_outputs(self, job_id: str, dest: str | Path) -> Fetched:
        """Write the job's outputs into a folder. Files of the same size and time stay.

        Raises: OutputError where it cannot be written, or the outputs cannot be read.
        """
        return fetch(self, job_id, self.outputs(job_id), Path(dest).expanduser())

    def output_contents(self, job_id: str, names: Sequence[Name]) -> Sequence[bytes | None]:
        """Return the first few of these files' contents, as much as is sent at once."""
        return cast("Sequence[bytes | None]", self.call("output_contents", job_id, list(names)))

    def output_part(self, job_id: str, name: Name, offset: int) -> bytes | None:
        """Return one file from an offset on, as much as is sent at once."""
        return cast("bytes | None", self.call("output_part", job_id, name, offset))

    def health(self) -> HealthView:
        """Return how the service is: how old its last tick and round are, and whether it can store changes."""
        return cast(HealthView, self.call("health"))

    def cluster(self) -> ClusterView:
        return cast(ClusterView, self.call("cluster"))

    def machines(self) -> Sequence[MachineRow]:
        """Return every machine, also those whose nodes sleep, by name."""
        return cast("list[MachineRow]", self.call("machines"))

    def power(self, verb: str, machine: str) -> bool:
        """Do `sleep`, `wake`, `keep`, `unkeep` or `forget` to a machine. Return False if there is nothing to do.

        Raises: PowerError, in one sentence, where it cannot be done; UnknownJobError for an unknown machine.
        """
        return bool(self.call("power", verb, machine))

    def explain(self, job_id: str) -> dict[str, Any]:
        """Return why the job has what it has: `lines` for people, the other fields for programs."""
        return cast("dict[str, Any]", self.call("explain", job_id))

    def timeline(self, job_id: str | None = None) -> Sequence[TimelineRow]:
        """Return which GPUs each job held when, and with which batch size."""
        return cast("Sequence[TimelineRow]", self.call("timeline", job_id))

    def trace(self) -> Sequence[str]:
        """Return the jobs that succeeded as JSON lines, a trace that `coadapt simulate` replays."""
        return cast("Sequence[str]", self.call("trace"))

    def wait(
        self, job_ids: Sequence[str] | None = None, timeout_s: float | None = None, poll_s: float = 0.3
    ) -> dict[str, Phase]:
        """Wait until the jobs (all of them by default) have ended; job id -> phase.

        Raises: TimeoutError naming the jobs that have not; UnknownJobError.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            phases = {row["id"]: Phase(row["phase"]) for row in self.list()}
            chosen = list(phases) if job_ids is None else list(job_ids)
            for job_id in chosen:
                if job_id not in phases:
                    raise UnknownJobError(f"no job {job_id}")
            running = [job_id for job_id in chosen if not phases[job_id].is_terminal]
            if not running:
                return {job_id: phases[job_id] for job_id in chosen}
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"still not ended after {timeout_s:.0f} s: {', '.join(running)}")
            time.sleep(poll_s)

    def shutdown(self, grace_s: float = 20.0) -> None:
        """Let every job save and stop, and end the service. The jobs go on when it is started again."""
        import ray

        with suppress(ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError):
            ray.get(self._service.shutdown.remote(grace_s), timeout=2 * grace_s + 10)
        ray.kill(self._service, no_restart=True)
        self.close()

    def close(self) -> None:
        """Leave the cluster; jobs and service run on."""
        import ray

        ray.shutdown()

    # --- inside -------------------------------------------------------------------------------------------

    def call(self, method: str, *args: Any) -> Any:
        """Make one call; a service that restarts is waited for (every mutating call is idempotent).

        Raises: NoClusterError after a minute without an answer; what the service raised, by its own type.
        """
        import ray

        deadline = time.monotonic() + RETRY_S
        while True:
            try:
                return ray.get(getattr(self._service, method).remote(*args), timeout=RETRY_S)
            except ray.exceptions.RayTaskError as error:
                raise _original(error) from None
            except ray.exceptions.ActorUnavailableError:
                if time.monotonic() > deadline:
                    raise NoClusterError(f"the scheduler has not come back in {RETRY_S:.0f} s") from None
                time.sleep(0.1)
            except ray.exceptions.GetTimeoutError:
                raise NoClusterError(f"the scheduler does not answer in {RETRY_S:.0f} s") from None
            except ray.exceptions.RayActorError as error:
                raise NoClusterError(f"the scheduler has ended: {str(error).splitlines()[-1].strip()}") from None


def _original(error: Any) -> BaseException:
    """Return what the service raised."""
    cause = getattr(error, "cause", None)
    if type(cause).__module__ == "sqlite3":  # which no client loads
        return StateError(f"the scheduler cannot write its state directory: {cause}")
    if isinstance(cause, KeyError):
        return UnknownJobError(cause.args[0] if cause.args else str(cause))
    return cause if isinstance(cause, Exception) else error


def _reach(address: str) -> None:
    """Check that someone listens at `host:port`; Ray itself tries a dead address for many minutes, aloud.

    Raises: NoClusterError.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:  # "auto" and the like: Ray finds out by itself
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except (OSError, OverflowError) as error:
        raise NoClusterError(f"no Ray cluster answers at {address}: {error}") from None


def connected_ray(record: ClusterRecord) -> ModuleType:
    """Return Ray, connected to the cluster. Raises: NoClusterError."""
    if record.auth_mode:
        os.environ.update(record.environment())
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if record.address not in (here, "auto"):
            raise NoClusterError(f"this process is connected to the Ray cluster at {here}, not {record.address}")
        return ray
    _reach(record.address)
    try:
        with without_ray_noise():
            ray.init(address=record.address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        hint = (
            "" if os.environ.get("RAY_AUTH_MODE") == "token" else "; if it takes a token, set RAY_AUTH_MODE=token"
        )
        raise NoClusterError(f"no Ray cluster answers at {record.address}: {reason}{hint}") from None
    # Ray prints pages to every driver's terminal when any worker of the cluster dies. It has no public switch
    # for that. A job's events say the same in a line.
    ray._private.worker._worker_logs_enabled = False
    return ray
