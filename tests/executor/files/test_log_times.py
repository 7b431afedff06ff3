"""The index of a log says from where on to read for a moment, and stays small."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.executor.files import log_times
from coadapt.executor.files.log_times import EVERY_S, LogTimes, offset_at


def test_nothing_that_was_written_since_a_moment_lies_before_its_offset(tmp_path: Path) -> None:
    index = LogTimes(tmp_path / "a.times")
    written = [(1000.0 + 0.3 * i, 50 * i) for i in range(200)]
    for now, offset in written:
        index.at(offset, now)
    for since_s in (0.0, 1000.0, 1017.4, 1059.9, 2000.0):
        found = offset_at(tmp_path / "a.times", since_s)
        first = min((offset for now, offset in written if now >= since_s), default=written[-1][1])
        assert found is not None
        assert found <= first
        assert first - found <= 50 * (EVERY_S / 0.3 + 2), "and not far before it"


def test_an_index_that_grows_is_thinned_and_stays_true(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_times, "MOST_BYTES", 2000)
    index = LogTimes(tmp_path / "a.times")
    for i in range(2000):
        index.at(10 * i, 1000.0 + i)
    assert (tmp_path / "a.times").stat().st_size <= 2100
    assert offset_at(tmp_path / "a.times", 2990.5) == 19900
    old = offset_at(tmp_path / "a.times", 1500.0)
    assert old is not None
    assert old <= 5000


def test_a_clock_that_was_set_back_makes_no_index_wrong(tmp_path: Path) -> None:
    index = LogTimes(tmp_path / "a.times")
    index.at(0, 5000.0)
    index.at(100, 1400.0)
    index.at(200, 5010.0)
    assert offset_at(tmp_path / "a.times", 5005.0) in (0, 100)


@pytest.mark.parametrize("text", [None, "", "no index\n", "1.0 x\n"])
def test_a_log_without_an_index_is_told(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "a.times").write_text(text)
    assert offset_at(tmp_path / "a.times", 1.0) is None
