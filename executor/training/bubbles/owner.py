"""The owner of a GPU: it lends its bubbles, and has the GPU to itself whenever it computes."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from .forecast import BubbleLengths
from .gate import Gate

LEAST_S = 0.002  # shorter bubbles are not lent: both processes would only wait for each other
MARGIN_S = 0.0005  # by which a guest has to be done before the bubble is expected to end
LOOK_S = 0.00005  # between looks for a guest that has not left yet
PATIENCE_S = 1.0  # with a guest that does not leave; it is ended then


def nothing() -> None:
    """Wait for nothing: what a CPU computes has ended when the call returns."""


class BubbleOwner:
    """Opens a gate when a bubble begins, and shuts it when the owner computes again.

    Args:
        free_gib: memory of the GPU that the owner leaves; None: not known.
        drain: waits until the GPU has done all that it was given.
    """

    def __init__(self, gate: Gate, free_gib: float | None, drain: Callable[[], None] = nothing) -> None:
        self._gate, self._drain = gate, drain
        self._lengths = BubbleLengths()
        self._at = 0  # of the bubble in its iteration
        self._inside, self._depth = False, 0  # an iteration, and passes within each other
        self._opened_s: float | None = None
        self._lent = False
        self.late_s = 0.0  # waited for guests, in all
        self.lent_s = 0.0  # bubbles that were lent, in all
        gate.own(free_gib)
        self._take()

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Lend what is idle in an iteration. Its bubbles are as long as those of the iterations before."""
        self._at, self._inside = 0, True
        self._gate.longest_s = self._lengths.longest_s
        self._open()
        try:
            yield
        finally:
            self._shut()
            self._inside = False

    @contextmanager
    def computes(self) -> Iterator[None]:
        """Have the GPU alone while the owner computes; a guest ends the layer that it has begun."""
        if not self._depth:
            self._shut()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._inside and not self._depth:
                self._open()

    def _open(self) -> None:
        """Begin a bubble: the GPU has nothing to do."""
        self._drain()
        self._opened_s = time.monotonic()
        expected_s = self._lengths.expected_s(self._at)
        self._lent = expected_s >= LEAST_S and self._gate.guest is not None
        if self._lent:
            self._gate.closes_s = self._opened_s + expected_s - MARGIN_S
            self._gate.release()

    def _shut(self) -> None:
        """End a bubble, if one is open."""
        if self._opened_s is None:
            return
        length_s, self._opened_s = time.monotonic() - self._opened_s, None
        self._lengths.record(self._at, length_s)
        self._at += 1
        if self._lent:
            self._gate.closes_s, self._lent = 0.0, False
            self.lent_s += length_s
            self._take()

    def _take(self) -> None:
        began_s = time.monotonic()
        while not self._gate.take(wait=False):
            if time.monotonic() - began_s > PATIENCE_S:
                self._end_guest()
            time.sleep(LOOK_S)
        self.late_s += time.monotonic() - began_s

    def _end_guest(self) -> None:
        """End a guest that keeps the GPU. The owner comes first, and a guest goes on from what it saved."""
        guest = self._gate.guest
        if guest is None:
            return
        told = f"the guest on {self._gate.name}, process {guest}, kept the GPU for {PATIENCE_S:g} s; it is ended"
        print(f"coadapt: bubbles: {told}", file=sys.stderr, flush=True)
        with suppress(ProcessLookupError):
            os.kill(guest, signal.SIGKILL)
