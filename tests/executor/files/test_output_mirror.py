"""Outputs of a job whose checkpoints lie in a store are kept there, and follow the job from machine to machine."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import fsspec
import pytest
from coadapt.core.errors import OutputError
from coadapt.core.output_tree import Kind, entries
from coadapt.executor.files import output_keeper, output_mirror
from coadapt.executor.files.job_folder import work_folder
from coadapt.executor.files.output_keeper import clean
from coadapt.executor.files.output_mirror import Mirror, Place
from coadapt.executor.files.site import Site
from coadapt.executor.files.workplace import Workplace
from coadapt.executor.processes.training_process import Launch
from coadapt.executor.protocol.messages import Join, Joined
from coadapt.executor.worker import Worker
from coadapt.scheduler.files.outputs import Outputs

from tests.executor.files.test_job_folder import TRAIN
from tests.scheduler.files.test_outputs import ODD

COUNT = itertools.count()


@pytest.fixture
def url() -> Iterator[str]:
    """Return the URL of a store in memory."""
    url = f"memory://bucket-{next(COUNT)}/job-1/outputs"
    yield url
    fs = fsspec.filesystem("memory")
    if fs.exists(url.rpartition("/")[0]):
        fs.rm(url.rpartition("/")[0], recursive=True)


@pytest.fixture
def machine(url: str, tmp_path: Path) -> Callable[[str], Mirror]:
    """Return what makes the job's mirror on a machine, as a starting worker does."""
    return lambda name: Mirror(Place(url), tmp_path / name / "outputs", name)


def tree(folder: Path) -> dict[str, object]:
    """Return everything in a folder: contents of files and targets of links."""
    found: dict[str, object] = {}
    for name, entry in entries(folder):
        path = folder.joinpath(*name)
        content = path.read_bytes() if entry.kind is Kind.FILE else entry.target
        found["/".join(name)] = (entry.kind, entry.mode, entry.mtime_ns, content)
    return found


def test_outputs_follow_the_job_to_another_machine_as_they_were(machine) -> None:
    a = machine("a")
    a.pull()
    (a.folder / "deep" / "er").mkdir(parents=True)
    (a.folder / "empty").mkdir()
    (a.folder / "deep" / "er" / "best.pt").write_bytes(os.urandom(5000))
    (a.folder / "run.sh").write_text("#!")
    (a.folder / "run.sh").chmod(0o755)
    (a.folder / "latest").symlink_to("deep/er")
    for name in ODD:
        (a.folder / name).write_text("odd")
    assert a.push() == output_mirror.Pushed(True, [])
    b = machine("b")
    b.pull()
    assert tree(b.folder) == tree(a.folder)


def test_only_what_changed_is_sent_and_what_was_removed_goes(machine, url: str, monkeypatch) -> None:
    a = machine("a")
    a.pull()
    for name in ("kept", "changed", "removed"):
        (a.folder / name).write_text("first")
    a.push()
    (a.folder / "changed").write_text("second time")
    (a.folder / "removed").unlink()
    sent = []
    put = a.place.fs.put_file

    def noted(self: object, here: str, there: str) -> None:
        sent.append(here)
        put(here, there)

    monkeypatch.setattr(type(a.place.fs), "put_file", noted)
    a.push()
    assert [Path(path).name for path in sent] == ["changed"]
    assert [output.path for output in Outputs(url).page()] == ["changed", "kept"]
    assert Outputs(url).part(("changed",), 0) == b"second time"
    assert Outputs(url).part(("removed",), 0) is None
    assert machine("a").push() == output_mirror.Pushed(True, []), "a worker that starts later sends nothing again"
    assert len(sent) == 1


def test_a_job_that_returns_to_a_machine_finds_what_it_wrote_elsewhere(machine) -> None:
    a = machine("a")
    a.pull()
    (a.folder / "log").write_text("a\n")
    (a.folder / "old").write_text("old")
    a.push()
    b = machine("b")
    b.pull()
    (b.folder / "log").write_text("a\nb\n")
    (b.folder / "old").unlink()
    (b.folder / "new").mkdir()
    (b.folder / "new" / "f").write_text("f")
    b.push()
    a = machine("a")
    a.pull()
    assert (a.folder / "log").read_text() == "a\nb\n"
    assert not (a.folder / "old").exists()
    assert (a.folder / "new" / "f").read_text() == "f"


def test_a_folder_may_become_a_file_and_a_file_a_folder(machine) -> None:
    a, b = machine("a"), machine("b")
    a.pull()
    (a.folder / "x").mkdir()
    (a.folder / "x" / "inner").write_text("1")
    (a.folder / "y").write_text("2")
    a.push()
    b.pull()
    (a.folder / "x" / "inner").unlink()
    (a.folder / "x").rmdir()
    (a.folder / "x").write_text("now a file")
    (a.folder / "y").unlink()
    (a.folder / "y").mkdir()
    (a.folder / "y" / "inner").write_text("now a folder")
    assert a.push() == output_mirror.Pushed(True, [])
    b.pull()
    assert tree(b.folder) == tree(a.folder)


def test_what_was_not_sent_yet_is_not_lost_to_what_is_older_elsewhere(machine) -> None:
    a, b = machine("a"), machine("b")
    for mirror in (a, b):
        mirror.pull()
    (b.folder / "log").write_text("older")
    os.utime(b.folder / "log", (time.time() - 100,) * 2)
    b.push()
    (a.folder / "log").write_text("newer, and its machine was lost before it was sent")
    again = machine("a")
    again.pull()
    assert (a.folder / "log").read_text().startswith("newer")
    again.push()
    b.pull()
    assert (b.folder / "log").read_text().startswith("newer")


class Killed(BaseException):
    """What ends a process in the middle of something."""


def killed(*_: object, **__: object) -> None:
    raise Killed


def test_what_a_machine_had_not_sent_does_not_replace_what_was_written_later_elsewhere(machine, url: str) -> None:
    a, b = machine("a"), machine("b")
    a.pull()
    for name in ("log.csv", "removed", "kept"):
        (a.folder / name).write_text("1\n")
    a.push()
    b.pull()
    for name in ("log.csv", "removed", "kept"):
        (a.folder / name).write_text("1\n2, and then the process on a was killed\n")
        os.utime(a.folder / name, (time.time() - 50,) * 2)
    (b.folder / "log.csv").write_text("1\n2\n3\n")
    (b.folder / "removed").unlink()
    b.push()
    pushed = machine("a").push()
    assert pushed.whole
    assert pushed.sentences == [
        "log.csv, removed left out of the outputs: older than what another machine has sent since"
    ]
    assert Outputs(url).part(("log.csv",), 0) == b"1\n2\n3\n"
    assert [output.path for output in Outputs(url).page()] == ["kept", "log.csv"]
    assert Outputs(url).part(("kept",), 0).startswith(b"1\n2"), "nobody else has touched it"


def test_what_was_removed_here_before_it_was_written_elsewhere_stays(machine, url: str) -> None:
    a, b = machine("a"), machine("b")
    a.pull()
    (a.folder / "log").write_text("1")
    a.push()
    b.pull()
    (a.folder / "log").unlink()
    (b.folder / "log").write_text("1, 2")
    b.push()
    assert machine("a").push().whole
    assert Outputs(url).part(("log",), 0) == b"1, 2"


def test_what_a_machine_with_a_slow_clock_sends_counts_too(machine, url: str, monkeypatch) -> None:
    a, b = machine("a"), machine("b")
    a.pull()
    (a.folder / "log").write_text("1")
    a.push()
    b.pull()
    now = time.time() - 3600
    monkeypatch.setattr(output_mirror.time, "time", lambda: now)
    (b.folder / "log").write_text("1, 2")
    os.utime(b.folder / "log", (now, now))
    b.push()
    assert [output.entry.size for output in Outputs(url).page()] == [4]


def test_a_process_killed_while_it_removes_outputs_leaves_what_others_can_start_from(machine, monkeypatch) -> None:
    a = machine("a")
    a.pull()
    (a.folder / "old").write_text("old")
    (a.folder / "kept").write_text("kept")
    a.push()
    (a.folder / "old").unlink()
    (a.folder / "new").write_text("new")
    with monkeypatch.context() as patched:
        patched.setattr(type(a.place.fs), "put_file", killed)
        with pytest.raises(Killed):
            a.push()
    b = machine("b")
    assert b.pull() == []
    assert sorted(tree(b.folder)) == ["kept"]


def test_contents_that_are_missing_in_the_store_are_named_and_the_rest_is_fetched(machine, url: str) -> None:
    a, b = machine("a"), machine("b")
    a.pull()
    for name in ("a", "lost", "z"):
        (a.folder / name).write_text(name)
    a.push()
    fsspec.filesystem("memory").rm_file(f"{url}/lost")
    assert b.pull() == ["lost left out of the outputs: gone since they were listed"]
    assert sorted(tree(b.folder)) == ["a", "z"]


def test_a_folder_that_cannot_be_read_for_a_moment_costs_no_outputs(machine, url: str, monkeypatch) -> None:
    a = machine("a")
    a.pull()
    (a.folder / "sub").mkdir()
    (a.folder / "sub" / "best.pt").write_text("x")
    (a.folder / "log").write_text("x")
    a.push()
    scandir = os.scandir

    def fails(path: str) -> Iterator:
        if path.endswith("sub"):
            raise OSError(5, "Input/output error", path)
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr(os, "scandir", fails)
        with pytest.raises(OutputError, match=r"sub cannot be read \(Input/output error\): make it readable"):
            a.push()
    assert [output.path for output in Outputs(url).page()] == ["log", "sub/best.pt"]


def test_a_folder_that_is_removed_whole_costs_no_outputs(machine, url: str) -> None:
    a = machine("a")
    a.pull()
    (a.folder / "log").write_text("x")
    a.push()
    shutil.rmtree(a.folder)
    with pytest.raises(OutputError, match="is missing; what was sent from it before stays"):
        a.push()
    again = machine("a")
    again.pull()
    assert sorted(tree(a.folder)) == ["log"]
    assert again.push() == output_mirror.Pushed(True, [])
    assert [output.path for output in Outputs(url).page()] == ["log"]


def test_links_out_and_too_many_files_are_told_and_stay(machine, url: str, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(output_mirror, "MAX_ENTRIES", 10)
    a = machine("a")
    a.pull()
    (a.folder / "0-out").symlink_to("/etc/passwd")
    for i in range(12):
        (a.folder / f"f{i:02}").write_text("x")
    pushed = a.push()
    assert not pushed.whole
    assert any("more than 10 outputs" in text and "stay in" in text for text in pushed.sentences)
    assert any("0-out left out of the outputs" in text for text in pushed.sentences)
    assert len(Outputs(url).page()) == 10
    assert len(list(a.folder.iterdir())) == 13


def test_a_store_that_fails_for_a_while_loses_nothing(machine, url: str, monkeypatch) -> None:
    a = machine("a")
    a.pull()
    for name in ("one", "two"):
        (a.folder / name).write_text(name)
    put = a.place.fs.put_file

    def fails_at_two(self: object, here: str, there: str) -> None:
        if there.endswith("two"):
            raise ConnectionError("the store is away\nand more")
        put(here, there)

    with monkeypatch.context() as patched:
        patched.setattr(type(a.place.fs), "put_file", fails_at_two)
        pushed = a.push()
    assert not pushed.whole
    assert pushed.sentences == [f"outputs could not be sent to {url}: ConnectionError: the store is away"]
    assert [output.path for output in Outputs(url).page()] == ["one"]
    assert a.push().whole
    assert [output.path for output in Outputs(url).page()] == ["one", "two"]


def test_a_look_that_is_called_off_goes_on_the_next_time(machine, url: str) -> None:
    a = machine("a")
    a.pull()
    for i in range(5):
        (a.folder / f"{i}").write_text("x")
    answers = iter([True, True, False])
    assert not a.push(lambda: next(answers)).whole
    assert len(Outputs(url).page()) == 2
    assert a.push().whole
    assert len(Outputs(url).page()) == 5


@pytest.mark.parametrize("name", [["..", "x"], ["a", "..", "x"], ["/etc"], [], [""]])
def test_a_manifest_that_names_what_lies_elsewhere_is_refused(machine, url: str, name: list[str]) -> None:
    import json

    row = [name, 1.0, {"kind": "file", "size": 1, "mtime_ns": 0, "mode": 420, "target": ""}]
    fsspec.filesystem("memory").pipe_file(f"{url}.evil.json", json.dumps([row]).encode())
    with pytest.raises(OutputError, match="cannot be read"):
        machine("a").pull()


def test_a_link_in_a_manifest_does_not_lead_files_out_of_the_folder(machine, url: str, tmp_path: Path) -> None:
    import json

    entry = {"size": 0, "mtime_ns": 0, "mode": 420, "target": ""}
    rows = [[["a"], 1.0, {**entry, "kind": "link", "target": str(tmp_path)}]]
    rows += [[["a", "x"], 1.0, {**entry, "kind": "file"}]]
    fs = fsspec.filesystem("memory")
    fs.pipe_file(f"{url}.evil.json", json.dumps(rows).encode())
    fs.pipe_file(f"{url}/a/x", b"")
    with pytest.raises(OutputError, match="leads out of the outputs"):
        machine("a").pull()
    assert not (tmp_path / "x").exists()


# --- where a worker's process works -----------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


def told(site: Site) -> tuple[Workplace, list[str]]:
    sentences: list[str] = []
    return Workplace(site, TRAIN, sentences.append), sentences


def test_outputs_at_a_path_are_written_there_directly(state: Path, tmp_path: Path) -> None:
    for url in (str(tmp_path / "kept" / "outputs"), f"file://{tmp_path}/kept/outputs"):
        place, _ = told(Site("job-1", str(state), outputs_url=url))
        assert place.outputs == tmp_path / "kept" / "outputs"
        assert place.outputs.is_dir()
        assert place.cwd is not None
        assert Path(place.cwd, "train.py").exists()
        place.close()


def test_outputs_are_sent_at_checkpoints_and_before_the_end_is_told(state: Path, url: str, monkeypatch) -> None:
    monkeypatch.setattr(output_keeper, "EVERY_S", 3600.0)
    place, sentences = told(Site("job-1", str(state), outputs_url=url))
    assert place.outputs is not None
    (place.outputs / "log").write_text("one")
    place.saved()
    deadline = time.monotonic() + 30
    while not Outputs(url).page() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert Outputs(url).part(("log",), 0) == b"one"
    (place.outputs / "log").write_text("the end")
    (place.outputs / "out").symlink_to("/etc")
    place.ended()
    assert Outputs(url).part(("log",), 0) == b"the end"
    place.ended()
    assert sentences == ["coadapt: out left out of the outputs: links that lead out of the folder"]
    place.close()


def test_a_newcomer_gets_what_was_written_since_it_started(state: Path, url: str, machine) -> None:
    place, _ = told(Site("job-1", str(state), outputs_url=url))
    other = machine("other")
    other.pull()
    (other.folder / "late").write_text("x")
    other.push()
    place.joins()
    assert place.outputs is not None
    assert (place.outputs / "late").read_text() == "x"
    place.ended()
    place.close()


class Appending:
    """A training process that writes a line once it is rank 0."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def send(self, command: Join) -> None:
        if command.rank == 0:
            with self._log.open("a") as file:
                file.write(f"{command.generation}\n")


def test_a_process_that_becomes_rank_0_goes_on_from_what_the_last_one_wrote(
    state: Path, url: str, machine
) -> None:
    site = Site("job-1", str(state), outputs_url=url)
    place, _ = told(site)
    assert place.outputs is not None
    worker = Worker("w-1", Launch("train.py", (), {}), site, None)
    worker._place, worker._process = place, Appending(place.outputs / "log.csv")
    join = Join(1, rank=1, world_size=2, nodes=2, local_rank=0, local_world_size=1, store_host="", store_port=0)
    worker.send(0, join)
    worker._emit(Joined(1, 0, "fresh"))
    other = machine("other")
    other.pull()
    (other.folder / "log.csv").write_text("1\n")
    other.push()
    worker.send(1, replace(join, generation=2, rank=0))
    worker._emit(Joined(2, 10, "peer"))
    worker.send(2, replace(join, generation=3, rank=0))
    place.ended()
    assert Outputs(url).part(("log.csv",), 0) == b"1\n2\n3\n"
    place.close()


def test_a_profile_run_leaves_nothing(state: Path, url: str) -> None:
    place, _ = told(Site("job-1", str(state), outputs_url=url, profile="w-1"))
    assert place.outputs is not None
    (place.outputs / "log").write_text("x")
    place.saved()
    place.ended()
    place.close()
    assert not place.outputs.exists()
    assert Outputs(url).page() == []


def test_an_ended_jobs_folders_go_and_what_was_not_sent_is_sent_first(state: Path, url: str) -> None:
    site = Site("job-1", str(state), outputs_url=url)
    place, _ = told(site)
    assert place.outputs is not None
    (place.outputs / "late").write_text("written just before its worker was killed")
    place.close()
    assert clean(site) == ""
    assert [output.path for output in Outputs(url).page()] == ["late"]
    assert place.cwd is None
    work = work_folder(str(state))
    assert [path.name for path in work.iterdir()] == [".lock"]
    assert clean(site) == "", "there is nothing left to do"


def test_outputs_that_cannot_be_sent_stay_when_the_job_has_ended(state: Path, url: str, monkeypatch) -> None:
    site = Site("job-1", str(state), outputs_url=url)
    place, _ = told(site)
    assert place.outputs is not None
    (place.outputs / "late").write_text("x")
    place.close()

    def fails(*_: object) -> None:
        raise ConnectionError("away")

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.put_file", fails)
    sentence = clean(site)
    assert "outputs could not be sent" in sentence
    assert f"stay in {place.outputs}" in sentence
    assert (place.outputs / "late").exists()


def test_outputs_that_cannot_be_read_stay_when_the_job_has_ended(state: Path, url: str, monkeypatch) -> None:
    site = Site("job-1", str(state), outputs_url=url)
    place, _ = told(site)
    assert place.outputs is not None
    (place.outputs / "late").write_text("x")
    place.close()

    scandir = os.scandir

    def fails(path: str | int) -> Iterator:
        if path == str(place.outputs):
            raise OSError(5, "Input/output error", path)
        return scandir(path)

    with monkeypatch.context() as patched:
        patched.setattr("coadapt.core.output_tree.os.scandir", fails)
        sentence = clean(site)
    assert "cannot be read (Input/output error)" in sentence
    assert f"stay in {place.outputs}" in sentence
    assert (place.outputs / "late").exists()


def test_a_machine_that_fails_while_it_removes_a_folder_does_not_remove_what_was_sent(
    state: Path, url: str, monkeypatch
) -> None:
    site = Site("job-1", str(state), outputs_url=url)
    place, _ = told(site)
    assert place.outputs is not None
    (place.outputs / "best.pt").write_text("x")
    place.close()
    remove_tree = shutil.rmtree

    def fails_after(*args: object, **how: object) -> None:
        remove_tree(*args, **how)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(output_keeper.shutil, "rmtree", fails_after)
        with pytest.raises(Killed):
            clean(site)
    place.outputs.mkdir(exist_ok=True)
    assert clean(site) == ""
    assert [output.path for output in Outputs(url).page()] == ["best.pt"]
