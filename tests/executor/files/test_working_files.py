"""What a program writes where it runs is found again, as by hand: among its outputs, and where it starts again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from coadapt.executor.files import working_files
from coadapt.executor.files.site import Site
from coadapt.executor.files.workplace import Workplace

from tests.support.packages import fetched

PACKAGE = fetched(train="print(1)", settings="lr = 1")


class Job:
    """A job whose outputs lie at a path, on machines with working folders of their own."""

    def __init__(self, root: Path) -> None:
        self.root, self.said = root, list[str]()
        self.kept = root / "outputs" / "working_dir"

    def start(self, machine: str = "here") -> tuple[Workplace, Path]:
        state = self.root / machine
        state.mkdir(exist_ok=True)
        place = Workplace(
            Site("job", str(state), outputs_url=str(self.root / "outputs")), PACKAGE, self.said.append
        )
        place.put_back()
        return place, Path(place.cwd or "")

    def files(self, folder: Path | None = None) -> dict[str, str]:
        found = folder or self.kept
        return {str(p.relative_to(found)): p.read_text() for p in sorted(found.rglob("*")) if p.is_file()}


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_what_is_new_or_changed_is_kept_and_nothing_of_what_was_submitted(job: Job) -> None:
    place, folder = job.start()
    (folder / "results" / "deep").mkdir(parents=True)
    (folder / "results" / "deep" / "loss.csv").write_text("1,2")
    (folder / "settings.py").write_text("lr = 2")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "train.pyc").write_text("x")
    (folder / "empty").mkdir()
    place.keep()
    assert job.files() == {"results/deep/loss.csv": "1,2", "settings.py": "lr = 2"}
    assert job.said == ["2 files of its working folder are kept among the outputs, in working_dir/"]


def test_a_program_that_writes_nothing_there_is_told_nothing(job: Job) -> None:
    place, _ = job.start()
    place.keep()
    assert not job.kept.exists()
    assert job.said == []


def test_another_machine_has_what_was_kept_and_goes_on_from_it(job: Job) -> None:
    place, folder = job.start()
    (folder / "out").mkdir()
    for step in (1, 2):
        (folder / "out" / f"step-{step}").write_text(str(step))
    place.keep()
    place, folder = job.start("there")
    assert job.files(folder)["out/step-2"] == "2"
    (folder / "out" / "step-1").unlink()  # as by save_total_limit
    (folder / "out" / "step-3").write_text("3")
    place.keep()
    assert job.files() == {"out/step-2": "2", "out/step-3": "3"}


def test_what_is_newer_in_the_folder_stays(job: Job) -> None:
    place, folder = job.start()
    (folder / "state").write_text("kept")
    place.keep()
    (folder / "state").write_text("newer")  # and the worker was killed
    os.utime(folder / "state", (2e9, 2e9))
    place, folder = job.start()
    assert (folder / "state").read_text() == "newer"
    place.keep()
    assert job.files() == {"state": "newer"}


def test_links_stay_links_and_those_that_lead_out_are_named(job: Job, tmp_path: Path) -> None:
    place, folder = job.start()
    (folder / "step-1").write_text("1")
    (folder / "latest").symlink_to("step-1")
    (folder / "data").symlink_to(tmp_path)
    place.keep()
    assert (job.kept / "latest").readlink() == Path("step-1")
    assert job.said[0] == "data left out of the outputs: links that lead out of the folder"
    _, there = job.start("there")
    assert (there / "latest").readlink() == Path("step-1")


def test_what_is_too_much_is_not_kept_and_told(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working_files, "MOST_FILES", 2)
    place, folder = job.start()
    for name in "abcd":
        (folder / name).write_text(name)
    place.keep()
    assert job.files() == {"a": "a", "b": "b"}
    assert job.said[0].startswith("2 files of the working folder are not kept, such as c; at most 10 GiB")
