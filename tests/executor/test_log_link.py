"""Lines on their way to the head come in order and complete, also where the head is away for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from coadapt.executor.files.job_log import Piece
from coadapt.executor.log_link import LogLink

WAIT_S = 20.0


class Head:
    """Takes batches as `HeadDisk.write` does; it answers no more than `away` times."""

    def __init__(self, away: int = 0) -> None:
        self.away = away
        self.batches: list[tuple[int, list[Piece]]] = []
        self.open = threading.Event()
        self.open.set()

    def take(self, number: int, pieces: Sequence[Piece]) -> bool:
        self.open.wait(WAIT_S)
        if self.away:
            self.away -= 1
            return False
        self.batches.append((number, list(pieces)))
        return True

    def text(self, source: str) -> str:
        return "".join(text for _, batch in self.batches for name, text, _ in batch if name == source)


def test_lines_come_in_order_for_each_source_and_neighbours_are_joined() -> None:
    head = Head()
    link = LogLink(head.take)
    head.open.clear()
    for line in range(1000):
        link.write(f"rank-{line % 2}", f"{line}\n", f"w{line % 2}")
        link.write(f"rank-{line % 2}", ".", f"w{line % 2}")
    link.end("w0")
    head.open.set()
    assert link.flush(time.monotonic() + WAIT_S)
    for rank in range(2):
        assert head.text(f"rank-{rank}") == "".join(f"{line}\n." for line in range(rank, 1000, 2))
    assert [number for number, _ in head.batches] == list(range(1, len(head.batches) + 1))
    assert sum(len(batch) for _, batch in head.batches) <= 1001
    assert head.batches[-1][1][-1] == ("", "", "w0")


def test_what_the_head_did_not_take_is_sent_again_with_the_same_number() -> None:
    head = Head(away=2)
    link = LogLink(head.take)
    link.write("rank-0", "line\n", "w")
    assert link.flush(time.monotonic() + WAIT_S)
    assert head.batches == [(1, [("rank-0", "line\n", "w")])]


def test_beyond_the_bound_output_is_left_out_and_the_log_says_how_much() -> None:
    head = Head()
    link = LogLink(head.take, most=100)
    head.open.clear()
    link.write("rank-0", "x" * 90 + "\n", "w")
    link.write("rank-0", "y" * 49 + "\n", "w")
    link.write("rank-1", "z\n", "v")
    head.open.set()
    assert link.flush(time.monotonic() + WAIT_S)
    assert "50 characters of output were left out here" in head.text("rank-0")
    assert head.text("rank-1") == "z\n", "a source that fits is complete"
    link.write("rank-0", "after\n", "w")
    assert link.flush(time.monotonic() + WAIT_S)
    assert head.text("rank-0").endswith("after\n")


def test_flushing_tells_where_the_head_stays_away() -> None:
    head = Head(away=10**9)
    link = LogLink(head.take)
    link.write("rank-0", "line\n")
    assert not link.flush(time.monotonic() + 0.05)
    head.away = 0
    assert link.flush(time.monotonic() + WAIT_S)
