"""A worker that runs as root reaches, for a job, only what the job itself reaches."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from coadapt.core.isolation import FIRST_UID, uid_of
from coadapt.executor.sandbox.ownership import acting_as, closed_to, give, let_pass, make_private

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root acts for others")
UID = uid_of("j-7")


def test_each_job_has_a_user_of_its_own() -> None:
    assert UID == FIRST_UID + 7
    assert len({uid_of(f"j-{number}") for number in range(1000)}) == 1000
    assert uid_of("train") == uid_of("train")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return a folder that every user reaches."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and len(folder.parts) > 2:
            let_pass(folder)
    return tmp_path


@needs_root
def test_a_link_that_a_job_made_leads_its_worker_nowhere(shared: Path) -> None:
    secret, own = shared / "secret", shared / "own"
    secret.write_text("0123")
    secret.chmod(0o600)
    make_private(own, UID)
    with acting_as(UID):
        (own / "result").write_text("x")
        (own / "link").symlink_to(secret)
        with pytest.raises(PermissionError):
            (own / "link").read_text()
        with pytest.raises(PermissionError):
            (own / "link").write_text("overwritten")
    assert (own / "result").stat().st_uid == UID
    assert (own / "link").read_text() == "0123", "afterwards it reads as before"


@needs_root
def test_only_the_thread_that_acts_for_a_job_does(shared: Path) -> None:
    secret = shared / "secret"
    secret.write_text("0123")
    secret.chmod(0o600)
    read: list[str] = []
    begun = threading.Event()

    def other() -> None:
        begun.wait()
        read.append(secret.read_text())

    thread = threading.Thread(target=other)
    thread.start()
    with acting_as(UID):
        begun.set()
        thread.join()
    assert read == ["0123"]


@needs_root
def test_rights_are_back_after_an_error(shared: Path) -> None:
    with pytest.raises(KeyError), acting_as(UID):
        raise KeyError
    (shared / "mine").write_text("x")
    assert (shared / "mine").stat().st_uid == 0


def test_without_another_user_nothing_changes(tmp_path: Path) -> None:
    with acting_as(None), acting_as(os.geteuid()):
        (tmp_path / "x").write_text("x")
    give(tmp_path, None)
    assert tmp_path.stat().st_uid == os.geteuid()


def test_a_folder_that_is_made_is_closed_to_others(tmp_path: Path) -> None:
    make_private(tmp_path / "a" / "b")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_the_folder_that_others_cannot_pass_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "inside").mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and len(folder.parts) > 2:
            let_pass(folder)
    closed.chmod(0o700)
    assert closed_to(closed / "inside") == closed
    let_pass(closed)
    assert closed_to(closed / "inside" / "later") is None or not (closed / "inside").stat().st_mode & 0o001
