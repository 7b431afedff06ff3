"""Ctrl-C waits until compiled code has handed over what it found.

numba makes Python objects of what a kernel returns and does not look whether that went well. A handler that raises
just then, as that of SIGINT does, ends the process with a fault, or loses what the program was about to be told.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import ClassVar

_SIGINT = int(signal.SIGINT)


class InterruptsWait:
    """A context at whose end SIGINT's handler is called, once, where the signal came within.

    Only the main thread calls handlers, so elsewhere nothing is done; nor within another such context, nor where
    Python has no handler for the signal. Entering and leaving take some 10 µs, within another one less than one.
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
