"""A job's output on its way from its executor to the head, which writes it down.

Lines wait here while the head does not answer, up to a bound. They are sent in order, and each batch until it is
known to be written.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from .files.job_log import Piece

BATCH_CHARACTERS = 1 << 20
MOST_CHARACTERS = 16 << 20  # that wait; beyond it output is left out, and the log says so
ROOM_CHARACTERS = 4 << 20  # beyond it whoever brings output is made to wait a moment
ROOM_S = 2.0
JOINED_CHARACTERS = 16 << 10  # neighbouring parts of one output are joined up to here
EVERY_S = 0.3  # between batches
AGAIN_S = 0.5  # until a batch that was not taken is sent again


class LogLink:
    """Send a job's output from a thread of its own; it writes nothing itself.

    Args:
        send: sends a numbered batch; False: it has to be sent again, with the same number.
    """

    def __init__(self, send: Callable[[int, Sequence[Piece]], bool], most: int = MOST_CHARACTERS) -> None:
        self._send, self._most = send, most
        self._changed = threading.Condition()
        self._waiting: deque[Piece] = deque()
        self._size = 0  # characters that wait or are under way
        self._left_out: dict[str, int] = {}  # characters by source
        self._sending = self._hurry = False
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def write(self, source: str, text: str, writer: str = "") -> None:
        """Add the next part of the output of a worker, `writer`, under the name `source`."""
        if not text:
            return
        with self._changed:
            if self._size + len(text) > self._most:
                self._left_out[source] = self._left_out.get(source, 0) + len(text)
                return
            if left_out := self._left_out.pop(source, 0):
                self._put((source, _left_out(left_out), "coadapt"))
            self._put((source, text, writer))

    def end(self, writer: str) -> None:
        """End the last line of a worker that is gone."""
        with self._changed:
            self._put(("", "", writer))

    def wait_for_room(self) -> None:
        """Wait a moment while much output waits, so that a script prints no faster than is written."""
        with self._changed:
            self._changed.wait_for(lambda: self._size <= ROOM_CHARACTERS, ROOM_S)

    def flush(self, until_s: float) -> bool:
        """Wait until all is written, until a moment of the monotonic clock; return whether it is."""
        with self._changed:
            for source, count in self._left_out.items():
                self._put((source, _left_out(count), "coadapt"))
            self._left_out.clear()
            self._hurry = True
            self._changed.notify_all()
            left_s = until_s - time.monotonic()
            done = self._changed.wait_for(lambda: not (self._sending or self._waiting), left_s)
            self._hurry = False
            return done

    def _put(self, piece: Piece) -> None:
        if self._waiting:
            source, text, writer = self._waiting[-1]
            if piece[1] and text and (source, writer) == (piece[0], piece[2]) and len(text) < JOINED_CHARACTERS:
                self._waiting[-1] = source, text + piece[1], writer
                self._size += len(piece[1])
                return
        self._waiting.append(piece)
        self._size += len(piece[1])
        self._changed.notify_all()

    def _run(self) -> None:
        number = 0
        while True:
            pieces = self._take()
            number += 1
            while not self._send(number, pieces):
                time.sleep(AGAIN_S)  # in a thread of its own
            with self._changed:
                self._size -= sum(len(text) for _, text, _ in pieces)
                self._sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._hurry, EVERY_S)

    def _take(self) -> list[Piece]:
        """Return the next batch, as soon as there is something to send."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting))
            self._sending = True
            pieces = [self._waiting.popleft()]
            size = len(pieces[0][1])
            while self._waiting and size + len(self._waiting[0][1]) <= BATCH_CHARACTERS:
                pieces.append(self._waiting.popleft())
                size += len(pieces[-1][1])
            return pieces


def _left_out(characters: int) -> str:
    return f"coadapt: {characters} characters of output were left out here, as the head did not answer\n"
