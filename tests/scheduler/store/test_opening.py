"""One service writes a store; a file that is no store, or where it loses data, is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from coadapt.core.job import JobSpec
from coadapt.scheduler.store import opening
from coadapt.scheduler.store.failures import LostStore, StoreError, StoreFailure
from coadapt.scheduler.store.store import Store

from tests.support.stores import raw

SPEC = JobSpec(name="digits", script="train.py")
HOLDER = """
import sys
from coadapt.scheduler.store.store import Store
store = Store(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coadapt.scheduler.store.lock.WAIT_S", 0.0)


def test_a_second_service_is_refused_with_host_and_process_of_the_first(where: Path | str) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(where)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(StoreError, match=rf"held by process {holder.pid} on {os.uname().nodename}, since 20"):
        Store(where)
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()
    Store(where).close()


def test_a_service_whose_store_was_taken_over_writes_no_more(where: Path | str) -> None:
    store = Store(where)
    job, _ = store.submit(SPEC, 1.0, idempotency_key="1")
    raw(where, "update meta set value='99' where key='epoch'")
    with pytest.raises(LostStore, match="another service has taken the store over"):
        store.submit(SPEC, 2.0, idempotency_key="2")
    assert [one.id for one in store.every()] == [job.id]
    store.close()


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.sqlite"
    path.write_text("something else, long enough to have no sqlite header at all" * 20)
    with pytest.raises(StoreError, match=r"the store cannot be opened: file is not a database"):
        Store(path)


def test_a_database_with_other_tables_is_refused(where: Path | str) -> None:
    raw(where, "create table meta(key text primary key, value text)")
    with pytest.raises(StoreError, match="store version None is not known"):
        Store(where)


def test_a_database_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        StoreError, match=r"^postgresql\+psycopg://ann:\*\*\*@127.0.0.1:1/none: the store cannot be"
    ):
        Store("postgresql+psycopg://ann:secret@127.0.0.1:1/none")


@pytest.mark.parametrize("url", ["nonsense://x", "mysql+nothing://x/y", "postgresql+psycopg//x"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(StoreError, match="cannot be"):
        Store(f"{url}://" if "://" not in url else url)


def test_sqlite_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "network_file_system", lambda path: "nfs4")
    with pytest.raises(
        StoreError, match=r"on a network file system \(nfs4\), where SQLite loses data; give a folder"
    ):
        Store(tmp_path / "jobs.sqlite")
    assert not (tmp_path / "jobs.sqlite").exists()


def test_nobody_else_may_read_a_store(tmp_path: Path) -> None:
    os.umask(0o022)
    Store(tmp_path / "jobs.sqlite").close()
    assert oct((tmp_path / "jobs.sqlite").stat().st_mode)[-3:] == "600"


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    with pytest.raises(StoreFailure, match="the store is closed"):
        store.submit(SPEC, 1.0, idempotency_key="1")
