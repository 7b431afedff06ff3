"""Jobs that start from checkpoints of other jobs: which ones, and copies of them, which are made beside rounds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import replace
from functools import partial

from ...core.checkpoint_name import CheckpointName
from ...core.doors import Door
from ...core.errors import JobStateError
from ...core.job import JobSpec, Phase
from ...core.schemas import ForkView
from ...core.settings import Settings
from ...estimators.measurements import Measurements
from ..access.lines import line_of
from ..files.checkpoints import CheckpointFiles, CheckpointFilesError, chosen
from ..jobs.record import JobRecord, Origin
from ..store.store import Store
from .changed_files import fit
from .reactions import Reaction, end
from .trial_sources import copy_states, with_states
from .verbs import Verb


def origin_of(
    source: JobRecord, spec: JobSpec, steps: int | None, settings: Settings, known: Measurements | None = None
) -> Origin:
    """Return what a fork with this spec starts from: the newest checkpoint of a job, or that of a step.

    Args:
        known: what was measured of an earlier job with the same files and arguments as `spec`.

    Raises: JobStateError where there is none, a program keeps its own, or it is known to be of another model.
    """
    for door, called in ((source.spec.door, source.id), (spec.door, "the job file")):
        if door is not Door.NATIVE:
            raise JobStateError(
                f"fork: {called} is of a {door} job, which never calls coadapt.prepare; "
                "only its program knows its checkpoints"
            )
    url = settings.checkpoint_url(source.id, source.spec.training.checkpoint.url)
    try:
        name = chosen(CheckpointFiles(url).published(), source.id, steps)
    except CheckpointFilesError as error:
        raise JobStateError(f"{source.id}: {error}") from None
    for misfit in fit(source, spec, known).refused:
        raise JobStateError(misfit)
    return Origin(source.id, name.steps, name.stem, url)


def would_fork(
    source: JobRecord, spec: JobSpec, steps: int | None, settings: Settings, known: Measurements | None
) -> ForkView:
    """Return what would become of a fork, with the arguments of `origin_of`; nothing is stored."""
    try:
        origin = origin_of(source, spec, steps, settings, known)
    except JobStateError as error:
        return ForkView(steps=None, refused=[str(error)], notes=[])
    return ForkView(steps=origin.steps, refused=[], notes=list(fit(source, spec, known).notes))


def check_resumed(source: JobRecord, spec: JobSpec, settings: Settings, known: Measurements | None) -> None:
    """Refuse a changed job file of which it is known that it does not fit a job's own checkpoints.

    Raises: JobStateError. Checkpoints that cannot be listed say nothing here.
    """
    misfits = fit(source, spec, known).refused
    with suppress(CheckpointFilesError):
        url = settings.checkpoint_url(source.id, source.spec.training.checkpoint.url)
        if misfits and CheckpointFiles(url).published():
            raise JobStateError(misfits[0])


def copied(job: JobRecord, now: float) -> Reaction:
    """Let a job take part, as what it starts from is in its own folder now."""
    if not waits_for_copy(job):
        return Reaction(job)
    origin = None if job.origin is None else replace(job.origin, copied=True)
    return Reaction(replace(with_states(job), origin=origin), round=True)


def not_copied(job: JobRecord, now: float, why: str) -> Reaction:
    """Fail a job that cannot have what it starts from."""
    return end(job, Phase.FAILED, why, now) if waits_for_copy(job) else Reaction(job)


def waits_for_copy(job: JobRecord) -> bool:
    """Return whether a job may not start yet, as a checkpoint that it starts from is not in its folder."""
    forked = job.origin is not None and not job.origin.copied
    return job.active and (forked or any(one.copied is False for one in job.trial_sources))


class Forks:
    """Copies the checkpoints that forks and groups of trials start from.

    Nobody waits for it; a restarted service copies what is missing.

    Args:
        do: changes a job, as `JobOrders.do` does.
        threads: where copies are made.
    """

    def __init__(
        self, store: Store, do: Callable[[str, Verb], bool], settings: Settings, threads: Executor
    ) -> None:
        self._store = store
        self._do = do
        self._settings = settings
        self._threads = threads

    def begin(self, job_id: str) -> None:
        """Have copied what a job starts from."""
        self._threads.submit(self._copy, job_id)

    def begin_rest(self) -> None:
        """Have copied what an earlier service did not copy."""
        for job in self._store.unretired.values():
            if waits_for_copy(job):
                self.begin(job.id)

    def _copy(self, job_id: str) -> None:
        job, what = self._store.get(job_id), ""
        if not waits_for_copy(job):
            return
        try:
            if job.origin is not None and not job.origin.copied:
                what = f"fork of {job.origin.job_id}"
                self._copy_checkpoint(job, job.origin)
            for source in job.trial_sources:
                if source.copied is False:
                    what = f"trials of {source.job_id}"
                    copy_states(job, source, self._settings)
        except Exception as error:
            why = str(error) if isinstance(error, CheckpointFilesError) else f"{type(error).__name__}: {error}"
            self._do(job_id, partial(not_copied, why=f"{what}: {why}"))
        else:
            self._do(job_id, copied)

    def _copy_checkpoint(self, job: JobRecord, origin: Origin) -> None:
        name = CheckpointName.parse(origin.checkpoint)
        assert name is not None
        own = self._settings.checkpoint_url(job.id, job.spec.training.checkpoint.url)
        source, uid = (line_of(one, self._settings).uid for one in (origin.job_id, job.id))
        CheckpointFiles(origin.url, source).copy_to(name, CheckpointFiles(own, uid))
