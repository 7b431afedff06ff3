"""How long a tick may take. A machine may just be slow: after each process that ended itself, twice as long."""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)

FIRST_S = 60.0
MOST_DOUBLINGS = 6  # about an hour


class Patience:
    """Remembers in a small file how many processes in a row have ended in a tick.

    Args:
        path: of the file; None: it is not remembered.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._ended = 0
        if path is not None:
            with suppress(OSError, ValueError):
                self._ended = min(max(int(path.read_text()), 0), MOST_DOUBLINGS)

    @property
    def seconds(self) -> float:
        """Return after how long a tick is given up."""
        return FIRST_S * 2.0**self._ended

    def lost(self) -> None:
        """Take note that this process ends itself, for the next one."""
        if self._path is not None:
            with suppress(OSError):
                self._path.write_text(str(min(self._ended + 1, MOST_DOUBLINGS)))

    def kept(self) -> None:
        """Take note that a tick has ended: the next one may take as long as any."""
        if self._ended and self._path is not None:
            log.info("a tick has ended within %.0f s; the next ones have %.0f s again", self.seconds, FIRST_S)
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
        self._ended = 0
