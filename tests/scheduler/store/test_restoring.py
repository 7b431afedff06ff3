"""A backup comes back whole, the store before it is kept, and no number is given twice."""

from pathlib import Path

import pytest
from coadapt.core.job import JobSpec
from coadapt.scheduler.store import backup, restoring
from coadapt.scheduler.store.failures import LostStore, StoreError
from coadapt.scheduler.store.store import Store

from tests.support.stores import raw

SPEC = JobSpec(name="digits", script="train.py")


@pytest.fixture(autouse=True)
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coadapt.scheduler.store.lock.WAIT_S", 0.0)


def ids(where: Path | str) -> list[str]:
    store = Store(where)
    found = [job.id for job in store.every()]
    store.close()
    return found


def submit(where: Path | str, *keys: str) -> None:
    store = Store(where)
    for key in keys:
        store.submit(SPEC, 1.0, idempotency_key=key)
    store.close()


def backed_up(where: Path | str, folder: Path) -> Path:
    store = Store(where)
    path = backup.write(store.database, folder / "copy.sqlite")
    store.close()
    return path


def test_a_backup_comes_back_and_the_store_before_it_is_kept(where: Path | str, tmp_path: Path) -> None:
    submit(where, "1", "2")
    copy = backed_up(where, tmp_path)
    submit(where, "3")
    done = restoring.restore(copy, where, tmp_path / "backups", [])
    assert done.jobs == 2
    assert ids(where) == ["digits-1", "digits-2"]
    assert ids(Path(done.kept)) == ["digits-1", "digits-2", "digits-3"]


def test_no_number_is_given_twice_after_a_backup_came_back(where: Path | str, tmp_path: Path) -> None:
    submit(where, "1")
    copy = backed_up(where, tmp_path)
    submit(where, "2", "3")
    (tmp_path / "logs" / "other-17").mkdir(parents=True)
    restoring.restore(copy, where, tmp_path / "backups", [])
    store = Store(where)
    assert store.submit(SPEC, 2.0, idempotency_key="4")[0].id == "digits-4"
    assert store.last_event == 4
    store.close()
    restoring.restore(copy, where, tmp_path / "backups", [tmp_path / "logs"])
    store = Store(where)
    assert store.submit(SPEC, 2.0, idempotency_key="5")[0].number == 18
    store.close()


def test_a_store_moves_between_a_file_and_a_server(where: Path | str, tmp_path: Path) -> None:
    submit(tmp_path / "from.sqlite", "1", "2")
    copy = backed_up(tmp_path / "from.sqlite", tmp_path)
    assert restoring.restore(copy, where, tmp_path / "backups", []).kept == ""
    assert ids(where) == ["digits-1", "digits-2"]


def test_a_store_that_is_held_is_left_as_it_is(where: Path | str, tmp_path: Path) -> None:
    submit(where, "1")
    copy = backed_up(where, tmp_path)
    store = Store(where)
    store.submit(SPEC, 1.0, idempotency_key="2")
    with pytest.raises(StoreError, match="the store is held by process"):
        restoring.restore(copy, where, tmp_path / "backups", [])
    assert [job.id for job in store.every()] == ["digits-1", "digits-2"]
    store.close()


def test_who_wrote_the_store_before_can_write_no_more(where: Path | str, tmp_path: Path) -> None:
    submit(where, "1")
    copy = backed_up(where, tmp_path)
    submit(where, "2", "3")
    before = raw(where, "select value from meta where key='epoch'")
    restoring.restore(copy, where, tmp_path / "backups", [])
    store = Store(where)
    assert store.database.epoch is not None
    assert store.database.epoch > int(str(before[0][0]))
    store.close()
    assert issubclass(LostStore, StoreError)


def test_a_backup_replaces_a_damaged_store(tmp_path: Path) -> None:
    where = tmp_path / "jobs.sqlite"
    submit(where, "1")
    copy = backed_up(where, tmp_path)
    where.write_bytes(b"something else " * 2000)
    done = restoring.restore(copy, where, tmp_path / "backups", [])
    assert ids(where) == ["digits-1"]
    assert Path(done.kept).read_bytes().startswith(b"something else")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such file"),
        (b"no database at all, but long enough" * 100, "the backup is damaged: file is not a database"),
        (b"", "it is no store that this program can read"),
    ],
)
def test_what_is_no_backup_is_refused(tmp_path: Path, content: bytes | None, says: str) -> None:
    where, source = tmp_path / "jobs.sqlite", tmp_path / "other.sqlite"
    submit(where, "1")
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(StoreError, match=says):
        restoring.restore(source, where, tmp_path / "backups", [])
    assert ids(where) == ["digits-1"]


def test_a_backup_of_a_later_version_is_refused(tmp_path: Path) -> None:
    submit(tmp_path / "jobs.sqlite", "1")
    copy = backed_up(tmp_path / "jobs.sqlite", tmp_path)
    raw(copy, "update alembic_version set version_num='0099'")
    with pytest.raises(StoreError, match=r"version 0099\); it knows 0001"):
        restoring.restore(copy, tmp_path / "jobs.sqlite", tmp_path, [])


def test_a_store_is_not_restored_from_itself(tmp_path: Path) -> None:
    submit(tmp_path / "jobs.sqlite", "1")
    with pytest.raises(StoreError, match="it is the store itself"):
        restoring.restore(tmp_path / "jobs.sqlite", tmp_path / "jobs.sqlite", tmp_path, [])
