"""The supervised loop around cycles. It cannot end but by being told: whatever raises is told, and tried again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.events import EventKind
from ...core.wording import in_words
from ..store.events import Event
from ..store.failures import LostStore, StoreError, StoreFailure
from ..store.store import Store
from .clock import Clock
from .degraded import Degraded, StoreWatch
from .patience import Patience

log = logging.getLogger(__name__)

LOOK_S = 5.0  # between two looks at the age of the tick
NOTE_S = 2.0  # longest to wait for the note that this process ends; the disk may be what hangs
PROBE_S = 1.0  # between two tries whether the store writes again
PROBED = "probed_s"  # the fact of the store that is written to try it
TOLD_EVERY_S = 60.0  # at least between two events that tell of a store that did not write


@dataclass(frozen=True)
class Health:
    """How the loop is.

    tick_age_s: since the last tick began.
    degraded: since when and why nothing can be stored; None: all is well.
    trouble: what the last tick raised; "": nothing.
    """

    tick_age_s: float
    degraded: Degraded | None
    trouble: str


class Loop:
    """Runs ticks in a thread until it is stopped.

    Args:
        begin: what is done once before the first tick, one after another.
        tick: one tick; it may raise.
        idle_s: returns seconds until the next tick at the latest.
        woken: an event that begins the next tick early.
        end_process: ends the process where a tick hangs; Ray starts it anew.
        patience: how long a tick may take until then.
    """

    def __init__(
        self,
        store: Store,
        watch: StoreWatch,
        clock: Clock,
        begin: Sequence[Callable[[], None]],
        tick: Callable[[], None],
        idle_s: Callable[[], float],
        woken: threading.Event,
        end_process: Callable[[], None] = lambda: os._exit(1),
        patience: Patience | None = None,
    ) -> None:
        self._store, self._watch, self._clock = store, watch, clock
        self._begin, self._tick, self._idle_s, self._woken = begin, tick, idle_s, woken
        self._end_process, self._patience = end_process, patience or Patience()
        self._stopping = threading.Event()
        self._tick_s: float | None = None  # monotonic; None before the first tick
        self._trouble = ""
        self._told_s: float | None = None  # when it was last told that the store did not write
        self._threads = [
            threading.Thread(target=self._run, name="rounds", daemon=True),
            threading.Thread(target=self._look, name="watchdog", daemon=True),
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin no further tick."""
        self._stopping.set()
        self._woken.set()

    @property
    def stopping(self) -> bool:
        """Whether it was stopped."""
        return self._stopping.is_set()

    def health(self) -> Health:
        """Return how it is."""
        began_s = self._tick_s
        age_s = 0.0 if began_s is None else self._clock.monotonic_s() - began_s
        return Health(age_s, self._watch.degraded, self._trouble)

    def guard(self, work: Callable[[], None]) -> bool:
        """Do some work and tell what it raises. Return whether it raised nothing."""
        try:
            work()
        except LostStore as error:
            log.critical("%s", error)
            self._end_process()
            return False
        except StoreFailure as error:  # the watch has it, and nothing was changed
            log.error("%s", error)
            return False
        except Exception as error:
            log.exception("tick")
            self._tell(error)
            return False
        return True

    def _run(self) -> None:
        for work in self._begin:
            if not self.stopping:
                self.guard(work)
        while not self.stopping:
            self._woken.wait(self._idle_s() if self._watch.degraded is None else PROBE_S)
            self._woken.clear()
            self._tick_s = self._clock.monotonic_s()
            if self.stopping or (self._watch.degraded is not None and not self._heals()):
                continue
            if self.guard(self._tick):
                self._trouble = ""
                self._patience.kept()

    def _heals(self) -> bool:
        """Try whether the store writes again. Return whether it does, and log now and then how long it did not.

        A disk that is nearly full may take small writes and no others, so that this comes again and again.
        """
        if (before := self._watch.degraded) is None:
            return True
        if not self.guard(lambda: self._store.write_fact(PROBED, str(self._clock.steady_s()))):
            return False
        now_s = self._clock.monotonic_s()
        if self._told_s is not None and now_s - self._told_s < TOLD_EVERY_S:
            return True
        self._told_s = now_s
        text = f"nothing could be stored for {now_s - before.began_s:.0f} s: {before.reason}"
        event = Event(EventKind.DEGRADED, self._clock.steady_s(), None, {"text": text})
        return self.guard(lambda: self._store.log(event))

    def _tell(self, error: Exception) -> None:
        """Log an error once, however often it comes again."""
        text = in_words(error)
        if text == self._trouble:
            return
        self._trouble = text
        try:
            self._store.log(Event(EventKind.ERROR, self._clock.steady_s(), None, {"text": text}))
        except StoreError:
            log.exception("the error could not be stored")

    def _look(self) -> None:
        while not self._stopping.wait(LOOK_S):
            if self.health().tick_age_s > (most_s := self._patience.seconds):
                log.critical("a tick has taken more than %.0f s; the process ends, and starts anew", most_s)
                note = threading.Thread(target=self._patience.lost, daemon=True)
                note.start()
                note.join(NOTE_S)
                self._end_process()
                return
