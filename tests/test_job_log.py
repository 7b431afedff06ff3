"""What a job's processes print can be followed per source and together, and never stands in the job's way."""

from pathlib import Path

from coadapt.executor.job_log import JobLog


def test_lines_stand_in_a_file_per_source_and_together_with_their_source(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path / "job"))
    log.write("rank-0", ["a", "b"])
    log.write("rank-1", ["c"])
    log.write("rank-0", ["d"])
    assert (tmp_path / "job/rank-0.log").read_text() == "a\nb\nd\n"
    assert (tmp_path / "job/all.log").read_text() == "[rank-0] a\n[rank-0] b\n[rank-1] c\n[rank-0] d\n"


def test_a_later_executor_of_the_job_adds_to_its_files(tmp_path: Path) -> None:
    JobLog(str(tmp_path)).write("rank-0", ["before"])
    JobLog(str(tmp_path)).write("rank-0", ["after"])
    assert (tmp_path / "rank-0.log").read_text() == "before\nafter\n"


def test_a_folder_that_cannot_be_written_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    JobLog(str(tmp_path / "file")).write("rank-0", ["lost"])
    JobLog("").write("rank-0", ["unwanted"])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
