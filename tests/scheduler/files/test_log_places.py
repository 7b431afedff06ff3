"""Reading begins with the newest lines or with those since a moment, of one rank or all, also in old folders."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from coadapt.core.schemas import ALL, MEASURING
from coadapt.executor.files import job_log, log_times
from coadapt.executor.files.job_log import JobLog
from coadapt.scheduler.files import log_places
from coadapt.scheduler.files.job_logs import LEFT_OUT, page
from coadapt.scheduler.files.log_places import begin

START_S = 1_000_000.0


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = START_S
        monkeypatch.setattr(job_log.time, "time", lambda: self.now)


def read(folder: Path, source: str, tail: int | None = None, since_s: float | None = None) -> list[str]:
    """Return the lines that a reader gets who begins there."""
    offset, left_out = begin(folder, source, tail, since_s)
    text = ""
    while True:
        more, following = page(folder, source, offset)
        if following == offset:
            return text.splitlines()[left_out:]
        text, offset = text + more, following


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str, str]]:
    """Write lines of three ranks for a while, and return (moment, source, line) of each."""
    clock, draw = Clock(monkeypatch), random.Random(3)
    monkeypatch.setattr(log_places, "BLOCK_BYTES", 37)
    log, lines = JobLog(str(tmp_path), segment_bytes=4000), []
    for number in range(900):
        source = f"rank-{draw.choice([0, 0, 0, 1, 1, 2])}" if number > 20 else "profile-t4"
        line = f"line {number} é{'x' * draw.randint(0, 20)}"
        log.write(source, line[:4])
        log.write(source, line[4:] + "\n")
        lines.append((clock.now, source, line))
        clock.now += draw.choice([0.0, 0.1, 0.7, 3.0])
    return lines


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("tail", [0, 1, 2, 17, 300, 10_000])
def test_the_last_lines_are_exactly_those(
    tail: int, indexed: bool, written: list[tuple[float, str, str]], tmp_path: Path
) -> None:
    if not indexed:
        without_index(tmp_path)
    for source in ("rank-0", "rank-1", "rank-2"):
        of_it = [line for _, name, line in written if name == source]
        assert read(tmp_path, source, tail) == (of_it[-tail:] if tail else [])
    together = [f"[{name}] {line}" for _, name, line in written if name.startswith("rank-")]
    assert read(tmp_path, ALL, tail) == (together[-tail:] if tail else [])
    measured = [f"[{name}] {line}" for _, name, line in written if name.startswith("profile-")]
    assert read(tmp_path, MEASURING, tail) == (measured[-tail:] if tail else [])


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("share", [-0.1, 0.0, 0.2, 0.5, 0.99, 1.1])
def test_lines_since_a_moment_are_all_there_and_hardly_any_before(
    share: float, indexed: bool, written: list[tuple[float, str, str]], tmp_path: Path
) -> None:
    if not indexed:
        without_index(tmp_path)
    since_s = START_S + share * (written[-1][0] - START_S)
    together = [f"[{name}] {line}" for at, name, line in written if at >= since_s and name.startswith("rank-")]
    assert read(tmp_path, ALL, since_s=since_s) == together
    for source in ("rank-0", "rank-2"):
        found = read(tmp_path, source, since_s=since_s)
        wanted = [line for at, name, line in written if at >= since_s and name == source]
        at_most = [line for at, name, line in written if at >= since_s - log_times.EVERY_S and name == source]
        assert found[len(found) - len(wanted) :] == wanted
        assert len(wanted) <= len(found) <= len(at_most)


def test_of_a_tail_and_a_moment_the_later_one_counts(
    written: list[tuple[float, str, str]], tmp_path: Path
) -> None:
    since_s = written[-40][0]
    assert len(read(tmp_path, ALL, tail=5, since_s=since_s)) == 5
    assert len(read(tmp_path, ALL, tail=10_000, since_s=since_s)) < 60


def test_a_line_without_an_end_counts_and_nothing_at_all_is_no_error(tmp_path: Path) -> None:
    JobLog(str(tmp_path)).write("rank-0", "a\nb\nc")
    assert read(tmp_path, "rank-0", 2) == ["b", "c"]
    assert read(tmp_path, "rank-99", 2) == []
    assert read(tmp_path / "nowhere", ALL, 2, 5.0) == []


def test_a_tail_that_reaches_beyond_what_was_dropped_says_so(tmp_path: Path) -> None:
    log = JobLog(str(tmp_path), segment_bytes=100)
    for number in range(500):
        log.write("rank-0", f"line {number}\n")
    found = read(tmp_path, "rank-0", 400)
    assert (found[-1], found.count(LEFT_OUT)) == ("line 499", 1)


@pytest.mark.parametrize("source", ["rank-0", ALL])
def test_a_negative_tail_is_refused_in_one_sentence(source: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^tail: -5 is no number of lines; it must be 0 or more$"):
        begin(tmp_path, source, -5)


def without_index(folder: Path) -> None:
    """Leave what an earlier version has written."""
    for path in folder.glob("*.times"):
        path.unlink()
