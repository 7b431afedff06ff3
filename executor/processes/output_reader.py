"""Read what a process writes: whole lines at once, and an unfinished one, as a progress bar, after a moment."""

from __future__ import annotations

import codecs
import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import IO

PIECE_BYTES = 16384  # of output, at most; longer lines come in pieces
MOMENT_S = 0.1  # an unfinished line is passed on so long after the script wrote it


def read_output(stream: IO[bytes], pass_on: Callable[[str], None]) -> None:
    """Pass on text until the stream ends."""
    decoder, waiting = codecs.getincrementaldecoder("utf-8")("replace"), ""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    with suppress(OSError, ValueError):
        while True:
            data = None if waiting and not poll.poll(1000 * MOMENT_S) else os.read(stream.fileno(), PIECE_BYTES)
            waiting += decoder.decode(data or b"", final=data == b"")
            whole = max(waiting.rfind("\n"), waiting.rfind("\r")) + 1
            if not data or len(waiting) >= PIECE_BYTES:
                whole = len(waiting)
            if whole:
                pass_on(waiting[:whole])
                waiting = waiting[whole:]
            if data == b"":
                return
