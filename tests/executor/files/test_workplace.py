"""Where a script runs and where its outputs go, on the machine of its worker."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.executor.files.job_folder import FolderError
from coadapt.executor.files.site import Site
from coadapt.executor.files.workplace import Workplace, local_path

from tests.support.packages import fetched

TRAIN = fetched(train="print(1)")


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/data/out", "/data/out"),
        ("file:///data/out", "/data/out"),
        ("s3://bucket/out", None),
        ("memory://a", None),
    ],
)
def test_only_urls_of_this_machines_files_are_paths(url: str, path: str | None) -> None:
    assert local_path(url) == (None if path is None else Path(path))


def test_a_script_runs_in_a_copy_of_what_was_submitted_and_writes_to_its_output_folder(tmp_path: Path) -> None:
    outputs = tmp_path / "results" / "job-1"
    place = Workplace(Site("job-1", str(tmp_path), outputs_url=f"file://{outputs}"), TRAIN, print)
    assert place.cwd is not None
    assert (Path(place.cwd) / "train.py").read_text() == "print(1)"
    assert place.outputs == outputs
    assert outputs.is_dir()
    place.close()


def test_a_folder_stays_for_the_next_worker_of_the_job(tmp_path: Path) -> None:
    place = Workplace(Site("job-1", str(tmp_path)), TRAIN, print)
    folder = Path(place.cwd or "")
    (folder / "cache.bin").write_text("x")
    place.close()
    again = Workplace(Site("job-1", str(tmp_path)), TRAIN, print)
    assert again.cwd == str(folder)
    assert (folder / "cache.bin").exists()
    again.close()


def test_a_profile_run_leaves_nothing_and_writes_to_no_outputs_of_its_job(tmp_path: Path) -> None:
    outputs = tmp_path / "results"
    site = Site("job-1", str(tmp_path), outputs_url=str(outputs), profile="w-1")
    place = Workplace(site, TRAIN, print)
    folder = Path(place.cwd or "")
    assert place.outputs is not None
    assert place.outputs.is_relative_to(folder)
    place.close()
    assert not folder.exists()
    assert not outputs.exists()


def test_a_job_without_a_package_runs_where_its_script_is(tmp_path: Path) -> None:
    place = Workplace(Site("job-1", str(tmp_path), package=False), TRAIN, print)
    assert (place.cwd, place.outputs) == (None, None)


def test_outputs_that_no_file_system_serves_end_the_worker_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="the output folder cannot be made: outputs at nowhere://x"):
        Workplace(Site("job-1", str(tmp_path), outputs_url="nowhere://x"), TRAIN, print)
