"""Each job has a folder of its own on a machine, which is whole, found again, and gone when the job has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from coadapt.executor.files import job_folder
from coadapt.executor.files.job_folder import FolderError, JobFolder, profile_key, remove, work_folder

from tests.support.packages import fetched

TRAIN = fetched(train="print(1)", model="LAYERS = 2")


def nothing(offset: int) -> bytes:
    raise AssertionError("the package was asked for again")


def test_a_job_finds_what_it_wrote_beside_its_script_again(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job-1", TRAIN) as first:
        assert (first.path / "model.py").read_text() == "LAYERS = 2"
        (first.path / "best.pt").write_text("0.9")
        with JobFolder(tmp_path, "job-1", nothing) as second:  # another replica on the machine
            assert second.path == first.path
    with JobFolder(tmp_path, "job-1", nothing) as later:
        assert (later.path / "best.pt").read_text() == "0.9"


def test_two_jobs_of_one_package_have_nothing_to_do_with_each_other(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job-1", TRAIN) as one, JobFolder(tmp_path, "job-2", TRAIN) as other:
        (one.path / "best.pt").write_text("0.9")
        assert not (other.path / "best.pt").exists()


def test_a_profile_runs_folder_goes_with_it(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job-1", TRAIN) as job:
        profile = JobFolder(tmp_path, profile_key("job-1", "w-3"), TRAIN)
        (profile.path / "best.pt").write_text("junk")
        profile.remove()
        assert not profile.path.exists()
        assert not (job.path / "best.pt").exists()
        assert remove(tmp_path, "job-1") is False, "it is in use"
        assert job.path.exists()


def test_replicas_that_start_together_unpack_once(tmp_path: Path) -> None:
    asked = []

    def counted(offset: int) -> bytes:
        asked.append(offset)
        return TRAIN(offset)

    folders: list[JobFolder] = []
    threads = [
        threading.Thread(target=lambda: folders.append(JobFolder(tmp_path, "job-1", counted))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(folders) == 6
    assert asked.count(0) == 1
    for folder in folders:
        folder.close()


def test_a_folder_in_use_stays_and_an_unused_one_leaves_nothing(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from coadapt.executor.files.job_folder import JobFolder
folder = JobFolder(Path({str(tmp_path)!r}), "job-1", None)
print("here", flush=True)
input()
"""
    JobFolder(tmp_path, "job-1", TRAIN).close()
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == b"here\n"
        assert remove(tmp_path, "job-1") is False
        user.kill()
    assert remove(tmp_path, "job-1") is True
    assert not list(tmp_path.iterdir())
    assert remove(tmp_path, "job-1") is True, "there was none"


def test_what_a_killed_profile_run_left_goes_with_the_next_start_or_with_the_job(tmp_path: Path) -> None:
    left = [JobFolder(tmp_path, profile_key("job-1", name), TRAIN) for name in ("a", "b")]
    for folder in left:
        folder.close()  # as the kernel does
    JobFolder(tmp_path, "job-1", TRAIN).close()
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["job-1"]
    JobFolder(tmp_path, profile_key("job-1", "c"), TRAIN).close()
    assert remove(tmp_path, "job-1")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_the_script_made_read_only_goes_too(tmp_path: Path) -> None:
    with JobFolder(tmp_path, "job-1", TRAIN) as folder:
        (folder.path / "locked").mkdir()
        (folder.path / "locked" / "f").touch()
        (folder.path / "locked").chmod(0o500)
    assert remove(tmp_path, "job-1")
    assert not list(tmp_path.iterdir())


def test_half_a_folder_is_never_taken_for_a_whole_one(tmp_path: Path) -> None:
    def breaks_off(offset: int) -> bytes:
        if offset:
            raise FolderError("the executor is gone")
        return TRAIN(0)

    with pytest.raises(FolderError, match="executor is gone"):
        JobFolder(tmp_path, "job-1", breaks_off)
    assert not (tmp_path / "job-1").exists()
    with JobFolder(tmp_path, "job-1", TRAIN) as folder:
        assert (folder.path / "train.py").exists()


def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(job_folder, "unpack", full)
    with pytest.raises(FolderError, match=r"job-1 on .* cannot be made: the disk is full$"):
        JobFolder(tmp_path, "job-1", TRAIN)


def test_folders_lie_below_the_state_directory_where_that_is_on_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path / "home"))
    state = tmp_path / "state"
    state.mkdir()
    machine = os.uname().nodename
    assert work_folder(str(state)) == state / "work" / machine
    assert work_folder("/no/such/folder") == tmp_path / "home" / "work" / machine
    (tmp_path / "file").touch()
    monkeypatch.setenv("COADAPT_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    assert work_folder("").parent.parent.parent == tmp_path / "temp"
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(FolderError, match=r"no folder for jobs can be made on .*Not a directory"):
        work_folder("")
