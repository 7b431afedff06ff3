"""An ended job's folders are removed from the machines it ran on, also by a service that starts later."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.events import EventKind
from coadapt.core.job import Phase
from coadapt.core.settings import Settings
from coadapt.executor.files.job_folder import work_folder
from coadapt.executor.files.site import Site
from coadapt.scheduler.access.lines import line_of
from coadapt.scheduler.changes.reactions import end
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.observers.folders import FolderHook
from coadapt.scheduler.store.store import Store

from tests.support.cycles import ManualClock
from tests.support.records import SPEC


@dataclass
class NotedMachines:
    """Notes what is to be cleaned; each machine says that something had to stay."""

    cleaned: list[tuple[Sequence[str], Site]] = field(default_factory=list)

    def clean(self, addresses: Sequence[str], site: Site, tell: Callable[[str], None]) -> None:
        self.cleaned.append((addresses, site))
        tell("10.0.0.2 is away")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=str(tmp_path), checkpoint_root="s3://bucket")


def ended(store: Store, key: str, **changes: Any) -> JobRecord:
    job, _ = store.submit(SPEC, 0.0, idempotency_key=key, package="abc")
    stopped = end(replace(job, **changes), Phase.CANCELLED, "cancelled by the user", 1.0).job
    retired = replace(stopped, machines=("10.0.0.1", "10.0.0.2"), retired=True)
    store.save(retired, now=1.0)
    return retired


def test_a_job_is_cleaned_on_its_machines_and_its_log_says_what_has_to_stay(settings: Settings) -> None:
    store, machines = Store(settings.store_path), NotedMachines()
    hook = FolderHook(store, machines, settings, ManualClock())
    job = ended(store, "a")
    hook.retired(job)
    url = f"s3://bucket/{job.id}/outputs"
    site = Site(job.folder, settings.state_dir, outputs_url=url, line=line_of(job.id, settings))
    assert machines.cleaned == [(job.machines, site)]
    told = store.events(job.id)[-1]
    assert (told.kind, told.data["text"]) == (EventKind.OUTPUTS, "10.0.0.2 is away")


def test_a_job_that_ran_in_the_users_own_folder_loses_nothing(settings: Settings) -> None:
    store, machines = Store(settings.store_path), NotedMachines()
    hook = FolderHook(store, machines, settings, ManualClock())
    hook.retired(ended(store, "a", package=None))
    assert machines.cleaned == []


def test_a_service_that_starts_cleans_what_is_left_of_jobs_that_had_ended(settings: Settings) -> None:
    store, machines = Store(settings.store_path), NotedMachines()
    left, gone = ended(store, "a"), ended(store, "b")
    runs, _ = store.submit(SPEC, 0.0, idempotency_key="c", package="abc")
    for job in (left, runs):
        (work_folder(settings.state_dir) / job.folder).mkdir()
    FolderHook(store, machines, settings, ManualClock()).clean_rest()
    assert [site.key for _, site in machines.cleaned] == [left.folder]
    assert gone.folder != left.folder
