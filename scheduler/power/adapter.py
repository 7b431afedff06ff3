"""What powers machines: the operator's commands, Ray's autoscaler, or the processes of emulated nodes."""

from __future__ import annotations

from typing import Protocol

from .machine import Machine


class AdapterError(RuntimeError):
    """Something could not be done to a machine; part of a sentence that says why."""


class Adapter(Protocol):
    """Powers machines off and on. Its calls may take long, and may come twice. Each raises AdapterError."""

    def sleep(self, machine: Machine) -> None:
        """Power a machine off. It may still take a while to go down."""

    def wake(self, machine: Machine) -> None:
        """Power a machine on, so that its node comes back by itself. One that is on stays so."""

    def is_on(self, machine: Machine) -> bool:
        """Return whether a machine is on."""
