"""Takes what users want of jobs: to submit, fork, change and end them, and packages for that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ...core.deadline import worth_refusal
from ...core.errors import JobStateError, KeyReusedError
from ...core.job import JobSpec
from ...core.job_limits import JobLimitError
from ...core.job_relations import source_of
from ...core.settings import Settings
from ...core.team_rules import check_priority, completed
from ...estimators.measurements import Measurements
from ..access.named_jobs import NamedJobs
from ..access.secrets import Secrets
from ..changes.awaited import check_circle, resolved
from ..changes.forks import Forks, check_resumed, origin_of, waits_for_copy, would_fork
from ..changes.submissions import accepted
from ..changes.trial_sources import check_same_sources, same_sources, sources_of
from ..changes.verbs import BEGIN_AGAIN, VERBS, resume_changed
from ..cycle import SchedulingCycle
from ..delivery.webhooks import Webhooks
from ..files.packages import PackageStore
from ..job_orders import check_queue
from ..jobs.record import ChangedFile, JobRecord, Origin, TrialSource
from ..runtime.applied_teams import AppliedTeams
from ..runtime.clock import Clock
from ..store.store import Store


class JobsDesk:
    """Takes orders for jobs. What is known of them is told by `JobViewsDesk`."""

    def __init__(
        self,
        store: Store,
        cycle: SchedulingCycle,
        settings: Settings,
        packages: PackageStore,
        secrets: Secrets,
        forks: Forks,
        teams: AppliedTeams,
        webhooks: Webhooks,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._store, self._cycle, self._settings = store, cycle, settings
        self._packages, self._secrets, self._forks = packages, secrets, forks
        self._teams, self._webhooks, self._named = teams, webhooks, NamedJobs(store, teams)

    def submit(
        self, spec_json: str, package: str | None, idempotency_key: str, script_key: str = "", owner: str = ""
    ) -> str:
        """Store a job and return its id. The same key again returns the same id.

        Raises: JobLimitError, PackageError; pydantic.ValidationError for a bad spec.
        """
        spec = self._completed(accepted(spec_json, package, self._packages), owner)
        if (known := self._store.submitted(idempotency_key)) is None:
            self._check(spec, owner)
            spec, origin = self._related(spec, owner), self._origin(spec, owner, script_key)
            spec, sources = self._sources(spec, owner)
        else:  # what it names may have ended or gone since
            spec = same_sources(spec.model_copy(update={"after": known.spec.after}), known.spec)
            origin, sources = known.origin, known.trial_sources
        if spec.array is not None:
            return self._submit_array(spec, package, idempotency_key, script_key, owner, origin, sources)
        job = self._cycle.orders.submit(
            spec,
            idempotency_key=idempotency_key,
            package=package,
            script_key=script_key,
            origin=origin,
            trial_sources=sources,
            owner=owner,
            teams=self._teams.now,
        )
        if known is None and waits_for_copy(job):
            self._forks.begin(job.id)
        return job.id

    def _submit_array(
        self,
        spec: JobSpec,
        package: str | None,
        key: str,
        script_key: str,
        owner: str,
        origin: Origin | None,
        sources: tuple[TrialSource, ...],
    ) -> str:
        """Store the jobs of an array and return its id."""
        jobs = self._cycle.orders.submit_array(
            spec,
            idempotency_key=key,
            package=package,
            script_key=script_key,
            origin=origin,
            trial_sources=sources,
            owner=owner,
            teams=self._teams.now,
        )
        for job in jobs:
            if waits_for_copy(job):
                self._forks.begin(job.id)
        return jobs[0].array

    def fork(
        self, job_id: str, steps: int | None, idempotency_key: str, changed: Mapping[str, str], owner: str = ""
    ) -> str:
        """Store a job that starts from a checkpoint of another one, and return its id.

        Args:
            steps: of the checkpoint; None: the newest one.
            changed: `spec`, `package` and `script_key` of another job file, or only a `name`.
            owner: whose it is; "": of the same user.

        Raises: KeyError, JobStateError; KeyReusedError where the key came before with another order;
        pydantic.ValidationError for a bad spec or name.
        """
        if (known := self._store.submitted(idempotency_key)) is not None:
            _check_same_fork(known, job_id, steps, changed)
            return known.id
        source, spec, measured = self._forked(job_id, changed, self._packages)
        if "spec" not in changed and spec.team not in self._teams.of_user(owner or source.owner):
            spec = spec.model_copy(update={"team": None})  # the job's team is gone, or none of who forks it
        spec = self._completed(spec, owner or source.owner)
        self._check(spec, owner or source.owner)
        job = self._cycle.orders.submit(
            spec,
            idempotency_key=idempotency_key,
            package=changed.get("package", source.package),
            script_key=changed.get("script_key", source.script_key),
            origin=origin_of(source, spec, steps, self._settings, measured),
            owner=owner or source.owner,
            teams=self._teams.now,
        )
        self._forks.begin(job.id)
        return job.id

    def would_fork(self, job_id: str, steps: int | None, changed: Mapping[str, str]) -> dict[str, Any]:
        """Return a `core.schemas.ForkView` of what `fork` would do. Raises: KeyError."""
        source, spec, known = self._forked(job_id, changed)
        return dict(would_fork(source, spec, steps, self._settings, known))

    def resume_changed(self, job_id: str, spec_json: str, package: str, script_key: str, key: str) -> bool:
        """Let a job that is paused or has ended go on with a changed job file, once for the same key.

        Raises: KeyError, JobStateError; pydantic.ValidationError for a bad spec.
        """
        spec, job = accepted(spec_json, package, self._packages), self._store.get(job_id)
        if spec.array is not None:
            raise JobLimitError(["array: a changed file is of one job; leave it out"])
        spec = self._related(self._of_same_team(spec, job), job.owner)
        check_circle(job_id, spec.after, self._store.find)
        self._check(spec, job.owner)
        if job.asked != key:
            self._check_queue(job)
        if job.asked != key and spec.door is job.spec.door:
            known = self._store.recall(script_key, job.owner) if script_key else None
            check_resumed(job, spec, self._settings, known)
        check_same_sources(spec, job)
        return self._cycle.orders.do(
            job_id, partial(resume_changed, file=ChangedFile(spec, package, script_key)), key
        )

    def cancel(self, job_id: str, at_once: bool = False) -> bool:
        """End a job; one that trains saves first. Return False if it had ended, or saves already.

        Raises: KeyError.

        Args:
            at_once: whether nothing is saved.
        """
        return self._cycle.orders.cancel(job_id, save=not at_once)

    def change(self, job_id: str, verb: str, key: str) -> bool:
        """Do one of `verbs.VERBS`, once for the same key. Return False if there is nothing to do.

        Raises: KeyError, JobStateError; JobLimitError where the user's queue is full.
        """
        if VERBS[verb] in BEGIN_AGAIN and (job := self._store.get(job_id)).asked != key:
            self._check_queue(job)
        done = self._cycle.orders.do(job_id, VERBS[verb], key)
        if waits_for_copy(self._store.get(job_id)):  # it was cancelled before, and goes on now
            self._forks.begin(job_id)
        return done

    def has_package(self, name: str) -> bool:
        return self._packages.has(name)

    def package_place(self) -> tuple[str, int]:
        """Return the folder of packages, on the disk of this node, and the most MiB of one."""
        return str(self._settings.package_dir), self._settings.max_package_mib

    def _completed(self, spec: JobSpec, owner: str) -> JobSpec:
        """Return a job with what teams make of it. Raises: JobLimitError."""
        return completed(spec, owner, self._teams.now).spec

    def _related(self, spec: JobSpec, owner: str) -> JobSpec:
        """Return a job with ids of the jobs that it starts after. Raises: JobLimitError."""
        if spec.after is None:
            return spec
        return spec.model_copy(update={"after": resolved(spec.after, lambda name: self._named.all(name, owner))})

    def _origin(self, spec: JobSpec, owner: str, script_key: str) -> Origin | None:
        """Return the checkpoint of another job that a job file names. Raises: JobLimitError."""
        if spec.resume_from is None:
            return None
        name, steps = source_of(spec.resume_from)
        try:
            source = self._started_from(name, spec, owner)
            known = self._store.recall(script_key, owner) if script_key else None
            return origin_of(source, spec, steps, self._settings, known)
        except (JobStateError, KeyError) as error:
            raise JobLimitError([f"resume_from: {error.args[0]}"]) from None

    def _sources(self, spec: JobSpec, owner: str) -> tuple[JobSpec, tuple[TrialSource, ...]]:
        """Return a job with ids of the jobs that its trials go on from, and these. Raises: JobLimitError."""
        try:
            return sources_of(spec, lambda name: self._started_from(name, spec, owner), self._settings)
        except JobStateError as error:
            raise JobLimitError([f"trials: from_job: {error.args[0]}"]) from None

    def _started_from(self, name: str, spec: JobSpec, owner: str) -> JobRecord:
        """Return a job from whose checkpoints another one may start. Raises: KeyError, JobStateError."""
        source = self._named.find(name, owner)
        if source.spec.team != spec.team and None not in (source.spec.team, spec.team):
            told = f"{source.id} is of team {source.spec.team}, and this job counts for {spec.team}"
            raise JobStateError(f"{told}; a checkpoint stays in its team")
        return source

    def _of_same_team(self, spec: JobSpec, job: JobRecord) -> JobSpec:
        """Return a changed job file with the job's team and a priority that it may have. Raises: JobLimitError."""
        if spec.team not in (None, job.spec.team):
            told = f"team: {spec.team} is not {job.spec.team or 'none'}, which the job keeps; leave it out"
            raise JobLimitError([told])
        if spec.priority is not None:
            check_priority(spec.priority, job.spec.team, self._teams.now)
        priority = spec.priority or job.spec.priority
        return spec.model_copy(update={"team": job.spec.team, "priority": priority})

    def _check_queue(self, job: JobRecord) -> None:
        """Refuse to let a job that has ended be queued again beyond limits. Raises: JobLimitError."""
        if not job.active:
            check_queue(job.owner, job.spec.team, self._store.unretired.values(), self._teams.now)

    def _check(self, spec: JobSpec, owner: str) -> None:
        """Refuse what a user has or gets nothing of. Raises: JobLimitError, SecretError, WebhookError."""
        if spec.deadline is not None:
            passed = spec.deadline.passed(self._clock.wall_s())
            if problems := [*filter(None, [passed, worth_refusal(spec.deadline, self._settings.most_worth)])]:
                raise JobLimitError(problems)
        self._secrets.check(spec, owner)
        self._webhooks.check(spec, owner)

    def _forked(
        self, job_id: str, changed: Mapping[str, str], packages: PackageStore | None = None
    ) -> tuple[JobRecord, JobSpec, Measurements | None]:
        """Return a job, the spec of its fork, and what was measured of earlier jobs with the fork's files.

        Args:
            packages: where the fork's package was put before; None: it may still come.
        """
        source = self._store.get(job_id)
        if "spec" not in changed:
            return source, _named(_without_relations(source.spec), changed), None
        spec = accepted(changed["spec"], changed.get("package", source.package), packages)
        key = changed.get("script_key")
        spec = _without_relations(spec)
        return source, _named(spec, changed), self._store.recall(key, source.owner) if key else None


def _without_relations(spec: JobSpec) -> JobSpec:
    """Return the spec of a fork, which starts from its source, and at once."""
    own = {"from_job": None, "from_trial": None, "from_epoch": None}
    trials = [trial.model_copy(update=own) for trial in spec.trials]
    return spec.model_copy(update={"after": None, "resume_from": None, "array": None, "trials": trials})


def _named(spec: JobSpec, changed: Mapping[str, str]) -> JobSpec:
    """Return a spec with the name that a fork is given, which is checked: folders are called by it.

    Raises: pydantic.ValidationError.
    """
    if not (name := changed.get("name")):
        return spec
    JobSpec.model_validate({"name": name, "script": "-"})
    return spec.model_copy(update={"name": name})


def _check_same_fork(known: JobRecord, job_id: str, steps: int | None, changed: Mapping[str, str]) -> None:
    """Raise KeyReusedError unless a job is the fork that is ordered again, as far as that can be seen."""
    origin = known.origin
    if origin is None or origin.job_id != job_id:
        raise KeyReusedError(f"Idempotency-Key: {known.id} was submitted with it, which is no fork of {job_id}")
    differing = ["steps"] if steps is not None and steps != origin.steps else []
    differing += ["name"] if changed.get("name", known.spec.name) != known.spec.name else []
    if differing:
        raise KeyReusedError(
            f"Idempotency-Key: {known.id} was submitted with it, and this fork differs in {', '.join(differing)}"
        )
