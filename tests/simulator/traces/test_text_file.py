"""Files are read line by line within bounds; what nobody wrote by hand is refused early, with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from coadapt.simulator.traces import text_file
from coadapt.simulator.traces.text_file import open_lines, read_text, rows_left


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_is_read_whatever_its_encoding_and_its_ends_of_lines(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_bytes("a,ü\r\nb,2\n".encode(encoding))
    with open_lines(path) as lines:
        assert [line.rstrip("\r\n") for line in lines] == ["a,ü", "b,2"]
        assert lines.number == 2


def test_a_packed_file_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    assert read_text(path) == "a\nb\n"


@pytest.mark.parametrize(
    ("content", "bound", "error"),
    [
        (b"a\nb\0\n", {}, "line 2 holds zero bytes: it is no text"),
        (b"a\n" + b"x" * 20, {"MOST_LINE": 10}, "line 2 is longer than 10 characters"),
        (b"a\n\n\n\nb\n", {"MOST_BLANK": 3}, "line 4 ends 3 lines without anything"),
        (b"abc\n" * 9, {"MOST_TEXT": 20}, "line 6 is beyond the first 0 MiB of text, the most that is read"),
        (b"\xff\xfe\x00", {}, "cannot be read"),
        (b"\xc3\x28", {}, "cannot be read"),
    ],
)
def test_what_is_no_text_or_too_long_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, bound: dict[str, int], error: str
) -> None:
    for name, most in bound.items():
        monkeypatch.setattr(text_file, name, most)
    path = tmp_path / "trace.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=error) as told:
        read_text(path)
    assert str(told.value).startswith(str(path))


def test_empty_lines_between_others_are_no_reason_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "MOST_BLANK", 3)
    path = tmp_path / "trace.csv"
    path.write_text("a\n\n\nb\n\n\nc\n")
    assert read_text(path) == "a\n\n\nb\n\n\nc\n"


def test_a_missing_or_torn_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file or directory"):
        read_text(tmp_path / "none.csv")
    torn = tmp_path / "torn.csv.gz"
    torn.write_bytes(gzip.compress(b"a\n" * 10_000)[:-20])
    with pytest.raises(ValueError, match="cannot be read"):
        read_text(torn)


def test_a_table_of_too_many_rows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_file, "MOST_ROWS", 3)
    rows_left(Path("t.csv"), 3)
    with pytest.raises(ValueError, match="has more than 3 rows, the most that are read; cut it in parts"):
        rows_left(Path("t.csv"), 4)
