"""`doctor` names what is hurt in a store, and looks at the rest where something cannot be read."""

from dataclasses import replace
from pathlib import Path

import pytest
from coadapt.core.events import EventKind
from coadapt.core.job import JobSpec, Phase
from coadapt.core.slot import Slot
from coadapt.scheduler.jobs.lifecycle import advance
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.store.doctor import examine
from coadapt.scheduler.store.events import Event
from coadapt.scheduler.store.failures import StoreError
from coadapt.scheduler.store.intervals import UsageInterval
from coadapt.scheduler.store.store import Store

from tests.support.stores import raw

SPEC = JobSpec(name="digits", script="train.py")
SLOT = Slot("n1", "l1", (0,), "t4", emulated=True, cpus=0.5)


def filled(where: Path | str, jobs: int = 3) -> None:
    """Make a store of jobs, of which the first has trained and ended."""
    store = Store(where)
    for at in range(jobs):
        store.submit(SPEC, 100.0 + at, idempotency_key=str(at))
    job = ended(store, store.get("digits-1"))
    assert not job.active
    store.close()


def ended(store: Store, job: JobRecord) -> JobRecord:
    for phase in (Phase.PROFILING, Phase.QUEUED, Phase.RUNNING):
        job = store.save(replace(job, state=advance(job.state, phase, 110.0)))
    store.hold(UsageInterval(job.id, 110.0, None, "t4", 1, 1))
    over = replace(job, state=advance(job.state, Phase.SUCCEEDED, 120.0), retired=True)
    return store.save(over, Event(EventKind.FINISH, 120.0, job.id), now=120.0)


def kinds(where: Path | str) -> list[tuple[str, str]]:
    return [(one.kind, one.job) for one in examine(where).findings]


def test_nothing_is_hurt_in_a_store_that_was_used(where: Path | str) -> None:
    filled(where)
    found = examine(where)
    assert found.findings == []
    assert found.counts == {"jobs": 3, "job_files": 3, "events": 4, "intervals": 1}
    assert [job.id for job in found.jobs] == ["digits-1", "digits-2", "digits-3"]


def test_a_store_in_use_is_looked_at(store: Store, where: Path | str) -> None:
    store.submit(SPEC, 1.0, idempotency_key="1")
    assert examine(where).counts["jobs"] == 1


@pytest.mark.parametrize(
    ("harm", "kind", "job", "says"),
    [
        ("update job_details set details='{' where job_id='digits-2'", "row", "digits-2", "cannot be read"),
        ("delete from job_files where job_id='digits-2'", "file", "digits-2", "its job file is missing"),
        ("update intervals set end_s=null", "interval", "digits-1", "interval 1 never ends"),
        ("update intervals set end_s=1", "interval", "digits-1", "ends before it begins"),
        ("update events set time_s=9e9 where id=2", "event", "digits-3", "event 3 is"),
        ("update events set job_id='gone-9' where id=1", "event", "gone-9", "no such job"),
    ],
)
def test_what_is_hurt_is_named(where: Path | str, harm: str, kind: str, job: str, says: str) -> None:
    filled(where)
    raw(where, harm)
    found = [one for one in examine(where).findings if one.kind == kind]
    assert [one.job for one in found] == [job]
    assert says in found[0].text
    assert [one for one in kinds(where) if one[0] not in (kind, "row")] == []


def test_of_a_garbled_page_the_rest_is_told(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    filled(path, jobs=300)
    raw(path, "pragma wal_checkpoint(truncate)")
    (root,) = raw(path, "select rootpage from sqlite_master where name='job_details'")[0]
    (size,) = raw(path, "pragma page_size")[0]
    with path.open("r+b") as file:
        file.seek((int(str(root)) - 1) * int(str(size)))
        file.write(b"\xa5" * int(str(size)))
    found = examine(path)
    assert {one.kind for one in found.findings} >= {"page"}
    assert found.counts["jobs"] == 300


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    path.write_bytes(b"something else " * 1000)
    assert [one.text for one in examine(path).findings][:1] == ["file is not a database"]


def test_a_store_of_a_later_version_is_told(where: Path | str) -> None:
    filled(where)
    raw(where, "update alembic_version set version_num='0099'")
    (found,) = examine(where).findings
    assert (found.kind, "use the program that wrote it" in found.text) == ("version", True)


def test_where_no_store_is_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        examine(tmp_path / "jobs.sqlite")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreError, match="cannot be read"):
        examine("postgresql+psycopg://ann@127.0.0.1:1/none")
