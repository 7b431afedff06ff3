"""Lets Ctrl-C wait until compiled code has returned its result.

numba makes Python objects of what a kernel returns, and does not check whether that went well. The handler of
SIGINT raises. If it does so just then, the process ends with a fault or the result is lost.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import ClassVar

_SIGINT = int(signal.SIGINT)


class InterruptsWait:
    """A context that calls SIGINT's handler at its end, once, if the signal came within.

    Only the main thread calls handlers, so the context does nothing in other threads. It also does nothing within
    another such context, or if Python has no handler for the signal. It takes some 10 µs, and less than 1 µs
    within another one.
    """

    _is_entered: ClassVar[bool] = False  # by the main thread

    def __enter__(self) -> None:
        self._came: list[FrameType | None] = []
        self._handler = None
        if not InterruptsWait._is_entered and threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(_SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(_SIGINT, self._note)
                InterruptsWait._is_entered = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._came.append(frame)

    def __exit__(self, *raised: object) -> None:
        if self._handler is not None:
            InterruptsWait._is_entered = False
            signal.signal(_SIGINT, self._handler)
            if self._came:
                self._handler(_SIGINT, self._came[0])
