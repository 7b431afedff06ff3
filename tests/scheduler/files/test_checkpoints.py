"""Checkpoints of one job become another job's: whole, once, and those that the user asked for."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

import fsspec
import pytest
from coadapt.core.checkpoint_name import CheckpointName
from coadapt.core.errors import JobStateError
from coadapt.executor.training.state.checkpoint import CheckpointStore
from coadapt.scheduler.files.checkpoints import CheckpointFiles, CheckpointFilesError, chosen


@pytest.fixture(params=["", "memory://"], ids=["a path", "another file system"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"{request.param}{uuid.uuid4().hex}" if request.param else str(tmp_path / "checkpoints")


def saved(url: str, *steps: int) -> CheckpointFiles:
    for number in steps:
        CheckpointStore(url, keep=5).save({"made": number}, number)
    return CheckpointFiles(url)


def test_what_was_saved_is_found_by_progress(root: str) -> None:
    assert CheckpointFiles(f"{root}/a-1").published() == []
    found = saved(f"{root}/a-1", 200, 100).published()
    assert [name.steps for name in found] == [100, 200]
    fsspec.open(f"{root}/a-1/step-3-4.json", "w").open().close()
    assert CheckpointFiles(f"{root}/a-1").published() == found, "another file"


def test_a_copy_is_the_newest_checkpoint_of_its_job_and_outlives_the_first(root: str) -> None:
    source = saved(f"{root}/a-1", 100, 200)
    first = source.published()[0]
    for _ in range(2):  # it may have been interrupted
        source.copy_to(first, CheckpointFiles(f"{root}/b-2"))
    CheckpointStore(f"{root}/a-1", keep=1).save({"made": 300}, 300)
    assert [name.steps for name in source.published()] == [300]
    own = CheckpointStore(f"{root}/b-2")
    assert own.load_newest() == (f"{root}/b-2/{first.stem}.pt", {"made": 100})
    own.save({"made": 101}, 101)
    assert [name.steps for name in CheckpointFiles(f"{root}/b-2").published()] == [100, 101]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_copy_has_the_shards_of_a_sharded_model(root: str, tmp_path: Path, elsewhere: bool) -> None:
    source, store = CheckpointFiles(f"{root}/a-1"), CheckpointStore(f"{root}/a-1")
    name = store.new_name(9)
    shards = {}
    for file in (".metadata", "__0_0.distcp"):
        fs, path = fsspec.core.url_to_fs(f"{root}/a-1/{name.stem}.shards/{file}")
        fs.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
        fs.pipe_file(path, file.encode())
        shards[file] = len(file), hashlib.sha256(file.encode()).hexdigest()
    store.publish(name, {"made": 9}, shards)
    target = str(tmp_path / "b-2") if elsewhere else f"{root}/b-2"
    for _ in range(2):  # it may have been interrupted
        source.copy_to(name, CheckpointFiles(target))
    loaded = CheckpointStore(target).load_newest()
    assert loaded is not None
    assert loaded[1]["made"] == 9


def test_a_copy_between_file_systems_is_whole(tmp_path: Path) -> None:
    url = f"memory://{uuid.uuid4().hex}"
    (name,) = saved(url, 7).published()
    CheckpointFiles(url).copy_to(name, CheckpointFiles(str(tmp_path / "b-2")))
    loaded = CheckpointStore(str(tmp_path / "b-2")).load_newest()
    assert loaded is not None
    assert loaded[1] == {"made": 7}


def test_on_a_disk_without_links_the_bytes_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*paths: object) -> None:
        raise OSError("no links here")

    source = saved(str(tmp_path / "a-1"), 7)
    monkeypatch.setattr(os, "link", refuses)
    source.copy_to(source.published()[0], CheckpointFiles(str(tmp_path / "b-2")))
    loaded = CheckpointStore(str(tmp_path / "b-2")).load_newest()
    assert loaded is not None
    assert loaded[1] == {"made": 7}
    assert sorted(path.suffix for path in (tmp_path / "b-2").iterdir()) == [".json", ".pt"]


def test_a_checkpoint_that_is_gone_is_told_and_leaves_none_behind(root: str) -> None:
    source = saved(f"{root}/a-1", 100)
    gone = CheckpointName(90, 1, "ab")
    with pytest.raises(CheckpointFilesError, match=r"checkpoint step-0+90-0+1-ab of \S+a-1 is gone"):
        source.copy_to(gone, CheckpointFiles(f"{root}/b-2"))
    assert CheckpointFiles(f"{root}/b-2").published() == []


def test_a_url_that_nothing_serves_is_told() -> None:
    with pytest.raises(CheckpointFilesError, match=r"checkpoint.url: 'nowhere://x' cannot be used"):
        CheckpointFiles("nowhere://x")


def test_the_newest_is_chosen_or_that_of_the_step_and_else_the_steps_are_told() -> None:
    names = [CheckpointName(200, 1, "a"), CheckpointName(100, 2, "b"), CheckpointName(100, 3, "c")]
    assert chosen(names, "a-1", None).token == "a"
    assert chosen(names, "a-1", 100).token == "c", "the newest of this step"
    with pytest.raises(JobStateError) as refused:
        chosen(names, "a-1", 150)
    assert str(refused.value) == "a-1 has no checkpoint of step 150; it has those of 100, 200"
    with pytest.raises(JobStateError) as refused:
        chosen([], "a-1", None)
    assert str(refused.value) == "a-1 has no checkpoint yet, so nothing can start from one"
