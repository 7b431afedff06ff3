"""The scheduler service: one detached Ray actor that runs rounds and applies them.

A round is: take a snapshot, let the policy plan, compare with what runs, send commands. Between rounds the
same thread applies executors' events, so that a released slot is handed on at once. The actor may be
killed at any moment: it starts again from the store and the executors that still answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..core.job import JobSpec, Phase
from ..core.output_tree import Name, Output
from ..core.settings import Settings
from ..core.slot import Slot
from ..estimators.goodput import JobModel
from ..estimators.measurements import Measurements
from ..executor.files.job_folder import work_folder
from ..executor.files.job_log import sources
from ..executor.files.site import Site
from ..executor.protocol.job_events import ExecutorEvent, ProfileFinished, Released, Reported, Running
from ..policies.catalogue import make_policy
from ..policies.contract.round import Plan, Round
from ..policies.warm_up import COMPILING, telling, warm_up
from . import job_logs, presenters, profile_reuse
from .executors import Executors, gpus_per_replica
from .explain import explain
from .habits import fits_nowhere
from .job_lifecycle import advance
from .launcher import Action, Assign, Holding, less_given_up, slots_of, step
from .machines import Machines
from .nodes import NodesSnapshot, NodeView
from .outputs import Outputs
from .packages import PackageStore
from .reactions import (
    Reaction,
    claim,
    end,
    force_out,
    give_up_profile,
    lose_everything,
    lose_slots,
    react,
    start_profile,
)
from .record import JobRecord, ProfileRun, Stopped
from .recording import trace_lines
from .snapshot import (
    MEASURED_IN,
    START_S,
    allowed_types,
    split_profile_id,
    take_round,
    waiting_reason,
    waits_for_other_types,
)
from .store import Event, Interval, Store
from .unmeasured_types import with_new_types

log = logging.getLogger(__name__)

SAVE_S = 120.0  # beyond its longest step a job may take so long to leave its slots; START_S more if it moves


@dataclass(frozen=True)
class RoundResult:
    """What one round saw, decided and sent; the newest is kept for `explain` and `cluster`."""

    number: int
    round: Round
    plan: Plan
    wanted: Mapping[str, tuple[Slot, ...]]
    seconds: float


class SchedulerService:
    """The actor's class. Public methods are its interface; all of them return at once.

    Raises: ValueError for options a policy does not accept; StoreError for a store of another version.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._policy = make_policy(settings.policy, **settings.policy_options)
        self._store = Store(settings.store_path)
        self._packages = PackageStore(Path(settings.state_dir) / "packages")
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._stopping = False
        self._compiling = False
        self._warm = threading.Event()
        self._round_asked_s: float | None = 0.0
        self._last_round_s = 0.0
        self._last: RoundResult | None = None
        self._rounds = 0
        self._wanted: dict[str, tuple[Slot, ...]] = {}
        self._models: dict[str, tuple[str, Measurements, JobModel | None]] = {}
        self._executor_losses: dict[str, int] = {}
        self._machines = Machines()
        self._work = str(work_folder(settings.state_dir))
        self._nodes = NodeView(settings.node_refresh_s, settings.spare_cpus, self._nodes_changed)
        self._executors = Executors(settings, self._packages, self._gpu_types, self._executor_lost)
        self._nodes.start()
        self._thread = threading.Thread(target=self._loop, name="rounds", daemon=True)
        self._thread.start()

    # --- what users ask ---------------------------------------------------------------------------------

    def submit(self, spec_json: str, package: str | None, idempotency_key: str, script_key: str = "") -> str:
        """Store a job and return its id; the same key again returns the same id.

        Raises: pydantic.ValidationError for a spec that is none.
        """
        spec = JobSpec.model_validate_json(spec_json)
        now = time.time()
        with self._lock:
            job, new = self._store.submit(
                spec, now, idempotency_key=idempotency_key, package=package, script_key=script_key
            )
            if new:
                self._ask_round()
        return job.id

    def has_package(self, name: str) -> bool:
        return self._packages.has(name)

    def put_package(self, name: str, data: bytes) -> None:
        self._packages.put(name, data)

    def list(self) -> Sequence[dict[str, Any]]:
        """A `views.JobRow` of every job, in submission order."""
        return [dict(presenters.job_row(job)) for job in self._store.jobs.values()]

    def describe(self, job_id: str) -> dict[str, Any]:
        """`views.JobDetails`. Raises: KeyError."""
        job = self._store.get(job_id)
        events = self._store.events(job_id, last=200)
        return dict(presenters.job_details(job, events, self._work, self._outputs_url(job)))

    def output_page(self, job_id: str, after: Name = ()) -> Sequence[Output]:
        """Up to a page of the job's outputs after a name; empty: that was all. Raises: KeyError, OutputError."""
        return self._outputs(job_id).page(after)

    def output_contents(self, job_id: str, names: Sequence[Name]) -> Sequence[bytes | None]:
        """`outputs.Outputs.contents`. Raises: KeyError, OutputError."""
        return self._outputs(job_id).contents(names)

    def output_part(self, job_id: str, name: Name, offset: int) -> bytes | None:
        """`outputs.Outputs.part`. Raises: KeyError, OutputError."""
        return self._outputs(job_id).part(name, offset)

    def cancel(self, job_id: str) -> bool:
        """End a job; False if it had ended before. Raises: KeyError."""
        with self._lock:
            job = self._store.get(job_id)
            if not job.active:
                return False
            self._apply(end(job, Phase.CANCELLED, "cancelled by the user", time.time()))
            self._executors.cancel(job)
            return True

    def logs(self, job_id: str, offset: int = 0, source: str = "rank-0") -> tuple[str, int, bool]:
        """(text, next offset, whether that was the last of an ended job); `source`: of `job_logs.page`.

        Raises: KeyError.
        """
        job = self._store.get(job_id)
        text, following = job_logs.page(self._settings.log_dir(job_id), source, offset)
        done = following == offset and (job.retired or (not job.active and not job.occupied))
        return text, following, done

    def log_sources(self, job_id: str) -> Sequence[str]:
        """What of the job has written something: `rank-0`, `profile-a100`, … Raises: KeyError."""
        return tuple(sources(self._settings.log_dir(self._store.get(job_id).id)))

    def cluster(self) -> dict[str, Any]:
        """`views.ClusterView`."""
        last = self._last
        return dict(
            presenters.cluster_view(
                self._nodes.snapshot,
                tuple(self._store.jobs.values()),
                self._settings,
                self._rounds,
                last.plan if last else None,
            )
        )

    def explain(self, job_id: str) -> dict[str, Any]:
        """Why the job has what it has, after the last round that it took part in. Raises: KeyError."""
        job = self._store.get(job_id)
        last = self._last
        if last is None or all(view.id != job_id for view in last.round.jobs):
            return {"job_id": job_id, "lines": [presenters.why_not_in_round(job)]}
        return presenters.explanation(explain(job_id, last.round, last.plan))

    def timeline(self, job_id: str | None = None) -> Sequence[dict[str, Any]]:
        """`views.Interval`s, oldest first."""
        return [
            {key: value for key, value in asdict(interval).items() if key != "nodes"}
            for interval in self._store.intervals(job_id)
        ]

    def trace(self) -> Sequence[str]:
        """`recording.trace_lines` of all jobs."""
        return tuple(
            trace_lines(self._store.jobs.values(), self._store.intervals(), self._settings.restart_cost_s)
        )

    def settings(self) -> dict[str, Any]:
        return self._settings.model_dump()

    def ping(self) -> bool:
        """Whether rounds are run: Ray's view of the nodes is known, and what rounds call is compiled."""
        return self._nodes.snapshot.ready and self._warm.is_set()

    def compiling(self) -> bool:
        """Whether the first round waits for its kernels, as it does once per install."""
        return self._compiling and not self._warm.is_set()

    def on_event(self, job_id: str, event: ExecutorEvent) -> None:
        """An executor's event; repeated and late ones do no harm."""
        if isinstance(event, ProfileFinished) and event.ok and not event.measurements_json:
            event = replace(event, measurements_json=self._executors.measurements(job_id, timeout_s=10.0))
        with self._lock:
            job = self._store.jobs.get(job_id)
            if job is None:
                return
            now = time.time()
            after = self._apply(react(job, event, now))
            if isinstance(event, Released) and job_id in self._wanted:
                self._wanted[job_id] = less_given_up(self._wanted[job_id], job.target, after.target)
            if isinstance(event, Running | Reported):
                self._note_interval(self._store.get(job_id), now)
            self._wake.set()

    def _outputs_url(self, job: JobRecord) -> str:
        return self._settings.outputs_url(job.id, job.spec.training.checkpoint.url)

    def _outputs(self, job_id: str) -> Outputs:
        return Outputs(self._outputs_url(self._store.get(job_id)))

    def shutdown(self, grace_s: float = 30.0) -> None:
        """Checkpoint and stop every job, give the nodes back and end; the jobs go on at the next start."""
        with self._lock:
            self._stopping = True
            for job in self._store.jobs.values():
                if job.active and job.target:
                    self._send(job, (), Stopped.DOWN)
        deadline = time.monotonic() + grace_s
        # Only a group that trains has something to save; profile runs and starting workers just end.
        while time.monotonic() < deadline and any(job.group for job in self._store.jobs.values()):
            self._wake.wait(0.1)
            self._wake.clear()
        for job in self._store.jobs.values():
            if not job.retired:
                self._executors.retire(job.id)
        self._executors.drain(grace_s)
        self._nodes.stop(drop_leases=True)

    # --- the loop -----------------------------------------------------------------------------------------

    def _loop(self) -> None:
        self._guard(self._reattach)
        self._guard(self._warm_up)
        self._warm.set()
        while not self._stopping:
            self._wake.wait(self._until_due())
            self._wake.clear()
            if not self._stopping and self._nodes.snapshot.ready:
                self._guard(self._tick)

    def _warm_up(self) -> None:
        """Nobody has submitted anything yet, as a rule: better now than in the first round."""

        def tell() -> None:
            self._compiling = True
            log.info(COMPILING)

        with telling(tell):
            warm_up(self._settings.policy, self._settings.policy_options)

    def _guard(self, work: Callable[[], None]) -> None:
        """A round that goes wrong is logged and not the last one."""
        try:
            work()
        except Exception as error:
            log.exception("round")
            self._store.log(Event("error", time.time(), None, {"text": f"{type(error).__name__}: {error}"}))

    def _tick(self) -> None:
        now = time.time()
        snapshot = self._nodes.snapshot
        with self._lock:
            for job in self._store.jobs.values():
                self._keep(job, snapshot, now)
        if self._round_due(now):
            self._run_round(snapshot, now)
        with self._lock:
            self._launch(snapshot, now)

    def _nodes_changed(self) -> None:
        self._machines.see(self._nodes.snapshot)
        self._ask_round()

    def _round_due(self, now: float) -> bool:
        asked = self._round_asked_s
        early = asked is not None and now - asked >= self._settings.debounce_s
        return early or now - self._last_round_s >= self._settings.round_interval_s

    def _until_due(self) -> float:
        """Seconds to sleep at most: until an early round is due, else until nodes may have changed."""
        asked, refresh = self._round_asked_s, self._settings.node_refresh_s
        return (
            refresh if asked is None else min(max(asked + self._settings.debounce_s - time.time(), 0.01), refresh)
        )

    def _ask_round(self) -> None:
        """A round soon; several reasons within the debounce time share one."""
        if self._round_asked_s is None:
            self._round_asked_s = time.time()
        self._wake.set()

    # --- keeping records true (lock held) -----------------------------------------------------------------

    def _keep(self, job: JobRecord, snapshot: NodesSnapshot, now: float) -> None:
        """What has become of a job by time and by nodes, its executor's events aside."""
        job = self._apply(lose_slots(job, snapshot.alive, now))
        if not job.active:
            self._retire(job, now)
        elif job.phase is Phase.SUBMITTED:
            self._admit(job, snapshot, now)
        elif job.phase is Phase.PROFILING:
            self._keep_profiling(self._with_present_types(job, snapshot, now), now)
        else:
            job = self._with_new_types(job, snapshot, now)
            self._skip_known(self._give_up_late_profiles(job, now))

    def _with_new_types(self, job: JobRecord, snapshot: NodesSnapshot, now: float) -> JobRecord:
        """Have a queued or running job measured on new GPU types, beside what it does."""
        changed = with_new_types(job, snapshot.cluster)
        if changed is job:
            return job
        before = {run.gpu_type for run in job.profiles}
        new = [run.gpu_type for run in changed.profiles if run.startable and run.gpu_type not in before]
        if not new:
            return self._store.save(changed)
        self._ask_round()
        text = f"to be measured on {', '.join(new)}, new in the cluster"
        return self._store.save(changed, Event("admitted", now, job.id, {"text": text}))

    def _with_present_types(self, job: JobRecord, snapshot: NodesSnapshot, now: float) -> JobRecord:
        """Measure on the GPU types there are now, where those the job waits for have all gone."""
        open_types = {run.gpu_type for run in job.profiles if run.ok is None}
        present = allowed_types(job.spec, snapshot.cluster)
        if not present or not open_types or any(run.active for run in job.profiles) or open_types & set(present):
            return job
        done = tuple(run for run in job.profiles if run.ok is not None)
        new = tuple(ProfileRun(t) for t in present if t not in {run.gpu_type for run in done})
        text = f"to be measured on {', '.join(run.gpu_type for run in new)}" if new else "its GPU types are gone"
        job = replace(job, profiles=(*done, *new))
        return self._store.save(job, Event("admitted", now, job.id, {"text": text}))

    def _admit(self, job: JobRecord, snapshot: NodesSnapshot, now: float) -> None:
        """A submitted job is profiled on every GPU type it may use and nothing is known of, or queues."""
        types = allowed_types(job.spec, snapshot.cluster)
        if not types:
            reason = waiting_reason(job.spec, snapshot.cluster)
            if job.state.reason != reason:
                self._store.save(replace(job, state=replace(job.state, reason=reason)))
            return
        job = self._with_known_profiles(job)
        unknown = (
            [t for t in types if t not in profile_reuse.measured_types(job.measurements_json)]
            if job.spec.profile
            else []
        )
        phase, reason = (Phase.PROFILING, "being measured") if unknown else (Phase.QUEUED, "waiting for GPUs")
        job = replace(
            job,
            state=advance(job.state, phase, now, reason),
            profiles=tuple(ProfileRun(gpu_type) for gpu_type in unknown),
        )
        skipped = [t for t in types if t not in unknown]
        text = f"to be measured on {', '.join(unknown)}" if unknown else "queued"
        if skipped and job.spec.profile:
            text += f"; known from an earlier job: {', '.join(skipped)}"
        self._store.save(job, Event("admitted", now, job.id, {"text": text}))
        self._ask_round()

    def _with_known_profiles(self, job: JobRecord) -> JobRecord:
        """Déjà vu: what jobs of the same fingerprint, or of the same files and arguments, have measured."""
        for key in (job.spec.fingerprint, job.fingerprint, job.script_key):
            known = self._store.recall(key) if key else None
            if known:
                return replace(job, measurements_json=profile_reuse.merged(job.measurements_json, known))
        return job

    def _keep_profiling(self, job: JobRecord, now: float) -> None:
        """Give up late runs, take over what is known by now, and go on to the queue."""
        job = self._skip_known(self._give_up_late_profiles(job, now))
        open_runs = [run for run in job.profiles if run.ok is None]
        known = profile_reuse.measured_types(job.measurements_json)
        waited = now - job.state.submitted_s > self._settings.profile_patience_s
        if open_runs and not (known and waited and not any(run.active for run in open_runs)):
            return
        if known and not open_runs and (why := fits_nowhere(job.measurements_json, job.spec)):
            self._apply(end(job, Phase.FAILED, why, now))
        elif known or not job.profiles:
            self._store.save(replace(job, state=advance(job.state, Phase.QUEUED, now, "waiting for GPUs")))
            self._ask_round()
        else:
            self._apply(end(job, Phase.FAILED, presenters.why_not_measured(job), now))

    def _give_up_late_profiles(self, job: JobRecord, now: float) -> JobRecord:
        """End runs that take too long; where nothing trains, the executor with those that do not even end."""
        limit_s = self._settings.profile_timeout_s
        for run in job.profiles:
            if run.slot is None:
                continue
            if run.active and run.started_s is not None and now - run.started_s > limit_s:
                text = f"the profile run on {run.gpu_type} did not end in {limit_s:.0f} s"
                job = self._apply(give_up_profile(job, run.gpu_type, text, now))
                self._executors.end_profile(job, run.slot, run.sequence)
                continue
            stuck = run.ended_s is not None and now - run.ended_s > self._settings.release_timeout_s
            if not run.active and stuck and not job.held:
                waits = replace(run, ended_s=now)
                text = f"did not leave its GPU on {run.gpu_type} in time, its executor is restarted"
                job = replace(
                    job, profiles=tuple(waits if r.gpu_type == run.gpu_type else r for r in job.profiles)
                )
                job = self._store.save(job, Event("late", now, job.id, {"text": text}))
                self._executors.restart(job)
        return job

    def _skip_known(self, job: JobRecord) -> JobRecord:
        """Types that another job of the same script or model has measured by now need no run of their own.

        The script is known from the start, the model's fingerprint after the first run.
        """
        open_runs = [run for run in job.profiles if run.startable]
        if not open_runs:
            return job
        told = replace(job, fingerprint=job.fingerprint or profile_reuse.fingerprint(job.measurements_json))
        told = self._with_known_profiles(told)
        known = profile_reuse.measured_types(told.measurements_json)
        profiles = tuple(
            replace(run, ok=True, reason="known from another job")
            if run in open_runs and run.gpu_type in known
            else run
            for run in job.profiles
        )
        if profiles == job.profiles and told.fingerprint == job.fingerprint:
            return job
        names = ", ".join(run.gpu_type for run in open_runs if run.gpu_type in known)
        event = Event("profiled", time.time(), job.id, {"text": f"{names} known from another job"})
        return self._store.save(replace(told, profiles=profiles), *([event] if names else []))

    def _retire(self, job: JobRecord, now: float) -> None:
        """End an ended job's executor once its slots are released, or have not been in time."""
        if job.retired:
            return
        waited = job.pending_since_s is None or now - job.pending_since_s > self._settings.release_timeout_s
        if job.held and not waited:
            return
        self._store.release(job.id, now)
        self._store.save(replace(job, held=(), pending_since_s=None, retired=True), now=now)
        self._executors.retire(job.id)
        self._clean(job)
        self._models.pop(job.id, None)
        self._ask_round()

    def _clean(self, job: JobRecord) -> None:
        """Remove an ended job's folders from the machines it ran on; its outputs and checkpoints stay."""

        def tell(text: str) -> None:
            self._store.log(Event("outputs", time.time(), job.id, {"text": text}))

        if job.package is not None:
            site = Site(job.folder, self._settings.state_dir, outputs_url=self._outputs_url(job))
            self._machines.clean(job.machines, site, tell)

    def _executor_lost(self, job_id: str, reason: str) -> None:
        """Called by `Executors`: an executor cannot be made or has died for good. Bounded, then the job fails."""
        with self._lock:
            job = self._store.jobs.get(job_id)
            if job is None or not job.active:
                return
            losses = self._executor_losses[job_id] = self._executor_losses.get(job_id, 0) + 1
            now = time.time()
            self._apply(lose_everything(job, reason, now))
            if losses > 3:
                self._apply(end(self._store.get(job_id), Phase.FAILED, reason, now))

    def _apply(self, reaction: Reaction) -> JobRecord:
        """Write a reaction, then do what follows from it."""
        before = self._store.get(reaction.job.id)
        job = reaction.job
        if job == before and not reaction.events:
            return job
        now = time.time()
        self._store.save(job, *reaction.events, now=now)
        if before.group and not job.group:
            self._store.release(job.id, now)
        for run in before.profiles:
            after = job.profile(run.gpu_type)
            if run.active and not (after is not None and after.active):
                self._store.release(job.id, now, "profiling", run.gpu_type)
        if job.measurements_json != before.measurements_json:
            self._remember(job, now)
        if reaction.round:
            self._ask_round()
        self._wake.set()
        return job

    def _remember(self, job: JobRecord, now: float) -> None:
        """Keep measurements for the next job that trains the same model."""
        for key in {job.spec.fingerprint, profile_reuse.fingerprint(job.measurements_json), job.script_key} - {
            None,
            "",
        }:
            known = self._store.recall(str(key))
            self._store.remember(str(key), profile_reuse.merged(job.measurements_json, known or ""), now)

    def _note_interval(self, job: JobRecord, now: float) -> None:
        if job.group and job.active:
            report = job.report if job.report.get("replicas") == len(job.group) else {}
            self._store.hold(
                Interval(
                    job.id,
                    now,
                    None,
                    job.group[0].gpu_type,
                    sum(slot.gpus for slot in job.group),
                    len({slot.node_id for slot in job.group}),
                    report.get("batch_size"),
                    report.get("lr"),
                )
            )

    # --- a round ------------------------------------------------------------------------------------------

    def _run_round(self, snapshot: NodesSnapshot, now: float) -> None:
        """Observe and decide; only the result is kept, `_launch` acts on it."""
        started = time.perf_counter()
        self._round_asked_s, self._last_round_s = None, now
        jobs = [job for job in self._store.jobs.values() if job.active]
        models = {job.id: self._model(job) for job in jobs if job.phase in (Phase.QUEUED, Phase.RUNNING)}
        round = take_round(jobs, models, snapshot.cluster, self._store, self._settings, now)
        plan = self._policy.plan(round)
        with self._lock:
            wanted = self._slots(round, plan, snapshot)
            self._rounds += 1
            self._last = RoundResult(self._rounds, round, plan, wanted, time.perf_counter() - started)
            if wanted != self._wanted:
                self._store.log(Event("plan", now, None, self._plan_data(self._last)))
            self._wanted = wanted

    def _plan_data(self, result: RoundResult) -> dict[str, Any]:
        return {
            "round": result.number,
            "seconds": result.seconds,
            "placements": {
                job_id: {"gpu_type": p.gpu_type, "nodes": {share.node_id: share.gpus for share in p.shares}}
                for job_id, p in result.plan.placements.items()
            },
            "notes": list(result.plan.notes),
        }

    def _slots(self, round: Round, plan: Plan, snapshot: NodesSnapshot) -> dict[str, tuple[Slot, ...]]:
        """The plan as slots; a placement that cannot be realised is noted and left out."""
        wanted: dict[str, tuple[Slot, ...]] = {}
        specs = {view.id: view.spec for view in round.jobs}
        for view_id, placement in plan.placements.items():
            names = split_profile_id(view_id)
            job = self._store.jobs.get(names[0] if names else view_id)
            if job is None or not job.active:
                continue
            run = job.profile(names[1]) if names else None
            mine = job.held if names is None else (run.slot,) if run is not None and run.slot is not None else ()
            others = set(job.occupied) - set(mine)
            try:
                wanted[view_id] = slots_of(
                    placement, specs[view_id], snapshot.cluster, snapshot.leases, mine, others
                )
            except ValueError as error:
                self._store.log(Event("error", round.now, job.id, {"text": str(error)}))
        return wanted

    def _model(self, job: JobRecord) -> JobModel | None:
        """The job's goodput model, fitted again only when its measurements changed."""
        text = job.measurements_json
        if not text:
            return None
        cached = self._models.get(job.id)
        key = text + ",".join(self._gpu_types())
        if cached is None or cached[0] != key:
            measurements = Measurements.from_json(text)
            model = measurements.job_model(
                job.spec.training, gpus_per_replica(job.spec, self._gpu_types()), job.spec.fewest_replicas
            )
            cached = self._models[job.id] = (key, measurements, model)
        return cached[2]

    def _gpu_types(self) -> tuple[str, ...]:
        return self._nodes.snapshot.cluster.gpu_types

    # --- applying it (lock held) ----------------------------------------------------------------------------

    def _launch(self, snapshot: NodesSnapshot, now: float) -> None:
        """Send what may be sent now; the rest follows when slots are released."""
        jobs = self._store.jobs
        capacity = {node.id: node.gpus for node in snapshot.cluster.nodes}
        holdings = {job.id: _holding(job) for job in jobs.values() if job.active or job.held}
        wanted: dict[str, tuple[Slot, ...]] = {}
        for job_id, holding in holdings.items():
            job = jobs[job_id]
            if job.active and job.phase is not Phase.PROFILING and self._last is not None:
                wanted[job_id] = self._wanted.get(job_id, ())
            else:
                wanted[job_id] = tuple(holding.target)
        for view_id, slots in self._wanted.items():
            run = self._profile_to_start(view_id, snapshot)
            if run is not None:
                holdings[view_id], wanted[view_id] = Holding(), slots
        self._reserve_profile_slots(holdings, wanted)
        for action in step(wanted, holdings, capacity, now, self._settings.release_timeout_s):
            self._act(action, snapshot, now)

    def _profile_to_start(self, view_id: str, snapshot: NodesSnapshot) -> ProfileRun | None:
        names = split_profile_id(view_id)
        job = self._store.jobs.get(names[0]) if names else None
        if job is None or names is None or job.phase not in MEASURED_IN:
            return None
        run = job.profile(names[1])
        # What the last round wanted may be of a run that has failed since.
        if run is None or not run.startable or waits_for_other_types(job, run, snapshot.cluster.gpu_types):
            return None
        return run

    def _reserve_profile_slots(self, holdings: dict[str, Holding], wanted: dict[str, tuple[Slot, ...]]) -> None:
        for job in self._store.jobs.values():
            for run in job.profiles:
                if run.slot is not None:
                    name = f"{job.id}/measuring/{run.gpu_type}"
                    wanted[name] = (run.slot,) if run.active else ()
                    holdings[name] = Holding(frozenset(wanted[name]), frozenset({run.slot}))

    def _act(self, action: Action, snapshot: NodesSnapshot, now: float) -> None:
        if not isinstance(action, Assign):
            job = self._apply(force_out(self._store.get(action.job_id), now))
            self._executors.restart(job)
            return
        names = split_profile_id(action.job_id)
        if names is None:
            job = self._store.get(action.job_id)
            going = any(slot.node_id in snapshot.draining for slot in job.target)
            self._send(job, action.slots, Stopped.DRAINED if going else Stopped.EVICTED)
        elif action.slots:
            job_id, gpu_type = names
            slot = action.slots[0]
            job = self._on_machines(self._store.get(job_id), action.slots)
            job = self._apply(start_profile(job, gpu_type, slot, now))
            self._store.hold_profile(Interval(job_id, now, None, gpu_type, slot.gpus, 1))
            self._executors.profile(job, slot, job.profile_sequence)

    def _send(self, job: JobRecord, slots: tuple[Slot, ...], why: Stopped) -> None:
        """`why`: it leaves its GPUs, where it gets none."""
        job = self._apply(claim(self._on_machines(job, slots), slots, time.time(), why))
        self._executors.assign(job, slots, job.sequence)

    def _on_machines(self, job: JobRecord, slots: Sequence[Slot]) -> JobRecord:
        """The job, with the machines of these slots among those that it has run on."""
        names = self._nodes.snapshot.names
        machines = {*job.machines, *(names[slot.node_id] for slot in slots if slot.node_id in names)}
        return replace(job, machines=tuple(sorted(machines)))

    # --- coming back ----------------------------------------------------------------------------------------

    def _reattach(self) -> None:
        """After a restart: find out which executors still answer, and send again what may not have arrived."""
        for job in self._store.jobs.values():
            if job.retired and job.package is not None and Path(self._work, job.folder).exists():
                self._clean(job)  # the service ended before it was gone
        jobs = [job for job in self._store.jobs.values() if not job.retired]
        statuses = self._executors.statuses(jobs, timeout_s=10.0)
        now = time.time()
        with self._lock:
            for job in jobs:
                job = self._store.get(job.id)
                status = statuses.get(job.id)
                if job.id not in statuses:
                    if job.occupied:
                        self._apply(lose_everything(job, "its executor is gone", now))
                elif not job.active:
                    self._executors.cancel(job)
                else:  # one that does not answer now may never have heard of the last command
                    self._repeat(job, -1 if status is None else status.sequence)

    def _repeat(self, job: JobRecord, seen: int) -> None:
        """The last commands once more; an executor ignores what it has seen."""
        if (job.target or job.held) and job.sequence > seen:
            self._executors.assign(job, job.target, job.sequence)
        for run in job.profiles:
            if run.active and run.slot is not None:
                self._executors.profile(job, run.slot, run.sequence)


def _holding(job: JobRecord) -> Holding:
    # A job leaves at the end of a step, and for new slots only when its processes there are ready.
    patience_s = job.spec.training.hang_timeout_s + SAVE_S
    if job.moving_since_s is not None:
        patience_s += START_S
    return Holding(
        frozenset(job.target),
        frozenset(job.held),
        job.pending_since_s,
        shrinks=job.spec.resources.gpus is None,
        patience_s=patience_s,
    )
