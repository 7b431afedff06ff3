"""Each line of an executor that is elsewhere is written once, in order, whoever is killed in between."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from coadapt.core.schemas import ALL
from coadapt.executor.files.job_log import JobLog, Piece
from coadapt.executor.files.received_log import ReceivedLog
from coadapt.scheduler.files.job_logs import page


class Killed(BaseException):
    """The process that writes is killed."""


def batches(draw: random.Random) -> list[list[Piece]]:
    """Return batches of lines of three ranks, cut anywhere."""
    found: list[list[Piece]] = []
    rests = {f"rank-{rank}": "".join(f"{rank} line {line}\n" for line in range(60)) for rank in range(3)}
    while any(rests.values()):
        batch: list[Piece] = []
        for _ in range(draw.randint(1, 6)):
            source = draw.choice(sorted(rests))
            cut = draw.randint(1, 25)
            if rests[source]:
                batch.append((source, rests[source][:cut], f"worker of {source}"))
                rests[source] = rests[source][cut:]
        if batch:
            found.append(batch)
    return found


def expected(of: Sequence[Sequence[Piece]], source: str) -> str:
    return "".join(text for batch in of for name, text, _ in batch if name == source)


@pytest.mark.parametrize("seed", range(5))
def test_no_line_is_lost_or_repeated_where_the_writer_is_killed_in_the_middle_of_a_batch(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    sent = batches(draw)
    log = ReceivedLog(str(tmp_path), "sender")
    usual = JobLog.write
    left = [0]

    def dies(self: JobLog, source: str, text: str, writer: str = "") -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Killed
        usual(self, source, text, writer)

    monkeypatch.setattr(JobLog, "write", dies)
    for number, batch in enumerate(sent, 1):
        left[0] = draw.choice([0, 0, 1, 2, 3])  # 0: not in this batch
        try:
            log.take(number, batch)
        except Killed:
            left[0] = 0
            log = ReceivedLog(str(tmp_path), "sender")
            log.take(number, batch)
        left[0] = 0
        if draw.random() < 0.3:  # its answer was lost
            log.take(number, batch)
        if draw.random() < 0.2:  # it was killed between two batches
            log = ReceivedLog(str(tmp_path), "sender")
            log.take(number, batch)
    for rank in range(3):
        assert (tmp_path / f"rank-{rank}.log").read_text() == expected(sent, f"rank-{rank}")
    together, _ = page(tmp_path, ALL, 0)
    for rank in range(3):
        lines = [line.split("] ")[1] for line in together.splitlines() if line.startswith(f"[rank-{rank}]")]
        assert lines == expected(sent, f"rank-{rank}").splitlines()


def test_another_executor_of_the_job_counts_from_one_again_and_ends_a_line_that_was_left(tmp_path: Path) -> None:
    ReceivedLog(str(tmp_path), "first").take(1, [("rank-0", "half", "a")])
    ReceivedLog(str(tmp_path), "second").take(1, [("rank-0", "whole\n", "b")])
    assert (tmp_path / "rank-0.log").read_text() == "half\nwhole\n"


def test_a_worker_that_is_gone_has_its_line_ended(tmp_path: Path) -> None:
    log = ReceivedLog(str(tmp_path), "sender")
    log.take(1, [("rank-0", "half", "a"), ("", "", "a"), ("rank-0", "next\n", "a")])
    assert (tmp_path / "rank-0.log").read_text() == "half\nnext\n"


def test_a_note_that_cannot_be_read_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "received.json").write_text('{"sender": "sender", "number": ')
    ReceivedLog(str(tmp_path), "sender").take(7, [("rank-0", "line\n", "a")])
    assert (tmp_path / "rank-0.log").read_text() == "line\n"


def test_a_disk_that_cannot_be_written_loses_lines_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    log = ReceivedLog(str(tmp_path / "file"), "sender")
    log.take(1, [("rank-0", "lost\n", "a")])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
