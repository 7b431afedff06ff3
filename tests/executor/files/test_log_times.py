"""The index of a log says from where on to read for a moment, and stays small."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.executor.files import log_times
from coadapt.executor.files.log_times import AT_END, EVERY_S, LogTimes, offset_at


def test_all_that_was_written_since_a_moment_is_found_and_little_before(tmp_path: Path) -> None:
    index = LogTimes(tmp_path / "a.times")
    written = [(1000.0 + 0.3 * i + (500.0 if i > 100 else 0.0), 50 * i) for i in range(200)]
    for now, offset in written:
        index.at(offset, now)
    for since_s in (0.0, 1000.0, 1017.4, 1031.5, 1200.0, 1530.2, 1559.69):
        found = offset_at(tmp_path / "a.times", since_s)
        assert found is not None
        assert found <= min(offset for now, offset in written if now >= since_s)
        assert all(now >= since_s - EVERY_S for now, offset in written if offset >= found)
    assert offset_at(tmp_path / "a.times", 2000.0) == AT_END


def test_an_index_that_grows_loses_its_older_half_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_times, "MOST_BYTES", 2000)
    index = LogTimes(tmp_path / "a.times")
    for i in range(2000):
        index.at(10 * i, 1000.0 + 2 * i)
    assert (tmp_path / "a.times").stat().st_size <= 2100
    assert offset_at(tmp_path / "a.times", 4990.0) == 19950
    assert offset_at(tmp_path / "a.times", 1500.0) is None


def test_a_clock_that_was_set_back_hides_no_line(tmp_path: Path) -> None:
    index = LogTimes(tmp_path / "a.times")
    index.at(0, 5000.0)
    index.at(100, 1400.0)  # an hour earlier by the clock
    index.at(200, 5010.0)
    assert offset_at(tmp_path / "a.times", 1300.0) == 0
    assert offset_at(tmp_path / "a.times", 5005.0) == 200


@pytest.mark.parametrize("text", [None, "", "no index\n", "1.0 x\n"])
def test_a_log_without_an_index_is_told(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "a.times").write_text(text)
    assert offset_at(tmp_path / "a.times", 1.0) is None
