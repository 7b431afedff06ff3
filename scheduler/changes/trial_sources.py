"""Trials that go on from other jobs: from which ones, and copies of states that their process could not read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...core.errors import JobStateError
from ...core.isolation import Isolation
from ...core.job import JobSpec
from ...core.settings import Settings
from ...core.trials import url_of_epoch
from ..access.lines import line_of
from ..files.checkpoints import CheckpointFiles, CheckpointFilesError, on_disk
from ..jobs.record import JobRecord, TrialSource

TRIES = 3  # a group that trains replaces its newest checkpoint


def sources_of(
    spec: JobSpec, find: Callable[[str], JobRecord], settings: Settings
) -> tuple[JobSpec, tuple[TrialSource, ...]]:
    """Return a job whose trials name other jobs by their ids, and where the states of these are.

    Args:
        find: returns the job of a name. Raises: KeyError or JobStateError, with a sentence.

    Raises: JobStateError for a job that is not there, that its user may not read, or that keeps no trials.
    """
    found: dict[str, JobRecord] = {}
    for name in sorted({trial.from_job for trial in spec.trials if trial.from_job}):
        try:
            source = found[name] = find(name)
        except KeyError as error:
            raise JobStateError(f"{error.args[0]} of your own or of your teams") from None
        if not source.spec.is_group:
            raise JobStateError(f"{source.id} is no group of trials, so no trial goes on from it")
    if not found:
        return spec, ()
    trials = [
        trial.model_copy(update={"from_job": found[trial.from_job].id}) if trial.from_job else trial
        for trial in spec.trials
    ]
    by_id = {source.id: source for source in found.values()}
    return (
        spec.model_copy(update={"trials": trials}),
        tuple(_source(by_id[job_id], settings) for job_id in sorted(by_id)),
    )


def same_sources(spec: JobSpec, of: JobSpec) -> JobSpec:
    """Return a job that was submitted before, whose trials name the jobs that were found then."""
    found = {trial.number: trial.from_job for trial in of.trials}
    trials = [
        trial.model_copy(update={"from_job": found.get(trial.number, trial.from_job)}) if trial.from_job else trial
        for trial in spec.trials
    ]
    return spec.model_copy(update={"trials": trials})


def check_same_sources(spec: JobSpec, job: JobRecord) -> None:
    """Refuse a changed file whose trials begin elsewhere: the job goes on from its own states.

    Raises: JobStateError.
    """
    known = {trial.number: trial.from_job for trial in job.spec.trials}
    for trial in spec.trials:
        if trial.from_job is not None and trial.from_job != known.get(trial.number):
            raise JobStateError(
                f"trials: from_job: {trial.from_job} is new for trial {trial.number}, and {job.id} goes on from "
                "its own states; submit another job"
            )


def copy_states(job: JobRecord, source: TrialSource, settings: Settings) -> None:
    """Copy what trials of a group go on from into the group's own folder. Raises: CheckpointFilesError."""
    mine, theirs = (line_of(one, settings).uid for one in (job.id, source.job_id))
    own = settings.checkpoint_url(job.id, job.spec.training.checkpoint.url)
    target = source.url_for(own)
    for folder in (own, target.rsplit("/", 1)[0], target):
        CheckpointFiles(folder, mine).make()
    for epoch in sorted({trial.from_epoch or 0 for trial in job.spec.trials if trial.from_job == source.job_id}):
        there, here = (url_of_epoch(url, epoch) if epoch else url for url in (source.url, target))
        _copy_newest(CheckpointFiles(there, theirs), CheckpointFiles(here, mine), source.job_id, epoch)


def _copy_newest(there: CheckpointFiles, here: CheckpointFiles, job_id: str, epoch: int) -> None:
    for left in reversed(range(TRIES)):
        if not (found := there.published()):
            raise CheckpointFilesError(f"{job_id} has no checkpoint" + (f" of epoch {epoch}" if epoch else ""))
        try:
            there.copy_to(found[-1], here)
            return
        except CheckpointFilesError:
            if not left or there.published()[-1:] == found[-1:]:
                raise


def with_states(job: JobRecord) -> JobRecord:
    """Return a group whose states are all in its own folder."""
    return replace(
        job,
        trial_sources=tuple(one if one.copied is None else replace(one, copied=True) for one in job.trial_sources),
    )


def _source(job: JobRecord, settings: Settings) -> TrialSource:
    url = settings.checkpoint_url(job.id, job.spec.training.checkpoint.url)
    # Between lines, a job sees no folder on a disk but its own.
    closed = settings.isolation is not Isolation.NONE and on_disk(url)
    return TrialSource(job.id, url, False if closed else None)
