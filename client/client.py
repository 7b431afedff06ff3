"""The Python client: the same verbs as the `coadapt` command.

>>> import coadapt
>>> client = coadapt.connect()          # doctest: +SKIP
>>> job = client.submit("job.yaml")     # doctest: +SKIP
>>> client.wait([job])                  # doctest: +SKIP
"""

from __future__ import annotations

import base64
import json
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast
from urllib.parse import quote

from ..core.cluster import Cluster, Node
from ..core.errors import JobStateError, PackageError
from ..core.identity import Role
from ..core.json_numbers import dumps
from ..core.machine_states import MachineState
from ..core.output_tree import Entry, Kind, Name, Output
from ..core.phase import Phase
from .cluster_record import ClusterRecord
from .http_api import RETRY_S, AccessError, HttpApi, NoClusterError, RequestError, UnknownJobError
from .login import Login

# The other modules of a client are loaded by what needs them: most commands only ask and show.
if TYPE_CHECKING:
    from ..core.job import JobSpec
    from ..core.schemas import (
        AuditView,
        BackupView,
        ClusterView,
        DeadlineView,
        ForkView,
        HealthView,
        JobDetails,
        JobRow,
        MachineRow,
        MetricsView,
        NodeRow,
        OrderView,
        PrunedRow,
        RoundRow,
        SecretRow,
        SettingRow,
        SubmitView,
        TeamsChange,
        TeamsView,
        TimelineRow,
        UsageSum,
        WebhookRow,
        WhatIfView,
        WindowRow,
    )
    from ..core.settings import Settings
    from .fetch import Fetched
    from .package import Packer
    from .team_check import TeamCheck

__all__ = [
    "RETRY_S",
    "AccessError",
    "Client",
    "NoClusterError",
    "RequestError",
    "UnknownJobError",
    "cluster_of",
    "connect",
    "settings_of",
]
PAGE = 500  # rows of jobs that are asked for at a time
RECONNECT_S = 0.5  # after a server has ended a stream that is not over


def connect(
    address: str | None = None, *, state_dir: str | Path | None = None, token: str | None = None
) -> Client:
    """Return a client of the running scheduler.

    Args:
        address: its URL. Without one: `COADAPT_ADDRESS` of the environment, else the cluster that `coadapt up`
            recorded, else the one that `coadapt login` was told.
        token: by default `COADAPT_TOKEN` of the environment, else what `coadapt up` or `coadapt login` has stored.

    Raises: NoClusterError; AccessError.
    """
    address, token = address or os.environ.get("COADAPT_ADDRESS"), token or os.environ.get("COADAPT_TOKEN")
    if address:
        return Client(HttpApi(url_of(address), token or Login.token_of(url_of(address), state_dir)))
    record = ClusterRecord.load(state_dir)
    if record is None and (login := Login.load(state_dir)) is not None:
        return Client(HttpApi(login.url, token or login.token))
    if record is None:
        raise NoClusterError(
            'no cluster is running; start one with `coadapt up --emulate "1x a100:4, 2x t4:4"`, '
            "or give the URL of another one to `coadapt login`"
        )
    if not record.alive:
        raise NoClusterError(
            "the cluster that `coadapt up` started has ended; repeat that `coadapt up`, and jobs go on"
        )
    return Client.connect(record)


def url_of(address: str) -> str:
    """Return an address as a URL. Raises: NoClusterError for one that is none."""
    if not address.startswith(("http://", "https://")):
        raise NoClusterError(f"{address} is not the URL of a scheduler, such as http://127.0.0.1:8420")
    return address.rstrip("/")


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
    from pydantic import ValidationError

    from ..core.settings import Settings

    try:
        return Settings.model_validate(answer)
    except ValidationError as error:
        fields = ", ".join(sorted({str(found["loc"][0]) for found in error.errors() if found["loc"]}))
        raise NoClusterError(
            f"the scheduler at {address} is of another version than this client, which reads its settings "
            f"otherwise ({fields or 'all'}); use the same version of Coadapt for both"
        ) from None


class Client:
    """Talks to one scheduler. Requests are repeated while it restarts."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api
        self._settings: Settings | None = None

    @classmethod
    def connect(cls, record: ClusterRecord, timeout_s: float = RETRY_S) -> Client:
        """Connect to the cluster of a record. Raises: NoClusterError where no scheduler answers there."""
        if not record.url:
            raise NoClusterError(
                "the cluster that `coadapt up` recorded has no scheduler that answers; repeat that `coadapt up`"
            )
        return cls(HttpApi(record.url, record.token(), timeout_s, record.fingerprint()))

    @property
    def url(self) -> str:
        """Return where the scheduler is."""
        return self._api.url

    @property
    def token(self) -> str:
        """Return the token by which it asks; "" if there is none."""
        return self._api.token

    @property
    def settings(self) -> Settings:
        """Return the settings of the service, as they were when they were first asked for."""
        if self._settings is None:
            self._settings = settings_of(self._api.get("/v1/settings"), self.url)
        return self._settings

    def me(self) -> dict[str, str]:
        """Return who asks: `user`, `role` and `token_id`."""
        return cast("dict[str, str]", self._api.get("/v1/me"))

    def page_key(self) -> dict[str, Any]:
        """Make a `key` with which a browser signs in once, as oneself."""
        return cast("dict[str, Any]", self._api.post("/v1/page-keys"))

    # --- verbs --------------------------------------------------------------------------------------------

    def submit(
        self,
        job: JobSpec | str | Path,
        *,
        idempotency_key: str | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> str:
        """Send a job, given as a spec or as the path of a job file; returns its id, or that of an array.

        The working directory travels along. With an idempotency key, a repeated submit makes no second job.
        `tell` is called with a sentence for each kind of file that stays behind and is no known kind.

        Raises: jobfile.JobFileError for a file or folder that cannot be used, PackageError for a folder that
            is too large.
        """
        from . import jobfile

        (job_id,) = self._submit([jobfile.located(job)], lambda _, text: tell(text), idempotency_key)
        return job_id

    def submit_told(self, told: Mapping[str, Any], idempotency_key: str) -> str:
        """Send a job whose folder is there already; returns its id. A repeated key makes no second job.

        Args:
            told: its `spec`, the name of its `package`, and its `script_key`.
        """
        return cast(str, self._api.post("/v1/jobs", told, key=idempotency_key)["id"])

    def submit_all(
        self, jobs: Sequence[JobSpec], *, tell: Callable[[str, str], None] = lambda name, text: None
    ) -> Sequence[str]:
        """Send several jobs; returns their ids. None is submitted before the folders of all have arrived.

        `tell` is called as by `submit`, with the job's name before the sentence. Raises: as `submit` does.
        """
        from . import jobfile

        return self._submit([jobfile.locate(job, Path.cwd()) for job in jobs], tell)

    def check(self, job: JobSpec | str | Path) -> SubmitView:
        """Say what would happen to a job if it were submitted: door, sizes, what is refused, its deadline."""
        from . import jobfile
        from .submit_check import with_deadline, would_happen

        nodes = cluster_of(self.cluster())
        most_mib = self.settings.max_package_mib
        found = would_happen(job, nodes, most_mib, secrets=self.secrets, teams=self.team_check)
        if found["name"] is None:
            return found
        return with_deadline(found, jobfile.located(job), lambda: self.deadline(submit=job))

    def team_check(self, spec: JobSpec) -> TeamCheck:
        """Say what teams would make of a job of one's own, and the checkpoint that it starts from."""
        from ..core.job_relations import source_of
        from .team_check import with_team

        found = with_team(spec, self.me()["user"], self.teams())
        if spec.resume_from is None:
            return found
        job, steps = source_of(spec.resume_from)
        named = self.jobs(name=job)
        if len(named) != 1:
            told = f"no job {job}" if not named else f"several jobs are named {job}; give the id of one"
            return found.also(refused=[f"resume_from: {told}"])
        changed = {"spec": spec.model_dump(mode="json", exclude_unset=True), "package": "0" * 64}
        view = self._would_fork(named[0]["id"], steps, changed)
        start = f"it starts from the checkpoint of step {view['steps']} of {named[0]['id']}"
        notes = view["notes"] if view["steps"] is None else [start, *view["notes"]]
        return found.also([f"resume_from: {one}" for one in view["refused"]], notes)

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
        from . import jobfile
        from .package import Packer

        key, changed = idempotency_key or uuid.uuid4().hex, dict[str, Any]()
        if job is not None:
            spec, packer = jobfile.located(job), Packer(self.settings.max_package_mib)
            changed = _told(packer.told(spec))
            found = self._would_fork(job_id, steps, changed)
            if found["refused"] and idempotency_key is None:
                raise JobStateError(found["refused"][0])
            for note in found["notes"]:
                tell(note)
            self._send(spec, lambda _, text: tell(text), packer)
        if name is not None:
            changed["name"] = jobfile.from_mapping({"name": name, "script": "-"}, "fork").name
        return cast(str, self._api.post(f"{_path(job_id)}/fork", {"steps": steps, **changed}, key=key)["id"])

    def check_fork(
        self, job_id: str, steps: int | None = None, job: JobSpec | str | Path | None = None
    ) -> SubmitView:
        """Say what would become of a fork, with the arguments of `fork`; nothing is sent."""
        from ..core.job import JobSpec
        from . import jobfile
        from .package import Packer
        from .submit_check import of_spec, would_happen

        nodes, most_mib = cluster_of(self.cluster()), self.settings.max_package_mib
        packer, changed = Packer(most_mib), dict[str, Any]()
        if job is None:
            spec = JobSpec.model_validate(self.describe(job_id)["spec"])
            view = of_spec(spec, job_id, nodes, secrets=self.secrets, teams=self.team_check)
        else:
            view = would_happen(job, nodes, most_mib, packer=packer, secrets=self.secrets, teams=self.team_check)
            if view["name"] is None:
                return view
            with suppress(PackageError):  # the view tells it
                changed = _told(packer.told(jobfile.located(job)))
        found = self._would_fork(job_id, steps, changed)
        view["refused"] += found["refused"]
        start = [] if found["steps"] is None else [f"it starts from the checkpoint of step {found['steps']}"]
        view["notes"] = [*start, *found["notes"], *view["notes"]]
        return view

    def _would_fork(self, job_id: str, steps: int | None, changed: dict[str, Any]) -> ForkView:
        body = {"steps": steps, "dry_run": True, **changed}
        return cast("ForkView", self._api.post(f"{_path(job_id)}/fork", body, key=uuid.uuid4().hex))

    def _submit(
        self, specs: Sequence[JobSpec], tell: Callable[[str, str], None], idempotency_key: str | None = None
    ) -> Sequence[str]:
        from .package import Packer

        packer = Packer(self.settings.max_package_mib)
        sent = [(self._send(spec, tell, packer), idempotency_key or uuid.uuid4().hex) for spec in specs]
        return [cast(str, self._api.post("/v1/jobs", told, key=key)["id"]) for told, key in sent]

    def _send(self, spec: JobSpec, tell: Callable[[str, str], None], packer: Packer) -> dict[str, Any]:
        """Send a job's folder, and return what the service is told of the job."""
        package, new = packer.of(spec)
        for sentence in package.left_behind if new else ():
            tell(spec.name, sentence)
        path = f"/v1/packages/{package.name}"
        if not self._api.get(path)["there"]:
            self._api.put(path, package.data)
        return _told(packer.told(spec))

    def list(self) -> list[JobRow]:
        """Return all jobs, in order of submission."""
        return [*self.jobs()]

    def jobs(
        self,
        *,
        phases: Sequence[Phase] = (),
        owner: str | None = None,
        name: str | None = None,
        ids: Sequence[str] = (),
        most: int | None = None,
        team: str | None = None,
        array: str | None = None,
    ) -> Sequence[JobRow]:
        """Return the newest jobs that fit, in order of submission.

        Args:
            phases, owner, ids, team, array: only those; by default of all.
            name: only jobs with that name or id.
            most: so many; None: all.
        """
        if len(ids) > PAGE:
            return [row for at in range(0, len(ids), PAGE) for row in self.jobs(ids=ids[at : at + PAGE])]
        rows, cursor = cast("list[JobRow]", []), None
        while most is None or len(rows) < most:
            limit = PAGE if most is None else min(PAGE, most - len(rows))
            told = {"phase": [one.value for one in phases] or None, "owner": owner, "name": name}
            told["id"] = [*ids] or None
            told |= {"team": team, "array": array}
            page = self._api.get("/v1/jobs", limit=limit, cursor=cursor, **told)
            rows += page["items"]
            if (cursor := page["next"]) is None:
                break
        return rows[::-1]

    def describe(self, job_id: str) -> JobDetails:
        """Return all that is known of a job. Raises: UnknownJobError, as do all calls with a job id."""
        return cast("JobDetails", self._api.get(_path(job_id)))

    def cancel(self, job_id: str, *, now: bool = False) -> bool:
        """End a job; one that trains saves first. False if it had ended before, or saves already.

        Args:
            now: whether it ends at once, also where it saves already. Nothing is saved then.
        """
        return bool(self._api.post(f"{_path(job_id)}/cancel{'?now=true' if now else ''}")["changed"])

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
        from . import jobfile
        from .package import Packer

        packer = Packer(self.settings.max_package_mib)
        return self._change(job_id, "resume", self._send(jobfile.located(job), lambda _, text: tell(text), packer))

    def requeue(self, job_id: str) -> bool:
        """Have a job give up its GPUs and wait again, or run again if it has ended; False if it waits already.

        Raises: JobStateError if it is paused.
        """
        return self._change(job_id, "requeue")

    def set_priority(self, job_id: str, priority: str) -> bool:
        """Let a job's progress be worth more or less: low, normal, high or urgent. False if it was so before.

        Raises: JobStateError if it has ended; RequestError for one that its team does not allow.
        """
        return self._change(job_id, "priority", {"priority": priority})

    def set_weight(self, job_id: str, weight: float) -> bool:
        """Let the progress of a job be worth more or less, 0.01 to 1; return False if there is nothing to do."""
        return self._change(job_id, "weight", {"weight": weight})

    def hold(self, job_id: str) -> bool:
        """Let a job start on no GPUs until it is released; what it has it keeps. False if it was held before."""
        return self._change(job_id, "hold")

    def release(self, job_id: str) -> bool:
        """Let a job that is on hold start again. False if it was not."""
        return self._change(job_id, "release")

    def bump(self, job_id: str) -> bool:
        """Let a job come first among one's own that wait. Raises: JobStateError if it has ended."""
        return self._change(job_id, "bump")

    def extend(self, job_id: str, by_s: float) -> bool:
        """Move the time limit of a job by so many seconds. Raises: JobStateError if it has none."""
        return self._change(job_id, "extend", {"by_s": by_s})

    def keep_trials(self, job_id: str, trials: Sequence[int], *, with_state: bool = False) -> bool:
        """Have a group train only these of its trials on; return False if there is nothing to do.

        Args:
            with_state: whether the others' states stay in its checkpoint, for jobs whose trials go on from it.
        """
        return self._change(job_id, "keep", {"trials": list(trials), "with_state": with_state})

    def _change(self, job_id: str, verb: str, body: dict[str, Any] | None = None) -> bool:
        body = {} if body is None and verb == "resume" else body
        return bool(self._api.post(f"{_path(job_id)}/{verb}", body, key=uuid.uuid4().hex)["changed"])

    def logs(
        self,
        job_id: str,
        follow: bool = False,
        *,
        rank: int | Literal["all"] = 0,
        measuring: bool = False,
        tail: int | None = None,
        since_s: float | None = None,
    ) -> Iterator[str]:
        """Yield the job's output in pieces, oldest first; with `follow` until the job has ended.

        Of one rank as it was written, or of all ranks, or with `measuring` of all profile runs, line by line, each
        after its source.

        Args:
            tail: begin with so many of the newest lines; None: with the first.
            since_s: begin with what was written in the last `since_s` seconds.

        Raises: KeyError; ValueError for a negative rank or number.
        """
        from ..core.schemas import ALL, MEASURING

        if rank != "all" and rank < 0:
            raise ValueError(f"rank: {rank} is no rank; ranks count from 0")
        if tail is not None and tail < 0:
            raise ValueError(f"tail: {tail} is no number of lines; it must be 0 or more")
        if since_s is not None and not since_s >= 0:
            raise ValueError(f"since_s: {since_s} is no number of seconds; it must be 0 or more")
        source = MEASURING if measuring else ALL if rank == "all" else f"rank-{rank}"
        begin = {"tail": tail, "last_s": since_s}
        if not follow:
            return self._written(job_id, {"source": source, **begin})
        which = {"source": source} if measuring else {"rank": rank}  # one that the job cannot have is refused
        return self._followed(job_id, which, begin)

    def _written(self, job_id: str, told: dict[str, Any]) -> Iterator[str]:
        """Yield what was written until now."""
        path = f"{_path(job_id)}/logs"
        part = self._api.get(path, **told)
        while True:
            yield from [part["text"]] if part["text"] else []
            following = part["next"]
            part = self._api.get(path, offset=following, source=told["source"])
            if part["next"] == following:
                return

    def _followed(self, job_id: str, which: dict[str, Any], begin: dict[str, Any]) -> Iterator[str]:
        """Yield what is written until the job has ended. The server says when that is."""
        ended = False
        while not ended:
            for event in self._api.stream(f"{_path(job_id)}/logs", follow="true", **which, **begin):
                ended = event.kind == "end"
                if event.kind == "text":
                    begin = {"offset": event.data["next"]}
                    yield event.data["text"]
            if not ended:  # the server has stopped, or does not let this user read on
                self.me()
                time.sleep(RECONNECT_S)

    def events(
        self,
        job_id: str | None = None,
        *,
        last: int = 200,
        kinds: Sequence[str] = (),
        since_s: float | None = None,
    ) -> Sequence[dict[str, Any]]:
        """Return the newest events of a job or of all that one may see, oldest first; at most 1,000.

        Args:
            kinds: only these; by default all but plans of rounds.
            since_s: seconds since 1970.
        """
        told = {"last": last, "job": job_id, "kind": [*kinds] or None, "since_s": since_s}
        return cast("list[dict[str, Any]]", self._api.get("/v1/events", follow="false", **told))

    def follow_events(
        self, job_id: str | None = None, *, after: int | None = None, kinds: Sequence[str] = ()
    ) -> Iterator[dict[str, Any]]:
        """Yield events as they happen, for ever.

        Args:
            after: the number of the last one that is known; None: only new ones.
        """
        while True:
            for event in self._api.stream("/v1/events", job=job_id, after=after, kind=[*kinds] or None):
                after = event.data["number"]
                yield event.data
            self.me()  # the server has stopped, or does not let this user read on
            time.sleep(RECONNECT_S)

    def log_sources(self, job_id: str) -> Sequence[str]:
        """Return what of the job has written something: `rank-0`, `profile-a100`, …"""
        return tuple(self._api.get(f"{_path(job_id)}/log-sources"))

    def begin_study(
        self,
        study: Mapping[str, Any],
        job: JobSpec,
        *,
        tell: Callable[[str], None] = lambda text: None,
        dry_run: bool = False,
    ) -> str | None:
        """Begin a study, whose trials are of a job; return its id.

        Args:
            study: the fields of its file, without the job's.
            dry_run: only have it checked.

        Raises: RequestError for what is not accepted; as `submit` does.
        """
        from .package import Packer

        packer = Packer(self.settings.max_package_mib)
        told = _told(packer.told(job)) if dry_run else self._send(job, lambda _, text: tell(text), packer)
        body = {"study": dict(study), "job": told, "dry_run": dry_run}
        return cast("str | None", self._api.post("/v1/studies", body, key=uuid.uuid4().hex)["id"])

    def studies(self) -> Sequence[dict[str, Any]]:
        """Return one's own studies, the oldest first; to operators, those of all."""
        return cast("list[dict[str, Any]]", self._api.get("/v1/studies"))

    def study(self, study_id: str) -> dict[str, Any]:
        """Return all that is known of a study. Raises: UnknownJobError for one that is not there."""
        return cast("dict[str, Any]", self._api.get(f"/v1/studies/{quote(study_id, safe=':')}"))

    def cancel_study(self, study_id: str) -> bool:
        """End a study and its jobs; return False where it was over."""
        path = f"/v1/studies/{quote(study_id, safe=':')}/cancel"
        return bool(self._api.post(path, {}, key=uuid.uuid4().hex)["changed"])

    def outputs(self, job_id: str) -> Iterator[Output]:
        """Yield what the job's script wrote to its output folder, in order."""
        cursor = None
        while True:
            page = self._api.get(f"{_path(job_id)}/outputs", cursor=cursor)
            yield from (_output(row) for row in page["items"])
            if (cursor := page["next"]) is None:
                return

    def fetch_outputs(self, job_id: str, dest: str | Path) -> Fetched:
        """Write the job's outputs into a folder. Files of the same size and time stay.

        Raises: OutputError where it cannot be written, or the outputs cannot be read.
        """
        from .fetch import fetch

        return fetch(self, job_id, self.outputs(job_id), Path(dest).expanduser())

    def output_contents(self, job_id: str, names: Sequence[Name]) -> Sequence[bytes | None]:
        """Return the first few of these files' contents, as much as is sent at once."""
        found = self._api.post(f"{_path(job_id)}/outputs/contents", {"names": [list(name) for name in names]})
        return [None if coded is None else base64.b64decode(coded) for coded in found["contents"]]

    def output_part(self, job_id: str, name: Name, offset: int) -> bytes | None:
        """Return one file from an offset on, as much as is sent at once."""
        try:
            return self._api.post_for_bytes(
                f"{_path(job_id)}/outputs/part", {"name": list(name), "offset": offset}
            )
        except UnknownJobError:
            return None

    def health(self) -> HealthView:
        """Return how the service is: how old its last tick and round are, and whether it can store changes."""
        return cast("HealthView", self._api.get("/v1/health"))

    def cluster(self) -> ClusterView:
        return cast("ClusterView", self._api.get("/v1/cluster"))

    def rounds(self, *, most: int = 20, since_s: float | None = None) -> Sequence[RoundRow]:
        """Return what the last rounds decided, newest first. `since_s`: seconds since 1970."""
        rows, cursor = cast("list[RoundRow]", []), None
        while len(rows) < most:
            page = self._api.get("/v1/rounds", limit=min(most - len(rows), 500), cursor=cursor, since_s=since_s)
            rows += page["items"]
            if (cursor := page["next"]) is None:
                break
        return rows

    def audit(
        self,
        *,
        user: str | None = None,
        job: str | None = None,
        verb: str | None = None,
        since_s: float | None = None,
        most: int | None = None,
        oldest_first: bool = False,
    ) -> Iterator[AuditView]:
        """Yield who changed what, newest first: so many rows, or all. Raises: AccessError for who is no operator.

        Args:
            verb: such as `job.cancel`, or `job` for all that begin so.
            since_s: seconds since 1970.
        """
        told = {"user": user, "job": job, "verb": verb, "since_s": since_s}
        return self._audit(told | {"oldest_first": str(oldest_first).lower()}, most)

    def _audit(self, told: dict[str, Any], most: int | None) -> Iterator[AuditView]:
        cursor, left = None, float("inf") if most is None else most
        while left > 0:
            page = self._api.get("/v1/audit", limit=int(min(left, 1000)), cursor=cursor, **told)
            yield from page["items"]
            left -= len(page["items"])
            if (cursor := page["next"]) is None:
                return

    def audit_broken(self) -> tuple[int, str]:
        """Look over the whole audit log here. Return how many rows it has, and what is broken; "": nothing."""
        from ..core.audit import AuditRow, ChainCheck

        told, check, cursor = {"oldest_first": "true"}, ChainCheck(), None
        while True:
            page = self._api.get("/v1/audit", limit=1000, cursor=cursor, **told)
            for row in page["items"]:
                check.see(AuditRow(**row))
            if (cursor := page["next"]) is None:
                head = None if page["head"] is None else (int(page["head"][0]), str(page["head"][1]))
                return check.rows, check.end(head)

    def metrics(self, job_id: str) -> MetricsView:
        """Return the history of a job's metrics. Raises: UnknownJobError."""
        return cast("MetricsView", self._api.get(f"{_path(job_id)}/metrics"))

    def settings_rows(self) -> Sequence[SettingRow]:
        """Return all settings of the scheduler as they count now."""
        return cast("list[SettingRow]", self._api.get("/v1/settings/rows"))

    def change_settings(self, wanted: Mapping[str, Any]) -> Sequence[str]:
        """Let other settings count from the next round on; return the names of those that are new.

        A key such as `retention.event_days` names a part of one. They last over restarts.

        Raises: SettingError, in one sentence, for a setting that is unknown, out of range or names a place.
        """
        return tuple(self._api.patch("/v1/settings", wanted)["changed"])

    def backup(self, file: Path | None = None) -> BackupView:
        """Have the service write a verified backup of its job store; with a file, also write that here.

        Raises: StoreError, in one sentence, where it cannot be written.
        """
        found = cast("BackupView", self._api.post("/v1/backups"))
        if file is None:
            return found
        from .backup_file import fetched_backup

        return fetched_backup(self, found, file)

    def backup_part(self, name: str, offset: int) -> bytes:
        """Return a backup from an offset on, as much as is sent at once."""
        return self._api.content(f"/v1/backups/{quote(name, safe='')}", offset=offset)

    def prune(self, *, dry_run: bool = False) -> Sequence[PrunedRow]:
        """Remove what is older or more than the settings of retention keep, or only say what that is."""
        return cast("list[PrunedRow]", self._api.post("/v1/prune", {"dry_run": dry_run}))

    def machines(self) -> Sequence[MachineRow]:
        """Return every machine, also those whose nodes sleep, by name."""
        return cast("list[MachineRow]", self._api.get("/v1/machines"))

    def power(self, verb: str, machine: str) -> bool:
        """Do `sleep`, `wake`, `keep`, `unkeep` or `forget` to a machine. Return False if there is nothing to do.

        Raises: PowerError, in one sentence, where it cannot be done; UnknownJobError for an unknown machine.
        """
        return bool(self._api.post(f"/v1/machines/{quote(machine, safe='')}/{verb}")["changed"])

    def cordon(self, node: str, why: str = "") -> OrderView:
        """Give a node no new work; what runs there stays. Raises: UnknownJobError for an unknown node."""
        return cast("OrderView", self._api.post(_node_path(node, "cordon"), {"why": why}))

    def drain(self, node: str, deadline_s: float | None = None, why: str = "") -> OrderView:
        """Have a node left by what runs there.

        Args:
            deadline_s: by when, in seconds from now. Jobs save at once, and move or leave in time.

        Raises: UnknownJobError for an unknown node; RequestError for a deadline that has passed.
        """
        return cast("OrderView", self._api.post(_node_path(node, "drain"), {"deadline_s": deadline_s, "why": why}))

    def uncordon(self, node: str) -> OrderView:
        """Take back `cordon` and `drain`. Raises: UnknownJobError; RequestError where others close it."""
        return cast("OrderView", self._api.post(_node_path(node, "uncordon")))

    def windows(self) -> Sequence[WindowRow]:
        """Return all maintenance windows, the next one first."""
        return cast("list[WindowRow]", self._api.get("/v1/windows"))

    def add_window(
        self,
        begins_s: float,
        ends_s: float,
        nodes: Sequence[str] = (),
        gpu_type: str = "",
        lead_s: float | None = None,
        why: str = "",
    ) -> WindowRow:
        """Keep nodes, or all of a GPU type, free from one moment to another, in seconds since 1970.

        Raises: UnknownJobError for an unknown node; RequestError for a window that cannot be.
        """
        told = {"begins_s": begins_s, "ends_s": ends_s, "nodes": [*nodes], "gpu_type": gpu_type, "why": why}
        return cast("WindowRow", self._api.post_once("/v1/windows", {**told, "lead_s": lead_s}))

    def remove_window(self, window: str) -> WindowRow:
        """Forget a maintenance window. Raises: UnknownJobError where there is none."""
        return cast("WindowRow", self._api.delete(f"/v1/windows/{quote(window, safe='')}"))

    def explain(self, job_id: str) -> dict[str, Any]:
        """Return why the job has what it has: `lines` for people, the other fields for programs."""
        return cast("dict[str, Any]", self._api.get(f"{_path(job_id)}/explain"))

    def whatif(
        self,
        *,
        submit: Sequence[JobSpec | str | Path] = (),
        like: Sequence[str] = (),
        nodes: str = "",
        without: Sequence[str] = (),
        policy: str | None = None,
        policy_options: Mapping[str, Any] | None = None,
        team: Mapping[str, Mapping[str, Any]] | None = None,
        teams: Mapping[str, Any] | None = None,
    ) -> WhatIfView:
        """Say when every job would start and end after a change, and before. Nothing is changed, nor sent.

        Args:
            submit: jobs that would be submitted, as `submit` takes them.
            like: ids of jobs that would be submitted once more.
            nodes: that come and go, as "+4x a100:8, -1x t4:4".
            without: nodes that go.
            policy: that plans instead, with its options.
            team: by team, what its file would say otherwise.
            teams: a whole file of teams that would be applied instead.

        Raises: RequestError for what cannot be; jobfile.JobFileError for a file that cannot be used.
        """
        from . import jobfile
        from .package import Packer

        packer = Packer(self.settings.max_package_mib)
        jobs = [_told(packer.told(jobfile.located(job))) for job in submit]
        body = {
            "submit": [{"spec": job["spec"], "script_key": job["script_key"]} for job in jobs],
            "like": list(like),
            "nodes": nodes,
            "without": list(without),
            "policy": policy,
            "policy_options": dict(policy_options or {}),
            "team": {name: dict(told) for name, told in (team or {}).items()},
            **({} if teams is None else {"teams": dict(teams)}),
        }
        return cast("WhatIfView", self._api.post("/v1/whatif", body))

    def deadline(self, job_id: str = "", *, submit: JobSpec | str | Path | None = None) -> DeadlineView:
        """Say whether a job's deadline will hold, and what would have to give if not. Nothing is submitted.

        Args:
            job_id: of a job that has a deadline; "": of `submit`, as `Client.submit` takes it.

        Raises: RequestError for a job without a deadline; UnknownJobError; jobfile.JobFileError.
        """
        if submit is None:
            return cast("DeadlineView", self._api.post("/v1/deadline", {"job": job_id}))
        from . import jobfile
        from .package import Packer

        job = _told(Packer(self.settings.max_package_mib).told(jobfile.located(submit)))
        body = {"submit": {"spec": job["spec"], "script_key": job["script_key"]}}
        return cast("DeadlineView", self._api.post("/v1/deadline", body))

    def timeline(self, job_id: str | None = None) -> Sequence[TimelineRow]:
        """Return which GPUs each job held when, and with which batch size."""
        path = "/v1/timeline" if job_id is None else f"{_path(job_id)}/timeline"
        return cast("Sequence[TimelineRow]", self._api.get(path))

    def trace(self) -> Sequence[str]:
        """Return the jobs that succeeded as JSON lines, a trace that `coadapt simulate` replays."""
        return self._api.text("/v1/trace").splitlines()

    def wait(
        self, job_ids: Sequence[str] | None = None, timeout_s: float | None = None, poll_s: float = 0.3
    ) -> dict[str, Phase]:
        """Wait until the jobs (all of them by default) have ended; job id -> phase.

        The id of an array stands for all its jobs.

        Raises: TimeoutError naming the jobs that have not; UnknownJobError.
        """
        if job_ids is not None:
            job_ids = [one for job_id in job_ids for one in self._jobs_of(job_id)]
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            rows = self.list() if job_ids is None else self.jobs(ids=[*dict.fromkeys(job_ids)])
            phases = {row["id"]: Phase(row["phase"]) for row in rows}
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

    def _jobs_of(self, job_id: str) -> Sequence[str]:
        """Return the ids of the jobs of an array, or the id of a job itself."""
        if "+" not in job_id:
            return [job_id]
        if not (rows := self.jobs(array=job_id)):
            raise UnknownJobError(f"no array {job_id}")
        return [row["id"] for row in rows]

    def users(self) -> Sequence[dict[str, Any]]:
        """Return all users. Raises: AccessError for who is no operator."""
        return cast("Sequence[dict[str, Any]]", self._api.get("/v1/users"))

    def put_user(self, name: str, role: Role, *, disabled: bool = False) -> bool:
        """Make a user or change its role. Return False if nothing changes. Raises: AccessError; RequestError."""
        body = dumps({"role": role.value, "disabled": disabled}).encode()
        return bool(self._api.put(f"/v1/users/{quote(name, safe='')}", body, "application/json")["changed"])

    def tokens(self) -> Sequence[dict[str, Any]]:
        """Return one's own tokens; an operator gets those of all."""
        return cast("Sequence[dict[str, Any]]", self._api.get("/v1/tokens"))

    def new_token(self, user: str | None = None, label: str = "", days: float | None = None) -> dict[str, Any]:
        """Make a token and return it, this once. Raises: AccessError; RequestError."""
        told = {"user": user, "label": label, "days": days}
        return cast("dict[str, Any]", self._api.post_once("/v1/tokens", told))

    def revoke_token(self, token_id: str) -> bool:
        """Revoke a token. Return False if it was revoked before. Raises: UnknownJobError if there is none."""
        return bool(self._api.delete(f"/v1/tokens/{quote(token_id, safe='')}")["changed"])

    def usage(self, by: Sequence[str] = ("team", "user"), since_s: float | None = None) -> Sequence[UsageSum]:
        """Return what was used, the most first: value units and GPU-hours.

        Args:
            by: some of team, user and type.
            since_s: seconds since 1970; by default 30 days ago.
        """
        return cast("list[UsageSum]", self._api.get("/v1/usage", by=list(by), since_s=since_s))

    def teams(self) -> TeamsView:
        """Return the teams that share the cluster; of others' teams without users."""
        return cast("TeamsView", self._api.get("/v1/teams"))

    def check_teams(self, values: Mapping[str, Any]) -> TeamsChange:
        """Say what a file of teams would change. Raises: RequestError for one that cannot be read."""
        return cast("TeamsChange", self._api.put_json("/v1/teams", {"file": dict(values), "dry_run": True}))

    def apply_teams(self, values: Mapping[str, Any], *, version: str | None = None) -> TeamsChange:
        """Let a file of teams count from the next round on, and return what that changes.

        Args:
            values: of the file, as `core.teams.Teams` has them.
            version: of the teams that the file was compared with; others than those refuse it.
        """
        body = {"file": dict(values), "version": version}
        return cast("TeamsChange", self._api.put_json("/v1/teams", body))

    def secrets(self) -> Sequence[SecretRow]:
        """Return names and dates of one's own secrets."""
        return cast("list[SecretRow]", self._api.get("/v1/secrets"))

    def set_secret(self, name: str, value: str) -> dict[str, Any]:
        """Keep a secret; return whether it is `new`, and the active `jobs` that name it. Raises: RequestError."""
        path = f"/v1/secrets/{quote(name, safe='')}"
        return cast("dict[str, Any]", self._api.put(path, value.encode(), "text/plain; charset=utf-8"))

    def remove_secret(self, name: str) -> Sequence[str]:
        """Remove a secret; return the active jobs that name it. Raises: UnknownJobError if there is none."""
        return cast("list[str]", self._api.delete(f"/v1/secrets/{quote(name, safe='')}")["jobs"])

    def rekey_secrets(self) -> dict[str, int]:
        """Seal the secrets of all users with a new key; return how many were `sealed`, and how many are `lost`."""
        return cast("dict[str, int]", self._api.post("/v1/secrets/rekey"))

    def webhooks(self, *, cluster: bool = False) -> Sequence[WebhookRow]:
        """Return one's own webhooks, or those of the cluster, by name."""
        return cast("list[WebhookRow]", self._api.get("/v1/webhooks", cluster=str(cluster).lower()))

    def add_webhook(
        self, name: str, url: str, events: Sequence[str] | None = None, *, cluster: bool = False
    ) -> str:
        """Add a webhook; return the secret with which events are signed, this once; "": they are not.

        Args:
            events: such as `job.failed`; None: the end and the failure of jobs.
            cluster: whether it is told of all jobs and of the cluster, which operators may ask for.

        Raises: RequestError; AccessError.
        """
        told = {"name": name, "url": url, "cluster": cluster} | ({} if events is None else {"events": [*events]})
        return str(self._api.post_once("/v1/webhooks", told)["secret"])

    def test_webhook(self, name: str, *, cluster: bool = False, timeout_s: float = 20.0) -> str | None:
        """Send a webhook an event of its own. Return why it was not delivered; "": it was; None: nobody knows yet.

        Raises: UnknownJobError where there is none.
        """
        tries = int(self._api.post(f"{_webhook_path(name, cluster, '/test')}")["tries"])
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            for row in self.webhooks(cluster=cluster):
                if row["name"] == name and row["sent"] + row["failed"] > tries:
                    return row["problem"]
            time.sleep(0.2)  # nobody tells when it was sent
        return None

    def remove_webhook(self, name: str, *, cluster: bool = False) -> int:
        """Remove a webhook; return how many events were on their way to it. Raises: UnknownJobError."""
        return int(self._api.delete(_webhook_path(name, cluster))["waiting"])

    def close(self) -> None:
        """Close the connection; jobs and service run on."""
        self._api.close()


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _webhook_path(name: str, cluster: bool, verb: str = "") -> str:
    return f"/v1/webhooks/{quote(name, safe='')}{verb}?cluster={str(cluster).lower()}"


def _node_path(node: str, verb: str) -> str:
    return f"/v1/nodes/{quote(node, safe='')}/{verb}"


def _told(sent: dict[str, str]) -> dict[str, Any]:
    """Return what is sent of a job, with its spec as an object."""
    return {**sent, "spec": json.loads(sent["spec"])} if "spec" in sent else dict(sent)


def _output(row: dict[str, Any]) -> Output:
    entry = {name: value for name, value in row.items() if name != "name"}
    return Output(tuple(row["name"]), Entry(**{**entry, "kind": Kind(entry["kind"])}))
