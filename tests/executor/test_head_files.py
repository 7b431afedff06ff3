"""The actor on the head writes logs and hands packages out, below the service's folder and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.executor import head_files
from coadapt.executor.head_files import HeadFiles


def test_logs_of_several_jobs_are_written_and_a_package_is_given_in_parts(tmp_path: Path) -> None:
    files = HeadFiles(str(tmp_path))
    for name in ("j-1", "j-2"):
        files.write(str(tmp_path / "logs" / name), "s", 1, [("rank-0", f"of {name}\n", "w")])
        assert (tmp_path / "logs" / name / "rank-0.log").read_text() == f"of {name}\n"
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "p.tar.gz").write_bytes(b"abc")
    assert files.package_part(str(tmp_path / "packages" / "p.tar.gz"), 1) == b"bc"
    assert files.package_part(str(tmp_path / "packages" / "p.tar.gz"), 3) == b""


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "logs/../../outside"])
def test_nothing_outside_of_the_folder_is_read_or_written(path: str, tmp_path: Path) -> None:
    files = HeadFiles(str(tmp_path / "state"))
    with pytest.raises(ValueError, match="is not below"):
        files.write(str(tmp_path / "state" / path), "s", 1, [("rank-0", "x\n", "w")])
    with pytest.raises(ValueError, match="is not below"):
        files.package_part(str(tmp_path / "state" / path), 0)
    assert not (tmp_path / "outside").exists()


def test_a_log_that_was_closed_as_nobody_wrote_goes_on_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head_files, "UNUSED_S", -1.0)
    files = HeadFiles(str(tmp_path))
    files.write(str(tmp_path / "a"), "s", 1, [("rank-0", "half", "w")])
    files.write(str(tmp_path / "b"), "s", 1, [("rank-0", "x\n", "w")])
    files.write(str(tmp_path / "a"), "s", 2, [("rank-0", " and whole\n", "w")])
    assert (tmp_path / "a" / "rank-0.log").read_text() == "half and whole\n"
    files.close(str(tmp_path / "a"), "s")
