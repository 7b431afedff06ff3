"""What jobs measured is there for the next job of the same model; a report without news costs nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.job import JobSpec, JobState
from coadapt.core.reports import StepRow
from coadapt.estimators.measurements import Measurements
from coadapt.scheduler.changes.profile_reuse import kept
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.observers.hooks import Change
from coadapt.scheduler.observers.known_profiles import KnownProfiles
from coadapt.scheduler.rounds.models import ModelCache
from coadapt.scheduler.store.store import Store

from tests.support.cycles import measured
from tests.support.stores import raw

JOB = JobRecord("a-1", 1, JobSpec(name="a", script="t.py"), JobState(submitted_s=0.0), script_key="s")
NOISY = {"grad_sqr": 1.0, "grad_var": 50.0}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "jobs.sqlite")


def tell(known: KnownProfiles, before: Measurements | None, after: Measurements) -> None:
    known.changed(Change(replace(JOB, measurements=before), replace(JOB, measurements=after), 5.0))


def test_a_job_of_the_same_script_takes_over_step_times_and_no_noise(store: Store) -> None:
    tell(KnownProfiles(store), None, replace(measured("t4"), **NOISY))
    found = KnownProfiles(store).with_known(JOB).measurements
    assert found is not None
    assert set(found.profiles) == {"t4"}
    assert found.noise_scale is None


def test_a_report_that_changes_the_noise_alone_writes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, first = KnownProfiles(store), measured("t4")
    tell(known, None, first)
    written: list[str] = []
    monkeypatch.setattr(store, "remember", lambda entries, now, owner: written.extend(entries))
    tell(known, first, replace(first, **NOISY))
    assert (written, known.version) == ([], 2)
    tell(known, first, first.with_rows("t4", [StepRow(1, 2, 8, 0, 0.2, 0.1, 5)]))
    assert (written, known.version) == (["net", "s"], 2)
    tell(known, first, measured("t4", "a100"))
    assert known.version == 4, "other jobs may need no run on it any more"


def test_what_is_stored_and_cannot_be_read_is_as_if_it_were_unknown(store: Store, tmp_path: Path) -> None:
    store.remember({"s": measured("t4")}, 1.0)
    raw(tmp_path / "jobs.sqlite", "update profiles set measurements='{'")
    assert KnownProfiles(store).with_known(JOB) == JOB


def test_the_same_measurements_again_are_the_value_that_is_stored() -> None:
    stored = measured("t4")
    assert kept(measured("t4"), stored) is stored
    assert kept(measured("t4", "a100"), stored) is not stored
    assert kept(None, stored) is stored


def test_a_model_is_made_again_only_for_other_measurements_or_gpu_types() -> None:
    cache, errors = ModelCache(), list[str]()

    def model(measurements: Measurements, *gpu_types: str) -> object:
        job = replace(JOB, measurements=measurements)
        return cache.models([job], gpu_types, lambda job_id, error: errors.append(job_id))["a-1"]

    first = measured("t4")
    made = model(first, "t4")
    assert model(first, "t4") is made
    assert model(first, "a100", "t4") is not made
    assert model(measured("t4"), "t4") is not made
    assert not errors


def test_nobody_elses_measurements_decide_how_a_job_is_placed(store: Store) -> None:
    known = KnownProfiles(store)
    mine, theirs = replace(JOB, owner="ann"), replace(JOB, owner="bob")
    store.remember({"s": measured("t4")}, 1.0, "bob")
    assert known.with_known(mine) == mine
    assert known.with_known(theirs).measurements is not None
    store.remember({"s": measured("a100")}, 1.0)
    found = KnownProfiles(store).with_known(mine).measurements
    assert found is not None, "what was measured before jobs had owners counts for all"
    assert set(found.profiles) == {"a100"}
