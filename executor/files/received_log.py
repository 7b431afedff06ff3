"""The log of a job whose executor is elsewhere: batches of lines, each written once, whoever is killed meanwhile.

`received.json` says which batch is being written and how long the output of each source was before. If the batch
comes again, what is there of it is taken back first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

from .job_log import JobLog, Piece

NOTE = "received.json"


class ReceivedLog:
    """Write what one sender sends, in batches that are numbered from 1."""

    def __init__(self, folder: str, sender: str) -> None:
        self.sender = sender
        self.used_s = 0.0  # when it was last written to, on the clock of whoever keeps it
        self._note = Path(folder) / NOTE
        self._lock = threading.Lock()
        begun, self._before = self._read()
        self._written = begun - 1 if begun else 0  # the batch that was begun may not be complete
        self._log = JobLog(folder, goes_on=begun > 0)

    def take(self, number: int, pieces: Sequence[Piece]) -> None:
        """Write a batch; one that is written already changes nothing. A full disk loses lines, never the job."""
        with self._lock:
            if number <= self._written:
                return
            try:
                if self._before is not None:
                    if number == self._written + 1:
                        self._log.rewind(self._before)
                    self._before = None
                self._begin(number, self._log.ends({source for source, text, _ in pieces if text}))
            except OSError:
                self._log.close()
            for source, text, writer in pieces:
                if text:
                    self._log.write(source, text, writer)
                else:
                    self._log.end(writer)
            self._written = number

    def close(self) -> None:
        with self._lock:
            self._log.close()

    def _read(self) -> tuple[int, dict[str, int] | None]:
        """Return the batch of this sender that was begun last, and the ends before it; else 0 and None."""
        try:
            note = json.loads(self._note.read_text())
            if note["sender"] == self.sender:
                return int(note["number"]), {str(source): int(end) for source, end in note["ends"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass
        return 0, None

    def _begin(self, number: int, ends: dict[str, int]) -> None:
        self._note.parent.mkdir(parents=True, exist_ok=True)
        beside = self._note.with_suffix(".part")
        beside.write_text(json.dumps({"sender": self.sender, "number": number, "ends": ends}))
        beside.replace(self._note)
