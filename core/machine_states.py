"""What power does to machines: the states that one can be in."""

from __future__ import annotations

from .codes import Code


class MachineState(Code):
    """The state of one machine. Stored and shown as its text, so a text never changes its meaning."""

    ON = "on", "its node is there, and jobs may use it"
    LEAVING = "leaving", "it gets no work any more and is being powered off"
    ASLEEP = "asleep", "it is powered off"
    WAKING = "waking", "it is being powered on, and its node is awaited"
    FAILED = "failed", "it did not come back in time, and nobody counts on it"

    @property
    def is_awaited(self) -> bool:
        """Whether its node is not there and jobs may wait for it."""
        return self in (MachineState.LEAVING, MachineState.ASLEEP, MachineState.WAKING)
