"""Listens on one node for the notice that its cloud takes it away. A Ray actor of its own, apart from all jobs."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ...core.cloud import Cloud
from ..runtime.clock import SystemClock
from .metadata import MetadataService
from .notices import MetadataError, Notice

FAILS = 3  # in a row, before it is told that nobody answers


@dataclass(frozen=True)
class Heard:
    """What a listener has heard.

    number: counts what is new, from 1.
    notice: what and in how many seconds from now; None: the node stays.
    trouble: why that is not known; "": it is.
    """

    number: int
    notice: tuple[str, float] | None
    trouble: str = ""


class NoticeListener:
    """Asks the metadata service again and again, and tells what is new.

    Args:
        url: of the metadata service; "": where clouds have it.
        every_s: between two looks.
    """

    def __init__(self, cloud: str, url: str, every_s: float) -> None:
        self._clock = SystemClock()
        self._service = MetadataService(Cloud(cloud), self._clock, url)
        self._every_s = every_s
        self._changed = threading.Condition()
        self._number, self._until_s, self._what, self._trouble = 0, 0.0, "", ""
        self._fails = 0
        threading.Thread(target=self._listen, name="notices", daemon=True).start()

    def heard(self, number: int, wait_s: float) -> Heard:
        """Return what is new since `number`; after `wait_s` seconds what is known by then."""
        with self._changed:
            self._changed.wait_for(lambda: self._number != number, wait_s)
            left_s = max(self._until_s - self._clock.monotonic_s(), 0.0)
            return Heard(self._number, (self._what, left_s) if self._what else None, self._trouble)

    def _listen(self) -> None:
        while True:
            try:
                self._take(self._service.ask())
            except (MetadataError, OSError) as error:
                self._take_trouble(error)
            threading.Event().wait(self._every_s)

    def _take(self, found: Notice | None) -> None:
        what = found.what if found is not None else ""
        until_s = self._clock.monotonic_s() + found.left_s if found is not None else 0.0
        with self._changed:
            self._fails = 0
            same = what == self._what and abs(until_s - self._until_s) < 2.0 and not self._trouble
            if not same or not self._number:
                self._what, self._until_s, self._trouble = what, until_s, ""
                self._tell()

    def _take_trouble(self, error: Exception) -> None:
        """Keep the last word of the cloud, and tell that it does not answer now."""
        with self._changed:
            self._fails += 1
            if self._fails == FAILS:
                reason = getattr(error, "reason", None) or error
                self._trouble = str(reason) or type(error).__name__
                self._tell()

    def _tell(self) -> None:
        self._number += 1
        self._changed.notify_all()
