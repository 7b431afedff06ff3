"""What a job's processes print is kept as written, can be followed by rank or together, and is bounded."""

import random
from pathlib import Path

import pytest
from coadapt.core.schemas import ALL, MEASURING
from coadapt.executor.files.job_log import NEWEST_SEGMENTS, JobLog, segments, sources
from coadapt.scheduler.files.job_logs import LEFT_OUT, page


def whole(folder: Path, source: str, most: int = 1 << 18) -> str:
    """Return all that a follower reads, page after page."""
    text, offset = "", 0
    while True:
        more, following = page(folder, source, offset, most)
        if following == offset:
            assert more == ""
            return text
        text, offset = text + more, following


def test_each_source_is_kept_as_it_was_written_and_together_whole_lines_keep_their_order(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path / "job"))
    log.write("rank-0", "a\nb")
    log.write("rank-1", "c\n")
    log.write("profile-t4", "measured\n")
    log.write("rank-0", "b\n\nd\n")
    assert (tmp_path / "job/rank-0.log").read_text() == whole(tmp_path / "job", "rank-0") == "a\nbb\n\nd\n"
    assert whole(tmp_path / "job", ALL) == "[rank-0] a\n[rank-1] c\n[rank-0] bb\n[rank-0] d\n"
    assert whole(tmp_path / "job", MEASURING) == "[profile-t4] measured\n"
    assert sources(tmp_path / "job") == ["profile-t4", "rank-0", "rank-1"]


def test_a_progress_bar_is_read_as_it_is_drawn_and_in_company_once_a_line(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path))
    offset = 0
    for drawn in ("\r 10%", "\r 20%", "\r100%\n"):
        log.write("rank-0", drawn)
        text, offset = page(tmp_path, "rank-0", offset)
        assert text == drawn
    assert whole(tmp_path, ALL) == "[rank-0]  10%\n[rank-0] 100%\n"
    log.write("rank-0", "\r 1\r 2\r 3\n")
    assert whole(tmp_path, ALL).endswith("100%\n[rank-0]  3\n")


def test_lines_of_two_sources_never_run_into_each_other(tmp_path: Path) -> None:
    draw, log = random.Random(1), JobLog(str(tmp_path))
    written = {f"rank-{rank}": "".join(f"{rank} {i} é\n" for i in range(300)) for rank in range(3)}
    left = dict(written)
    while any(left.values()):
        source = draw.choice([name for name, text in left.items() if text])
        cut = draw.randint(1, 9)
        log.write(source, left[source][:cut])
        left[source] = left[source][cut:]
    lines = whole(tmp_path, ALL, most=100).splitlines()
    for source, text in written.items():
        assert [line.removeprefix(f"[{source}] ") for line in lines if f"[{source}] " in line] == text.splitlines()
        assert whole(tmp_path, source, most=7) == text, "no character is cut in two"
    assert len(lines) == 900


def test_a_worker_that_leaves_in_the_middle_of_a_line_ends_it(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path))
    log.write("rank-0", "half", "first")
    log.write("rank-0", "whole\n", "second")
    log.write("rank-0", "last words", "second")
    log.end("second")
    log.end("second")
    assert whole(tmp_path, "rank-0") == "half\nwhole\nlast words\n"
    assert whole(tmp_path, ALL) == "[rank-0] half\n[rank-0] whole\n[rank-0] last words\n"


def test_a_later_executor_of_the_job_adds_to_its_files(tmp_path: Path) -> None:
    JobLog(str(tmp_path)).write("rank-0", "before", "a")
    JobLog(str(tmp_path)).write("rank-0", "after\n", "b")
    assert (tmp_path / "rank-0.log").read_text() == "before\nafter\n"
    assert whole(tmp_path, ALL).endswith("[rank-0] after\n")


def test_a_log_is_bounded_keeps_its_first_and_its_newest_part_and_says_what_is_missing(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path), segment_bytes=1000)
    for i in range(5000):
        log.write("rank-0", f"line {i}\n")
    files = segments(tmp_path, "rank-0")
    assert len(files) == 1 + NEWEST_SEGMENTS
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2 * (2 + NEWEST_SEGMENTS) * 1100
    lines = whole(tmp_path, "rank-0").splitlines()
    assert (lines[0], lines[-1], lines.count(LEFT_OUT)) == ("line 0", "line 4999", 1)
    together = whole(tmp_path, ALL).splitlines()
    assert (together[0], together[-1]) == ("[rank-0] line 0", "[rank-0] line 4999")
    assert LEFT_OUT in together


def test_a_follower_whose_place_was_dropped_goes_on_with_the_next_line_that_is_left(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path), segment_bytes=1000)
    log.write("rank-0", "x" * 1001 + "\n")
    text, offset = page(tmp_path, "rank-0", 0)
    assert len(text) == 1002
    for i in range(2000):
        log.write("rank-0", f"line {i}\n")
    text, offset = page(tmp_path, "rank-0", offset)
    assert text.startswith(f"{LEFT_OUT}\nline ")


def test_a_line_without_an_end_is_shown_in_pieces_together_too(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path))
    for _ in range(10):
        log.write("rank-0", "x" * 16384)
    assert whole(tmp_path, ALL).startswith("[rank-0] xxx")


@pytest.mark.parametrize("source", ["profile-a100/../../x", "profile-a@3"])
def test_a_name_of_a_source_never_leaves_the_folder(tmp_path: Path, source: str) -> None:
    folder = tmp_path / "in" / "job"
    JobLog(str(folder)).write(source, "a\n")
    assert {path.parent for path in tmp_path.rglob("*.log")} == {folder}
    assert len(whole(folder, MEASURING).splitlines()) == 1


def test_a_folder_that_cannot_be_written_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    JobLog(str(tmp_path / "file")).write("rank-0", "lost\n")
    JobLog("").write("rank-0", "unwanted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_each_line_is_on_the_disk_once(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path))
    for line in range(100):
        log.write(f"rank-{line % 3}", f"line {line:03}\n")
    everything = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [everything.count(f"line {line:03}".encode()) for line in range(100)] == [1] * 100


def test_a_torn_entry_of_the_order_is_passed_over(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path))
    log.write("rank-0", "one\n")
    with (tmp_path / "order.log").open("ab") as order:  # a disk that was full takes a part of a line
        order.write(b"12.5 rank-0 4")
        order.write(b"13.5 rank-0 4 \xff\n\0\0\0\n")
    log.write("rank-0", "two\n")
    assert whole(tmp_path, "all") == "[rank-0] one\n[rank-0] two\n"
