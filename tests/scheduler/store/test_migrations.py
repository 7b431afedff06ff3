"""Stores of every released version can be used by this one, and by the one before again."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from coadapt.core.job import Phase
from coadapt.scheduler.store import migrating, opening
from coadapt.scheduler.store.database import Database
from coadapt.scheduler.store.failures import StoreError
from coadapt.scheduler.store.schema import metadata
from coadapt.scheduler.store.store import Store

from tests.support.released_stores import RELEASED, contents, migrate, put
from tests.support.stores import raw


def test_every_version_but_the_newest_has_a_store_among_the_test_data() -> None:
    assert migrating.versions() == [*RELEASED, opening.VERSION]


@pytest.mark.parametrize("version", RELEASED)
def test_all_jobs_of_an_earlier_store_are_there_with_what_was_known_of_them(
    version: str, where: Path | str, tmp_path: Path
) -> None:
    put(version, where, tmp_path)
    store = Store(where)
    found = {job.id: job for job in store.every()}
    assert {id: job.phase for id, job in found.items()} == {
        "a-1": Phase.RUNNING,
        "b-2": Phase.PROFILING,
        "c-3": Phase.QUEUED,
        "d-4": Phase.CANCELLED,
        "e-5": Phase.SUCCEEDED,
        "torn-6": Phase.SUBMITTED,
    }
    a, c, torn = found["a-1"], found["c-3"], found["torn-6"]
    assert (a.owner, len(a.target), a.target, a.group) == ("ann", 2, a.held, a.target)
    assert a.foretold is not None
    assert a.foretold.basis == "41 earlier jobs"
    assert str(a.metrics["loss"]) == "nan"
    assert a.measurements is not None
    assert set(a.measurements.profiles) == {"t4"}
    assert (c.paused, c.package, c.script_key, c.changed and c.changed.spec.script) == (
        True,
        "pkg1",
        "key1",
        "new.py",
    )
    assert c.origin is not None
    assert c.origin.copied
    assert torn.quarantine.startswith("its record cannot be read")
    assert len(store.held_time("e-5").served) == 1
    assert store.recall("net") is not None
    assert store.recall("key1") is not None
    assert store.machine_rows.read() == {"m0": '{"name": "m0"}'}
    assert [event.kind.value for event in store.events("d-4")] == ["submit", "cancel"]
    store.close()


@pytest.mark.parametrize("version", RELEASED)
def test_a_store_goes_up_down_and_up_with_all_that_the_older_one_can_hold(
    version: str, where: Path | str, tmp_path: Path
) -> None:
    put(version, where, tmp_path)
    before = contents(where)
    migrate(where, opening.VERSION, tmp_path / "backups")
    up = contents(where)
    migrate(where, version, tmp_path / "backups")
    assert contents(where) == before
    migrate(where, opening.VERSION, tmp_path / "backups")
    assert contents(where) == up


@pytest.mark.parametrize("version", RELEASED)
def test_before_a_migration_a_backup_is_written_that_is_the_store_before(version: str, tmp_path: Path) -> None:
    where = tmp_path / "jobs.sqlite"
    put(version, where, tmp_path)
    before = contents(where)
    Store(where).close()
    (backup,) = (tmp_path / "backups").iterdir()
    assert backup.name.startswith(f"before-{opening.VERSION}-from-{version}-")
    assert contents(backup) == before
    assert oct(backup.stat().st_mode)[-3:] == "600"


def test_a_migrated_store_has_the_tables_of_a_new_one(where: Path | str, tmp_path: Path) -> None:
    database = Database(opening.url_of(where))
    database.write(lambda connection: migrating.migrate(connection, None, opening.VERSION))
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [one for one in compare_metadata(context, metadata) if "alembic_version" not in repr(one)]
    database.close()
    assert differences == []


def test_a_store_of_a_later_version_is_refused_and_stays_as_it_is(where: Path | str) -> None:
    Store(where).close()
    raw(where, "update alembic_version set version_num='0099'")
    told = rf"store version 0099, and this program writes version {opening.VERSION}; use the program"
    with pytest.raises(StoreError, match=told):
        Store(where)
    assert raw(where, "select version_num from alembic_version") == [("0099",)]
