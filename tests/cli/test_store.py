"""`coadapt backup`, `restore`, `doctor` and `migrate` without a cluster: files, exit codes, one sentence each."""

import json
from pathlib import Path

import pytest
from coadapt.cli import main
from coadapt.cli.exit_codes import Exit
from coadapt.client.backup_file import fetched_backup
from coadapt.core.errors import StoreError
from coadapt.core.job import JobSpec
from coadapt.core.schemas import BackupView
from coadapt.scheduler.store import opening
from coadapt.scheduler.store.store import Store

from tests.support.stores import raw

SPEC = JobSpec(name="digits", script="train.py")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with a store of two jobs, and no cluster."""
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("coadapt.scheduler.store.lock.WAIT_S", 0.0)
    for name in ("COADAPT_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    store = Store(tmp_path / "home" / "jobs.sqlite")
    for key in "ab":
        store.submit(SPEC, 1.0, idempotency_key=key)
    store.close()
    return tmp_path / "home"


def submit(home: Path, key: str) -> None:
    store = Store(home / "jobs.sqlite")
    store.submit(SPEC, 1.0, idempotency_key=key)
    store.close()


def test_a_backup_of_a_stopped_store_is_written_and_restored(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy.sqlite"
    assert main.run(["backup", str(copy)]) == Exit.OK
    assert f"{copy}: 2 jobs, " in capsys.readouterr().out
    submit(home, "c")
    assert main.run(["restore", str(copy)]) == Exit.OK
    out = capsys.readouterr().out
    assert f"{home / 'jobs.sqlite'} has the 2 jobs of {copy} now" in out
    (kept,) = home.glob("jobs-before-restore-*.sqlite")
    assert f"the store that was there is {kept}" in out
    assert main.run(["restore", str(copy), "--to", str(tmp_path / "other.sqlite"), "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out) == {
        "store": str(tmp_path / "other.sqlite"),
        "jobs": 2,
        "kept": "",
    }


def test_without_a_file_a_backup_lies_among_those_of_the_service(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["backup", "--json"]) == Exit.OK
    written = json.loads(capsys.readouterr().out)
    assert Path(written["path"]).parent == home / "backups"
    assert (written["jobs"], written["bytes"]) == (2, Path(written["path"]).stat().st_size)


def test_doctor_names_what_is_hurt_and_what_a_backup_would_bring_back(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["doctor"]) == Exit.OK
    assert "nothing is hurt" in capsys.readouterr().out
    assert main.run(["backup", "--json"]) == Exit.OK
    copy = json.loads(capsys.readouterr().out)["path"]
    raw(home / "jobs.sqlite", "update job_details set details='{' where job_id='digits-2'")
    assert main.run(["doctor"]) == Exit.JOB_FAILED
    out = capsys.readouterr().out
    assert "jobs.sqlite: 1 finding\n" in out
    assert "row: digits-2: its record cannot be read" in out
    assert f"`coadapt restore {copy}` would bring back 2 jobs, as of " in out
    assert main.run(["doctor", "--json"]) == Exit.JOB_FAILED
    found = json.loads(capsys.readouterr().out)
    assert [(one["kind"], one["job"]) for one in found["findings"]] == [("row", "digits-2")]
    assert main.run(["doctor", copy]) == Exit.OK


def test_of_a_garbled_store_doctor_says_what_restore_brings_back(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["backup"]) == Exit.OK
    (home / "jobs.sqlite").write_bytes(b"\xa5" * 40_000)
    capsys.readouterr()
    assert main.run(["doctor"]) == Exit.JOB_FAILED
    out = capsys.readouterr().out
    assert "page: file is not a database" in out
    assert "would bring back 2 jobs" in out


def test_a_store_goes_to_an_earlier_version_and_back_each_after_a_backup(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["migrate", "--to", "0001"]) == Exit.OK
    assert f"is of version 0001 now; before it was {opening.VERSION}" in capsys.readouterr().out
    assert main.run(["doctor"]) == Exit.OK
    assert f"it is of version 0001, and this program writes {opening.VERSION}: only" in capsys.readouterr().out
    assert main.run(["migrate", "--to", opening.VERSION]) == Exit.OK
    assert len(list((home / "backups").glob("before-*.sqlite"))) == 2
    assert main.run(["doctor"]) == Exit.OK
    assert main.run(["migrate", "--to", opening.VERSION]) == Exit.OK
    assert "already" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["restore", "missing.sqlite"], "missing.sqlite: there is no such file; give a backup"),
        (["doctor", "missing.sqlite"], "missing.sqlite: there is no store"),
        (["doctor", "postgresql+psycopg://ann@127.0.0.1:1/x"], "127.0.0.1:1/x: the store cannot be read"),
        (["migrate", "--to", "0099"], "--to: 0099 is no version of the store; there are 0001, 0002, 0003"),
        (["backup", "HOME/jobs.sqlite"], "jobs.sqlite: exists already; give another name"),
        (["backup", "HOME/jobs.sqlite/x"], "the backup cannot be written"),
        (["up", "--emulate", "1x t4:1", "--store", "mysql://x/y"], "--store: mysql is no store; give a URL"),
        (["up", "--emulate", "1x t4:1", "--store", "postgresql://a:b@x/y"], "--store: it has a password"),
        (["up", "--emulate", "1x t4:1", "--store", "postgresql://a@x/y?Password=b"], "--store: it has a password"),
    ],
)
def test_bad_input_is_told_in_one_sentence(
    home: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([word.replace("HOME", str(home)) for word in words]) == Exit.USAGE
    err = capsys.readouterr().err
    assert says in err
    assert len(err.splitlines()) == 1


def test_a_held_store_is_neither_replaced_nor_migrated(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["backup", str(home / "copy.sqlite")]) == Exit.OK
    store = Store(home / "jobs.sqlite")
    for words in (["restore", str(home / "copy.sqlite")], ["migrate", "--to", "0001"]):
        assert main.run(words) == Exit.USAGE
        assert "the store is held by process" in capsys.readouterr().err
    store.close()


class Service:
    """A client whose service has a backup of ten bytes, of which it sends four at a time."""

    def __init__(self, content: bytes = b"0123456789") -> None:
        self.content = content

    def backup_part(self, name: str, offset: int) -> bytes:
        return self.content[offset : offset + 4] if name == "asked-1.sqlite" else b""


def test_a_backup_is_fetched_whole_or_not_at_all(tmp_path: Path) -> None:
    found = BackupView(path="/var/lib/backups/asked-1.sqlite", bytes=10, jobs=1)
    file = tmp_path / "copy"
    assert fetched_backup(Service(), found, file) == {**found, "path": str(file)}
    assert (file.read_bytes(), oct(file.stat().st_mode)[-3:]) == (b"0123456789", "600")
    with pytest.raises(StoreError, match="8 of 10 bytes of the backup have arrived"):
        fetched_backup(Service(b"01234567"), found, tmp_path / "other")
    assert not list(tmp_path.glob("other*"))
