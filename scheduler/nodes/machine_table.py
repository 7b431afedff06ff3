"""The table of machines in the job store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.events import EventKind
from ..power.machine import Machine
from ..store.events import Event
from ..store.store import Store


class MachineTable:
    """Machines as power has left them, one row each. Changes are written with their lines in the log."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> Mapping[str, Machine]:
        """Return all machines by name. One whose row cannot be read is left out, and the log tells it."""
        found: dict[str, Machine] = {}
        for name, text in self._store.machine_rows.read().items():
            try:
                found[name] = Machine.from_json(text)
            except (ValueError, KeyError, TypeError) as error:
                why = f"machine {name}: its record cannot be read: {type(error).__name__}: {error}"
                self._store.log(Event(EventKind.ERROR, 0.0, None, {"text": why}))
        return found

    def write(self, machines: Sequence[Machine], gone: Sequence[str], told: Sequence[str], now: float) -> None:
        """Write machines and what is told of them, in one transaction."""
        with self._store.together():
            self._store.machine_rows.write({machine.name: machine.to_json() for machine in machines}, gone)
            self._store.log(*(Event(EventKind.POWER, now, None, {"text": text}) for text in told))
