"""Retention of a state directory: what is told before is what goes, and jobs that go on lose nothing."""

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.core.job_relations import AfterJobs
from coadapt.core.retention_settings import RetentionSettings
from coadapt.core.settings import Settings
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.scheduler.care.housekeeping import Housekeeping
from coadapt.scheduler.care.pruning import EVERY_S, Pruning
from coadapt.scheduler.files.packages import PackageStore
from coadapt.scheduler.jobs.lifecycle import advance
from coadapt.scheduler.jobs.record import Origin, TrialSource
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.store import Store

from tests.support.cycles import ManualClock
from tests.support.packages import kept

DAY_S = 86_400.0
SPEC = JobSpec(name="a", script="train.py")


class House:
    """A state directory, its store and its retention; days go by when told."""

    def __init__(self, folder: Path, **limits: float | None) -> None:
        self.settings = Settings(state_dir=str(folder), retention=RetentionSettings.model_validate(limits))
        self.clock, self.store = ManualClock(), Store(self.settings.store)
        self.lock = threading.RLock()
        self.pruning = Pruning(self.store, self.settings, self.clock, self.lock)

    def job(self, *, ends: bool = True, package: str | None = None, **starts: Any) -> str:
        now = self.clock.steady_s()
        key = str(now) + str(self.store.last_event)
        job, _ = self.store.submit(SPEC, now, idempotency_key=key, package=package, **starts)
        self.checkpoints(job.id).save({"made": 5}, 5)
        outputs = Path(self.settings.outputs_url(job.id, None))
        outputs.mkdir()
        (outputs / "model.txt").write_text("x" * 1000)
        self.settings.log_dir(job.id).mkdir(parents=True)
        if ends:
            over = replace(job, state=advance(job.state, Phase.CANCELLED, now), retired=True)
            self.store.save(over, now=now)
        return job.id

    def checkpoints(self, job_id: str) -> CheckpointStore:
        return CheckpointStore(self.settings.checkpoint_url(job_id, None))

    def pass_days(self, days: float) -> None:
        self.clock.forward(days * DAY_S)

    def has(self, job_id: str) -> tuple[bool, bool, bool]:
        """Return whether a job has checkpoints, outputs and rows."""
        outputs = Path(self.settings.outputs_url(job_id, None), "model.txt").exists()
        return self.checkpoints(job_id).newest() is not None, outputs, self.store.find(job_id) is not None


def test_checkpoints_go_first_then_outputs_then_jobs(tmp_path: Path) -> None:
    house = House(tmp_path, checkpoint_days=10, output_days=20, ended_job_days=30)
    job = house.job()
    expected = [(True, True, True), (False, True, True), (False, False, True), (False, False, False)]
    for has in expected:
        house.pruning.prune()
        assert house.has(job) == has
        house.pass_days(11)
        house.job()  # whose rows are the newest
    assert not house.settings.log_dir(job).exists()
    assert not Path(house.settings.checkpoint_url(job, None)).exists()
    assert {event.kind for event in house.store.cluster_events()} == {EventKind.PRUNED}


@pytest.mark.parametrize("forked", [True, False], ids=["a fork", "trials"])
def test_nothing_is_taken_from_jobs_that_go_on_or_from_which_others_start(tmp_path: Path, forked: bool) -> None:
    house = House(tmp_path, checkpoint_days=1, output_days=1, ended_job_days=1)
    active, source = house.job(ends=False), house.job()
    url = house.checkpoints(source).url
    forks = (
        {"origin": Origin(source, 5, "step", url)} if forked else {"trial_sources": (TrialSource(source, url),)}
    )
    fork = house.job(ends=False, **forks)
    house.pass_days(100)
    house.job()
    house.pruning.prune()
    for job in (active, source, fork):
        assert house.has(job) == (True, True, True)
    record = house.store.get(fork)
    over = replace(record, state=advance(record.state, Phase.CANCELLED, house.clock.steady_s()), retired=True)
    house.store.save(over, now=house.clock.steady_s())
    house.pruning.prune()
    assert house.has(source) == (False, False, False)


def test_a_job_after_which_others_start_stays_until_they_have(tmp_path: Path) -> None:
    house = House(tmp_path, ended_job_days=1)
    first = house.job()
    waits, _ = house.store.submit(
        SPEC.model_copy(update={"after": AfterJobs(ok=[first])}), house.clock.steady_s(), idempotency_key="waits"
    )
    house.pass_days(100)
    house.job()
    house.pruning.prune()
    assert house.store.find(first) is not None, "without it, the job that waits would be cancelled"
    over = replace(waits, state=advance(waits.state, Phase.CANCELLED, house.clock.steady_s()), retired=True)
    house.store.save(over, now=house.clock.steady_s())
    house.pruning.prune()
    assert house.store.find(first) is None


def test_what_is_told_before_is_what_goes(tmp_path: Path) -> None:
    house = House(tmp_path, checkpoint_days=1, output_days=1, ended_job_days=1, event_days=1)
    for _ in range(3):
        house.job()
    house.store.log(*(Event(EventKind.LEARNED, house.clock.steady_s(), None) for _ in range(5)))
    kept(house.settings.package_dir, "old", b"content")
    os.utime(house.settings.package_dir / "old.tar.gz", (0, 0))
    house.pass_days(2)
    house.job()
    told = {one.kind: one for one in house.pruning.prune(dry_run=True)}
    assert house.pruning.prune(dry_run=True) == list(told.values()), "a dry run changes nothing"
    counts = {kind: one.count for kind, one in told.items()}
    assert counts == {
        "ended jobs": 3,
        "checkpoints of ended jobs": 3,
        "outputs of ended jobs": 3,
        "packages": 1,
        "events": 8,
    }
    assert told["outputs of ended jobs"].bytes == 3000
    assert told["packages"].bytes == 7
    assert told["checkpoints of ended jobs"].bytes > 0
    gone = {one.kind: one.count for one in house.pruning.prune()}
    assert gone["ended jobs"] == 3
    assert gone["packages"] == 1
    assert gone["events"] == 5, "those of the jobs went with them"
    assert house.pruning.prune() == []


def test_a_package_that_a_kept_job_names_or_somebody_asked_for_stays(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.job(package="named")
    packages = PackageStore(house.settings.package_dir)
    for name in ("named", "asked"):
        kept(house.settings.package_dir, name)
        os.utime(house.settings.package_dir / f"{name}.tar.gz", (0, 0))
    assert packages.has("asked")
    torn = [house.settings.package_dir / f"{age}.part" for age in ("old", "new")]
    for path in torn:
        path.write_bytes(b"half")
    os.utime(torn[0], (0, 0))
    house.pruning.prune()
    assert (packages.has("named"), packages.has("asked")) == (True, True)
    assert [path.exists() for path in torn] == [False, True], "one may still be coming"


def test_a_job_that_begins_again_while_files_are_removed_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, checkpoint_days=1)
    job = house.job()
    house.pass_days(2)
    ends = house.store.get(job)

    class BeginsAgain:
        """A lock that is had only after the user's `resume`."""

        def __enter__(self) -> None:
            again = replace(ends, retired=False, state=advance(ends.state, Phase.SUBMITTED, 5.0))
            house.store.save(again)

        def __exit__(self, *error: object) -> None: ...

    Pruning(house.store, house.settings, house.clock, BeginsAgain()).prune()
    assert house.has(job) == (True, True, True)


def test_what_a_killed_service_had_begun_to_remove_goes(tmp_path: Path) -> None:
    house = House(tmp_path)
    left = tmp_path / "checkpoints" / ".removed-abc"
    (left / "files").mkdir(parents=True)
    house.pruning.prune()
    assert not left.exists()


def test_it_looks_once_an_hour_and_stops_when_told(tmp_path: Path) -> None:
    house = House(tmp_path, checkpoint_days=1)
    keeping = Housekeeping([house.pruning])
    keeping.look()
    job = house.job()
    house.pass_days(2)
    house.clock.forward(-2 * DAY_S + EVERY_S / 2)
    keeping.look()
    assert house.has(job)[0]
    house.pruning.stop()
    house.pass_days(2)
    keeping.look()
    assert house.has(job)[0]
    assert keeping.notes() == []


def test_a_url_that_no_file_system_serves_is_told_and_harms_nothing(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path), checkpoint_root="nothing://bucket")
    keeping = Housekeeping([Pruning(Store(settings.store), settings, ManualClock(), House(tmp_path / "x").lock)])
    keeping.look()
    assert "nothing" in keeping.notes()[0]


def test_checkpoints_behind_a_url_go_too(tmp_path: Path) -> None:
    house = House(tmp_path, checkpoint_days=1)
    job = house.job()
    house.pass_days(2)
    remote = "memory://bucket"
    settings = house.settings.model_copy(update={"checkpoint_root": remote})
    CheckpointStore(settings.checkpoint_url(job, None)).save({"made": 5}, 5)
    assert [one.kind for one in Pruning(house.store, settings, house.clock, house.lock).prune()] == [
        "checkpoints of ended jobs"
    ]
    assert CheckpointStore(settings.checkpoint_url(job, None)).newest() is None
    shutil.rmtree(tmp_path / "checkpoints")
