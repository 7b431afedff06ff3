"""The scheduler service: one detached Ray actor around a `SchedulingCycle`. It decides nothing itself.

A thread runs a cycle whenever something happened or time has passed. Users' verbs and executors' events come in
between. The actor may be killed at any moment. It starts again from the store and the executors that answer.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import ray

from ..core.cluster import Cluster
from ..core.decisions import WaitReason
from ..core.errors import SettingError
from ..core.figures import Figures
from ..core.job import JobSpec
from ..core.logs import write_logs
from ..core.output_tree import PART_BYTES, Name, Output
from ..core.schemas import HealthView
from ..core.settings import Settings
from ..core.settings_change import changed
from ..core.slot import Slot
from ..core.wording import in_words
from ..estimators.measurements import Measurements
from ..executor.files.job_folder import work_folder
from ..executor.files.job_log import sources
from ..executor.protocol.envelope import UnknownMessage, unpacked
from ..executor.protocol.job_events import Sent
from ..policies.catalogue import make_policy
from ..policies.per_pool import PerPool
from ..policies.warm_up import COMPILING
from . import closed_views, job_logs, log_places, presenters
from .audit import AuditLog
from .backups import Backups
from .clock import SystemClock
from .closing_nodes import ClosingNodes, Told
from .cycle import SchedulingCycle
from .degraded import StoreWatch
from .executor_homes import home_of
from .executors import Executors
from .figures import collected
from .folders import FolderHook
from .forks import Forks, check_resumed, origin_of, would_fork
from .housekeeping import Housekeeping
from .identities import Identities
from .jobs.record import ChangedFile, JobRecord
from .kernels import load_kernels
from .lines import line_of
from .live_settings import LiveSettings
from .log_retention import LogRetention
from .loop import Loop
from .machines import Machines
from .metrics_hook import MetricsHook
from .node_orders import LEAD_S
from .nodes import NodesSnapshot, NodeView
from .notice_listeners import NoticeListeners
from .outputs import Outputs
from .packages import PackageStore
from .powering import Powering
from .private_folders import close_folders
from .pruning import Pruning
from .recording import trace_lines
from .rest import may_have_executor
from .secret_keys import SecretKeys
from .secrets import Secrets
from .shown_moments import shown
from .store import rounds, tables
from .store.failures import StoreError, StoreFailure
from .store.metrics import MetricsHistory
from .store.store import Store
from .submissions import accepted
from .verbs import VERBS, resume_changed

log = logging.getLogger(__name__)

CLOCK, SAVE_CLOCK_S = "clock", 60.0  # the fact of the store that keeps the time, and how often
REATTACH_TRIES, REATTACH_S = 5, 1.0  # while Ray's control plane starts again with the service


class SchedulerService:
    """The class of the actor. Its public methods are its interface. All but `shutdown` return at once.

    Args:
        begun: names the `coadapt up` at which these settings were typed.

    Raises: ValueError for options that the policy does not accept; StoreError for a store of another version.
    """

    def __init__(self, settings: Settings, begun: str = "") -> None:
        write_logs("scheduler", settings.log_format)
        make_policy(settings.policy, **settings.policy_options)
        self._settings = settings
        self._watch = StoreWatch(SystemClock())
        close_folders(settings)
        self._store = self._open_store(settings)
        self._live = LiveSettings(self._store, settings, begun)
        self._policy = PerPool(partial(make_policy, settings.policy, **settings.policy_options))
        self._clock = self._watch.clock = SystemClock(self._store.read_fact(CLOCK))
        self._packages = PackageStore(settings.package_dir)
        self._clock_saved_s = -math.inf
        self._wake = threading.Event()
        self._warm = threading.Event()
        self._compiling = False
        self._work = str(work_folder(settings.state_dir))
        self._machines = Machines()
        refresh_s, spare_cpus = settings.node_refresh_s, settings.spare_cpus
        self._view = NodeView(refresh_s, spare_cpus, self._nodes_changed, lambda: self._power.unleased)
        self._closing = ClosingNodes(self._view, self._store, self._clock, lambda: self._power.control.machines)
        self._power = Powering(settings, self._store, self._closing, self._wake.set)
        self._nodes = self._power.nodes
        self._secrets = Secrets(self._store, SecretKeys(settings.secret_keys), self._clock)
        self._listeners = NoticeListeners(settings, self._closing, self._clock, self._nodes_changed)
        self._executors = Executors(
            settings,
            self._packages,
            self._gpu_types,
            self._executor_lost,
            self._home_of,
            self._newest,
            secrets=self._secrets.given,
        )
        self._folders = FolderHook(self._store, self._machines, settings, self._clock)
        self._history = MetricsHistory(self._store)
        self._cycle = SchedulingCycle(
            self._store,
            self._policy,
            self._nodes,
            self._executors,
            self._clock,
            settings,
            hooks=[
                self._folders,
                LogRetention(self._store, settings, self._clock),
                MetricsHook(self._history),
            ],
            advised=self._power.take,
            woken=self._wake.set,
            watch=self._watch,
        )
        self._identities = Identities(self._store, self._clock, self._watch)
        self._audit = AuditLog(self._store, self._clock, self._watch)
        self._forks = Forks(self._store, self._cycle.do, settings, ThreadPoolExecutor(1, "forks"))
        self._view.start()
        self._backups = Backups(self._store, settings, self._clock)
        self._pruning = Pruning(self._store, settings, self._clock, self._cycle.lock)
        self._housekeeping = Housekeeping([self._backups, self._pruning])
        self._housekeeping.start()
        begin = (self._folders.clean_rest, self._forks.begin_rest, self._reattach, self._warm_up)
        self._loop = Loop(self._store, self._watch, self._clock, begin, self._step, self._cycle.idle_s, self._wake)
        self._loop.start()
        log.info("begun with policy %s and the store %s", settings.policy, settings.store)

    def _open_store(self, settings: Settings) -> Store:
        """Open the store, however long it cannot be written. Raises: StoreError, when the service first starts."""
        while True:
            try:
                store = Store(settings.store, self._watch.wrote, settings.backup_dir)
                with suppress(OSError):  # for verbs that look after a store while no service runs
                    Path(settings.state_dir, "store_url").write_text(settings.store_url or "")
                return store
            except StoreError as error:
                # One that was made anew would not be made again: it waits until its database is back.
                if not isinstance(error, StoreFailure) and not _made_anew():
                    raise
                log.error("%s; it is tried again", error)
                time.sleep(REATTACH_S)  # nobody tells when there is room on a disk

    # --- the audit log ------------------------------------------------------------------------------------

    def audited(self, about: Mapping[str, str], method: str, args: Sequence[Any]) -> Any:
        """Return what a method that changes something returns, and keep who asked for it, as `AuditLog.run`."""
        return self._audit.run(about, partial(getattr(self, method), *args))

    def done(self, about: Mapping[str, str]) -> None:
        """Keep that a change was made."""
        self._audit.run(about, lambda: None)

    def refused(self, about: Mapping[str, str], why: str) -> None:
        """Keep that a change was not let through."""
        self._audit.refused(about, why)

    def audit(self, after: int | None, most: int, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return a page of the audit log, as `AuditLog.page` does."""
        return self._audit.page(after, most, **chosen)

    # --- what users ask ---------------------------------------------------------------------------------

    def page(
        self,
        before: int | None,
        most: int,
        phases: Sequence[str] = (),
        owner: str | None = None,
        name: str | None = None,
        ids: Sequence[str] = (),
    ) -> tuple[Sequence[dict[str, Any]], int | None]:
        """Return rows of jobs with numbers below `before`, newest first, and the `before` of the next page.

        Args:
            phases, owner, name, ids: only those jobs; empty or None: all.
        """
        nodes = self._nodes.snapshot
        found = self._store.page(before, most + 1, tables.chosen(phases, owner, name, ids))
        shown_jobs, cluster = found[:most], _cluster(nodes)
        rows = [
            dict(presenters.job_row(job, self._waits(job, nodes), cluster, nodes.asleep))
            | self._why_waits(job, nodes)
            for job in shown_jobs
        ]
        return self._shown(rows), shown_jobs[-1].number if len(found) > most else None

    def owner(self, job_id: str) -> str:
        """Return whose a job is. Raises: KeyError."""
        return self._store.get(job_id).owner

    def authenticate(self, token: str) -> dict[str, Any] | str:
        """Return whose token it is, as `Identities.authenticate` does."""
        return self._identities.authenticate(token)

    def known_user(self, name: str) -> dict[str, Any] | str:
        """Return a user whom a proxy names, as `Identities.known_user` does."""
        return self._identities.known_user(name)

    def users(self) -> Sequence[dict[str, Any]]:
        """Return all users."""
        return self._identities.users()

    def put_user(self, name: str, role: str, disabled: bool = False) -> bool:
        """Make a user or change its role. Raises: IdentityError; StateError."""
        with self._watch.storing():
            return self._identities.put_user(name, role, disabled)

    def tokens(self, user: str | None = None) -> Sequence[dict[str, Any]]:
        """Return tokens of a user or of all, as `Identities.tokens` does."""
        return self._identities.tokens(user)

    def issue_token(self, user: str, label: str = "", days: float | None = None) -> dict[str, Any]:
        """Make a token. Raises: IdentityError; StateError."""
        with self._watch.storing():
            return self._identities.issue(user, label, days)

    def revoke_token(self, token_id: str, user: str | None = None) -> bool:
        """Revoke a token. Raises: KeyError; StateError."""
        with self._watch.storing():
            return self._identities.revoke(token_id, user)

    def secrets(self, user: str) -> Sequence[dict[str, Any]]:
        """Return names and dates of a user's secrets."""
        return self._secrets.rows(user)

    def put_secret(self, user: str, name: str, value: str) -> dict[str, Any]:
        """Keep a secret; return whether it is `new`, and the active `jobs` that name it. Raises: SecretError."""
        with self._watch.storing():
            new = self._secrets.put(user, name, value)
        jobs = self._secrets.users_of(name, user)
        for job in jobs:  # their next processes take the new value
            self._executors.give(job)
        return {"new": new, "jobs": [job.id for job in jobs]}

    def remove_secret(self, user: str, name: str) -> dict[str, Any]:
        """Remove a secret; return the active `jobs` that name it. Raises: KeyError; StateError."""
        jobs = self._secrets.users_of(name, user)
        with self._watch.storing():
            self._secrets.remove(user, name)
        for job in jobs:
            self._executors.give(job)
        return {"jobs": [job.id for job in jobs]}

    def rekey_secrets(self) -> dict[str, int]:
        """Seal all secrets with a new key, as `Secrets.rekey` does. Raises: SecretError."""
        with self._watch.storing():
            return self._secrets.rekey()

    def events_after(self, number: int, most: int) -> Sequence[dict[str, Any]]:
        """Return the first events after one with a number, oldest first."""
        found = self._store.events_after(number, most)
        return self._shown([presenters.numbered_event(event) for event in found])

    def job_events(self, job_id: str, last: int = 200) -> Sequence[dict[str, Any]]:
        """Return the newest events of a job, oldest first. Raises: KeyError."""
        found = self._store.events(self._store.get(job_id).id, last)
        return self._shown([presenters.numbered_event(event) for event in found])

    def newest_events(
        self, last: int, job_id: str | None, kinds: Sequence[str], since_s: float | None, owner: str | None
    ) -> Sequence[dict[str, Any]]:
        """Return the newest events that fit, oldest first.

        Args:
            since_s: seconds since 1970.
            owner: only of this user's jobs and of the cluster; None: of all.
        """
        steady_s = None if since_s is None else since_s - self._ahead_s
        found = self._store.newest_events(last, job_id, kinds, steady_s, owner)
        return self._shown([presenters.numbered_event(event) for event in found])

    def last_event(self) -> int:
        """Return the number of the newest event."""
        return self._store.last_event

    def submit(
        self, spec_json: str, package: str | None, idempotency_key: str, script_key: str = "", owner: str = ""
    ) -> str:
        """Store a job and return its id. The same key again returns the same id.

        Raises: JobLimitError, PackageError; pydantic.ValidationError for a bad spec.
        """
        spec = accepted(spec_json, package, self._packages)
        self._secrets.check(spec, owner)
        job = self._cycle.submit(
            spec, idempotency_key=idempotency_key, package=package, script_key=script_key, owner=owner
        )
        return job.id

    def fork(
        self, job_id: str, steps: int | None, idempotency_key: str, changed: Mapping[str, str], owner: str = ""
    ) -> str:
        """Store a job that starts from a checkpoint of another one, and return its id.

        Args:
            steps: of the checkpoint; None: the newest one.
            changed: `spec`, `package` and `script_key` of another job file, or only a `name`.
            owner: whose it is; "": of the same user.

        Raises: KeyError, JobStateError; pydantic.ValidationError for a bad spec.
        """
        if (known := self._store.submitted(idempotency_key)) is not None:
            return known.id
        source, spec, measured = self._forked(job_id, changed, self._packages)
        self._secrets.check(spec, owner or source.owner)
        job = self._cycle.submit(
            spec.model_copy(update={"name": changed.get("name") or spec.name}),
            idempotency_key=idempotency_key,
            package=changed.get("package", source.package),
            script_key=changed.get("script_key", source.script_key),
            origin=origin_of(source, spec, steps, self._settings, measured),
            owner=owner or source.owner,
        )
        self._forks.begin(job.id)
        return job.id

    def would_fork(self, job_id: str, steps: int | None, changed: Mapping[str, str]) -> dict[str, Any]:
        """Return a `core.schemas.ForkView` of what `fork` would do. Raises: KeyError."""
        source, spec, known = self._forked(job_id, changed)
        return dict(would_fork(source, spec, steps, self._settings, known))

    def _forked(
        self, job_id: str, changed: Mapping[str, str], packages: PackageStore | None = None
    ) -> tuple[JobRecord, JobSpec, Measurements | None]:
        """Return a job, the spec of its fork, and what was measured of earlier jobs with the fork's files.

        Args:
            packages: where the fork's package was put before; None: it may still come.
        """
        source = self._store.get(job_id)
        if "spec" not in changed:
            return source, source.spec, None
        spec = accepted(changed["spec"], changed.get("package", source.package), packages)
        key = changed.get("script_key")
        return source, spec, self._store.recall(key, source.owner) if key else None

    def has_package(self, name: str) -> bool:
        return self._packages.has(name)

    def package_place(self) -> tuple[str, int]:
        """Return the folder of packages, on the disk of this node, and the most MiB of one."""
        return str(self._settings.package_dir), self._settings.max_package_mib

    def describe(self, job_id: str) -> dict[str, Any]:
        """Return `core.schemas.JobDetails`. Raises: KeyError."""
        job = self._store.get(job_id)
        events = self._store.events(job_id, last=200)
        nodes = self._nodes.snapshot
        waits, outputs, cluster = self._waits(job, nodes), self._outputs_url(job), _cluster(nodes)
        closed = closed_views.closed_under(job, nodes, self._ahead_s)
        found = presenters.job_details(
            job, events, self._work, outputs, waits, cluster, nodes.asleep, closed=closed
        )
        return self._shown(dict(found) | self._why_waits(job, nodes))

    def output_page(self, job_id: str, after: Name = ()) -> Sequence[Output]:
        """Return outputs of a job after a name, as `Outputs.page` does. Raises: KeyError, OutputError."""
        return self._outputs(job_id).page(after)

    def output_contents(self, job_id: str, names: Sequence[Name]) -> Sequence[bytes | None]:
        """Return contents of a job's outputs, as `Outputs.contents` does. Raises: KeyError, OutputError."""
        return self._outputs(job_id).contents(names)

    def output_part(self, job_id: str, name: Name, offset: int) -> bytes | None:
        """Return a part of an output, as `Outputs.part` does. Raises: KeyError, OutputError."""
        return self._outputs(job_id).part(name, offset)

    def cancel(self, job_id: str, at_once: bool = False) -> bool:
        """End a job; one that trains saves first. Return False if it had ended, or saves already.

        Raises: KeyError.

        Args:
            at_once: whether nothing is saved.
        """
        return self._cycle.cancel(job_id, save=not at_once)

    def resume_changed(self, job_id: str, spec_json: str, package: str, script_key: str, key: str) -> bool:
        """Let a job that is paused or has ended go on with a changed job file, once for the same key.

        Raises: KeyError, JobStateError; pydantic.ValidationError for a bad spec.
        """
        spec, job = accepted(spec_json, package, self._packages), self._store.get(job_id)
        self._secrets.check(spec, job.owner)
        if job.asked != key and spec.door is job.spec.door:
            known = self._store.recall(script_key, job.owner) if script_key else None
            check_resumed(job, spec, self._settings, known)
        return self._cycle.do(job_id, partial(resume_changed, file=ChangedFile(spec, package, script_key)), key)

    def change(self, job_id: str, verb: str, key: str) -> bool:
        """Do one of `verbs.VERBS`, once for the same key. Return False if there is nothing to do.

        Raises: KeyError, JobStateError.
        """
        return self._cycle.do(job_id, VERBS[verb], key)

    def logs(self, job_id: str, offset: int = 0, source: str = "rank-0") -> tuple[str, int, bool]:
        """Return a part of a job's output, the next offset, and whether the job has ended and that was all.

        `source` is one of `job_logs.page`.

        Raises: KeyError.
        """
        job = self._store.get(job_id)
        text, following = job_logs.page(self._settings.log_dir(job_id), source, offset)
        done = following == offset and (job.retired or (not job.active and not job.occupied))
        return text, following, done

    def log_place(
        self, job_id: str, source: str, tail: int | None = None, last_s: float | None = None
    ) -> tuple[int, int]:
        """Return the offset at which to begin to read a job's output, and how many lines to leave out from there.

        Args:
            tail: lines to show at most.
            last_s: only what was written in the last seconds.

        Raises: KeyError; ValueError for a negative number.
        """
        if last_s is not None and not last_s >= 0:
            raise ValueError(f"since: {last_s} is no number of seconds; it must be 0 or more")
        since_s = None if last_s is None else self._clock.wall_s() - last_s
        return log_places.begin(self._settings.log_dir(self._store.get(job_id).id), source, tail, since_s)

    def most_ranks(self, job_id: str) -> int:
        """Return how many ranks a job can have at most. Raises: KeyError."""
        return self._store.get(job_id).spec.most_gpus

    def how_it_ended(self, job_id: str) -> dict[str, Any]:
        """Return the phase of a job, and the reason. Raises: KeyError."""
        job = self._store.get(job_id)
        return {"id": job_id, "phase": job.phase.value, "reason": job.state.reason}

    def log_sources(self, job_id: str) -> Sequence[str]:
        """Return the names of what has written output: `rank-0`, `profile-a100`, … Raises: KeyError."""
        return tuple(sources(self._settings.log_dir(self._store.get(job_id).id)))

    def cluster(self) -> dict[str, Any]:
        """Return `core.schemas.ClusterView`."""
        last, now = self._cycle.last_round, self._clock.steady_s()
        found = dict(
            presenters.cluster_view(
                self._nodes.snapshot,
                tuple(self._store.unretired.values()),
                self._settings,
                self._cycle.rounds,
                last.plan if last else None,
                compiling=self.compiling(),
                unplanned=self._cycle.unplanned,
                events=self._store.cluster_events(),
                phases=self._cycle.phase_times.rows(),
                asleep=self._power.asleep(),
                saved_kwh=self._power.saved_kwh(now),
                power_notes=[
                    *self._power.notes(self._in_use, now, self._ahead_s),
                    *self._closing.notes(),
                    *self._listeners.notes(),
                ],
                health=self._health(),
                ahead_s=self._ahead_s,
            )
        )
        return self._shown(found)

    def rounds(self, before: int | None, most: int, since_s: float | None = None) -> dict[str, Any]:
        """Return `core.schemas.RoundRow`s, newest first, and the `next` place; `since_s`: seconds since 1970."""
        steady_s = None if since_s is None else since_s - self._ahead_s
        with self._store.database.reading() as connection:
            found = rounds.read(connection, before, most + 1, steady_s)
        rows = found[:most]
        return {"rows": self._shown(rows), "next": rows[-1]["number"] if len(found) > most else None}

    def machines(self) -> Sequence[dict[str, Any]]:
        """Return a `core.schemas.MachineRow` of every machine, also of those whose nodes sleep."""
        rows = [dict(row) for row in self._power.rows()]
        return self._shown(closed_views.with_closed(rows, self._nodes.snapshot, self._ahead_s))

    def power(self, verb: str, machine: str) -> bool:
        """Do one of `sleep`, `wake`, `keep`, `unkeep` and `forget` to a machine. Return whether that is new.

        Raises: KeyError for an unknown machine; PowerError where it cannot be done.
        """
        with self._cycle.lock:
            done = self._power.order(verb, machine, self._in_use(), self._clock.steady_s())
        self._wake.set()
        return done

    def cordon(self, node: str, who: str = "", why: str = "") -> dict[str, Any]:
        """Give a node no new work. Raises: KeyError for an unknown one; StateError."""
        return self._order(lambda: self._closing.cordon(node, who, why))

    def drain(self, node: str, deadline_s: float | None = None, who: str = "", why: str = "") -> dict[str, Any]:
        """Have a node left, by a deadline in seconds from now. Raises: KeyError; NodeOrderError; StateError."""
        return self._order(lambda: self._closing.drain(node, deadline_s, who, why))

    def uncordon(self, node: str, who: str = "") -> dict[str, Any]:
        """Let a node take work again. Raises: KeyError; NodeOrderError; StateError."""
        return self._order(lambda: self._closing.uncordon(node, who))

    def _order(self, order: Callable[[], Told]) -> dict[str, Any]:
        """Return what an order for a node has changed, and let rounds see it."""
        with self._watch.storing(), self._cycle.lock:
            new, told = order()
        if new:
            self._nodes_changed()
        return {"changed": new, "told": told}

    def windows(self) -> Sequence[dict[str, Any]]:
        """Return a `core.schemas.WindowRow` of each maintenance window, the next one first."""
        return [dict(row) for row in closed_views.window_rows(self._closing.orders.windows)]

    def add_window(
        self,
        begins_s: float,
        ends_s: float,
        nodes: Sequence[str] = (),
        gpu_type: str = "",
        lead_s: float | None = None,
        who: str = "",
        why: str = "",
    ) -> dict[str, Any]:
        """Keep nodes free for a while, and return the window; `lead_s`: how long before it begins they are left.

        Raises: KeyError; NodeOrderError; StateError.
        """
        lead_s = LEAD_S if lead_s is None else lead_s
        with self._watch.storing(), self._cycle.lock:
            window = self._closing.add_window(begins_s, ends_s, nodes, gpu_type, lead_s, who, why)
        self._nodes_changed()
        return dict(closed_views.window_rows([window])[0])

    def remove_window(self, window: str, who: str = "") -> dict[str, Any]:
        """Forget a maintenance window, and return it. Raises: KeyError; StateError."""
        with self._watch.storing(), self._cycle.lock:
            found = self._closing.remove_window(window, who)
        self._nodes_changed()
        return dict(closed_views.window_rows([found])[0])

    def explain(self, job_id: str) -> dict[str, Any]:
        """Explain what the last round decided on a job, or why it took no part. Raises: KeyError."""
        job = self._store.get(job_id)
        cycle, nodes = self._cycle, self._nodes.snapshot
        found = presenters.explain(
            job,
            cycle.last_round,
            self._policy,
            _cluster(nodes),
            cycle.unplanned,
            compiling=self.compiling(),
            asleep=nodes.asleep,
        )
        lines = closed_views.explained(job, nodes, self._ahead_s)
        return found | {"lines": lines} if lines else found

    def timeline(self, job_id: str | None = None, owner: str | None = None) -> Sequence[dict[str, Any]]:
        """Return `core.schemas.TimelineRow`s, oldest first; `owner`: only of that user's jobs."""
        rows = [
            {key: value for key, value in asdict(interval).items() if key != "nodes"}
            for interval in self._store.intervals(job_id, owner)
        ]
        return self._shown(rows)

    def trace(self) -> Sequence[str]:
        """Return the trace of all jobs, as `recording.trace_lines` does."""
        return tuple(trace_lines(self._store.every(), self._store.intervals(), self._settings.restart_cost_s))

    def settings(self) -> dict[str, Any]:
        return self._settings.model_dump()

    def settings_rows(self) -> Sequence[dict[str, Any]]:
        """Return a `core.schemas.SettingRow` of each setting."""
        return self._live.rows()

    def change_settings(self, wanted: Mapping[str, Any], who: str = "") -> Sequence[str]:
        """Let other settings count from the next round on; return the names of those that are new.

        Raises: SettingError, in one sentence; StateError where nothing can be stored now.
        """
        found = changed(self._settings, wanted)
        planner: PerPool | None = None
        if (found.policy, found.policy_options) != (self._settings.policy, self._settings.policy_options):
            try:
                planner = PerPool(partial(make_policy, found.policy, **found.policy_options))
            except ValueError as error:
                raise SettingError(str(error)) from None
            load_kernels(found.policy, found.policy_options, lambda: log.info(COMPILING))  # no round waits for it
        with self._watch.storing(), self._cycle.lock:
            names = self._live.change(found, who, self._clock.steady_s())
            self._view.refresh_s = found.node_refresh_s
            if planner is not None:
                self._policy = planner
                self._cycle.plan_by(planner)
        self._cycle.ask_round()
        return names

    def ping(self) -> bool:
        """Return whether rounds can run: the nodes are known and the solver is compiled."""
        return self._nodes.snapshot.ready and self._warm.is_set()

    def health(self) -> dict[str, Any]:
        """Return `core.schemas.HealthView`."""
        return dict(self._health())

    def figures(self) -> Figures:
        """Return what is told to those who watch the service."""
        with self._cycle.lock:
            jobs, since = tuple(self._store.unretired.values()), self._cycle.tallies.told()
        return collected(
            store=self._store,
            settings=self._settings,
            clock=self._clock,
            watch=self._watch,
            health=self._loop.health(),
            nodes=self._nodes.snapshot,
            jobs=jobs,
            since=since,
            backups=self._backups,
            ready=self.ping(),
            round_age_s=self._cycle.round_age_s(),
        )

    def _health(self) -> HealthView:
        notes = [*self._watch.notes(), *self._housekeeping.notes()]
        return presenters.health_view(self._loop.health(), notes, self._cycle.round_age_s())

    def backup(self) -> dict[str, Any]:
        """Write a backup of the store, and return its `path`, `bytes` and `jobs`. Raises: StoreError."""
        written = self._backups.write()
        return {"path": str(written.path), "bytes": written.bytes, "jobs": written.jobs}

    def backup_part(self, name: str, offset: int) -> bytes:
        """Return up to `PART_BYTES` of a backup from an offset on. Raises: StoreError where there is none."""
        return self._backups.part(name, offset, PART_BYTES)

    def prune(self, dry_run: bool = False) -> Sequence[dict[str, Any]]:
        """Remove what retention does not keep, or only say what that is, as `PrunedRow`s. Raises: StateError."""
        with self._watch.storing():
            return [asdict(one) for one in self._pruning.prune(dry_run=dry_run)]

    def metrics(self, job_id: str) -> dict[str, Any]:
        """Return `core.schemas.MetricsView`. Raises: KeyError."""
        found = self._history.read(self._store.get(job_id).id)
        rows = {name: [asdict(point) for point in points] for name, points in found.items()}
        return {"id": job_id, "metrics": self._shown(rows)}

    def compiling(self) -> bool:
        """Return whether the first round waits only for its kernels, which are compiled once per install."""
        return self._compiling and self._nodes.snapshot.ready and not self._warm.is_set()

    def on_event(self, job_id: str, message: object, life: int = 0) -> Sent:
        """Take in an event of the executor of one life of a job. Repeated and late ones do no harm.

        Return what its job was sent by then. A message that only a later version knows is logged.
        """
        try:
            event = unpacked(message, Measurements.from_json)
        except (UnknownMessage, ValueError, KeyError, TypeError, AttributeError) as error:
            return self._cycle.not_understood(job_id, in_words(error))
        return self._cycle.on_event(job_id, event, life)

    def _shown(self, view: Any) -> Any:
        """Return a view whose moments are by the machine's clock."""
        return shown(view, self._ahead_s)

    @property
    def _ahead_s(self) -> float:
        return self._clock.wall_s() - self._clock.steady_s()

    def _why_waits(self, job: JobRecord, nodes: NodesSnapshot) -> dict[str, str]:
        """Return the reason of a job that waits for closed nodes, as a field."""
        why = closed_views.why_closed_to(job, nodes, self._ahead_s)
        return {"reason": why} if why else {}

    def _waits(self, job: JobRecord, nodes: NodesSnapshot) -> WaitReason | None:
        return presenters.wait_reason(
            job,
            self._cycle.last_round,
            _cluster(nodes),
            compiling=self.compiling(),
            asleep=nodes.asleep,
        )

    def _outputs_url(self, job: JobRecord) -> str:
        return self._settings.outputs_url(job.id, job.spec.training.checkpoint.url)

    def _outputs(self, job_id: str) -> Outputs:
        url = self._outputs_url(self._store.get(job_id))
        return Outputs(url, line_of(job_id, self._settings).uid)

    def others(self, user: str) -> dict[str, int]:
        """Return how many active jobs each other user has; "" stands for those of nobody known."""
        owners = [job.owner for job in self._store.unretired.values() if job.active and job.owner != user]
        return dict(sorted(Counter(owners).items()))

    def shutdown(self, grace_s: float = 30.0, *, keep_jobs: bool = False) -> None:
        """Checkpoint and stop every job, then give the nodes back. The jobs go on at the next start.

        Args:
            keep_jobs: whether executors train on and find the next service. Then only this service ends.
        """
        self._loop.stop()
        self._housekeeping.stop()
        self._pruning.stop()
        if keep_jobs:
            self._executors.drain(grace_s)
        else:
            self._stop_jobs(grace_s)
        self._listeners.stop()
        self._view.stop(drop_leases=not keep_jobs)
        with self._cycle.lock:
            self._store.write_fact(CLOCK, self._clock.saved())
            self._store.close()  # what is told from now on is told again to the next service

    def _stop_jobs(self, grace_s: float) -> None:
        self._cycle.stop_all()
        deadline_s = self._clock.monotonic_s() + grace_s
        # Only a group that trains has something to save. Profile runs and starting workers just end.
        while self._clock.monotonic_s() < deadline_s and any(job.group for job in self._store.unretired.values()):
            self._wake.wait(0.1)
            self._wake.clear()
        jobs = [job for job in self._store.unretired.values() if may_have_executor(job)]
        self._executors.end_all(jobs, grace_s)

    # --- the loop -----------------------------------------------------------------------------------------

    def _reattach(self) -> None:
        """Find the executors again. Ray's control plane may start again together with the service."""
        tries = 1
        while not self._loop.guard(self._cycle.reattach) and not self._loop.stopping:
            if tries >= REATTACH_TRIES and self._watch.degraded is None:
                break
            tries += 1
            self._wake.wait(REATTACH_S)

    def _step(self) -> None:
        if self._clock.monotonic_s() - self._clock_saved_s > SAVE_CLOCK_S:
            self._store.write_fact(CLOCK, self._clock.saved())
            self._clock_saved_s = self._clock.monotonic_s()
        with self._cycle.lock:
            if self._closing.tick(self._in_use):
                self._nodes_changed()
        self._listeners.look(self._closing.snapshot)
        self._cycle.step()
        with self._cycle.lock:
            changed = self._power.tick(self._in_use, self._clock.steady_s())
        if changed:
            self._nodes_changed()

    def _in_use(self) -> dict[str, str]:
        """Return what is on each node, or shall be, by its id: jobs, and what is done after their end."""
        cleaned = dict.fromkeys(
            self._machines.busy_nodes(self._view.snapshot), "a job's folders are removed there"
        )
        return cleaned | self._cycle.in_use()

    def _warm_up(self) -> None:
        """Load the kernels that rounds call. The service answers while they are compiled."""

        def compiling() -> None:
            self._compiling = True
            log.info(COMPILING)

        try:
            load_kernels(self._settings.policy, self._settings.policy_options, compiling)
        finally:
            self._warm.set()  # rounds compile what is missing

    def _nodes_changed(self) -> None:
        self._machines.see(self._nodes.snapshot)
        self._cycle.ask_round()

    def _executor_lost(self, job_id: str, reason: str) -> None:
        self._cycle.executor_lost(job_id, reason)

    def _home_of(self, job: JobRecord, slots: Sequence[Slot]) -> str | None:
        """Return where a job's executor shall stand. A node that may be powered off has none."""
        if self._settings.power is not None:
            return None
        return home_of(job, slots, self._nodes.snapshot, tuple(self._store.unretired.values()))

    def _newest(self, job: JobRecord) -> JobRecord:
        return self._store.find(job.id) or job

    def _gpu_types(self) -> tuple[str, ...]:
        return self._nodes.snapshot.cluster.gpu_types


def _made_anew() -> bool:
    """Return whether Ray has made this actor again after its process had ended."""
    return ray.is_initialized() and bool(ray.get_runtime_context().was_current_actor_reconstructed)


def _cluster(nodes: NodesSnapshot) -> Cluster | None:
    """Return the nodes; None until Ray has named them, as no job waits for GPU types then."""
    return nodes.cluster if nodes.ready else None
