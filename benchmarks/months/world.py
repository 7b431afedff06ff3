"""What both worlds of chaos have in common: jobs behind a proxy that cuts connections, and processes to hurt."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

import psutil
from coadapt.client.client import Client
from coadapt.core.settings import Settings

from .counted_jobs import patiently
from .cutting_proxy import CuttingProxy
from .storage_errors import refuse_writes
from .victims import Victims, sigkill

ERRORS_S = 3.0
ANSWERS = 2  # that are dropped, so that a submit is sent three times
HEAD = "head"
Way = Callable[[], bool]
Processes = Callable[[], Sequence[psutil.Process]]


class World(ABC):
    """A cluster, the jobs that were submitted to it, and ways to hurt it.

    Args:
        mark: a part of the paths of its jobs that no other cluster on the machine has.
    """

    client: Client

    def __init__(self, settings: Settings, mark: str, dice: random.Random) -> None:
        self.settings, self._dice = settings, dice
        self.submitted: list[str] = []
        self._there, self._proxy = Victims(settings.state_dir, mark), CuttingProxy()
        self.up()

    # --- what a world has of its own ------------------------------------------------------------------------

    @abstractmethod
    def up(self) -> None:
        """Start the cluster with its service."""

    @abstractmethod
    def _submit_one(self) -> str:
        """Submit a job, and return its id."""

    @abstractmethod
    def _ways(self) -> Mapping[str, Way]:
        """Return its faults by their kinds. Each returns whether there was something to hurt."""

    def close(self) -> None:
        """End the cluster."""
        self._proxy.close()

    # --- faults ---------------------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of faults that leave the head alive."""
        return tuple(self._ways())

    def apply(self, kind: str) -> bool:
        """Let a fault happen; return whether there was something to hurt."""
        return self._kill_head() if kind == HEAD else self._ways()[kind]()

    def _of(self, *titles: str) -> Way:
        """Return a way to kill one of some actors."""
        return self._killing(lambda: self._there.actors(*titles))

    def _killing(self, processes: Processes) -> Way:
        def way() -> bool:
            found = processes()
            return bool(found) and sigkill(self._dice.choice(found))

        return way

    def _refusing(self, processes: Processes) -> Way:
        """Return a way to have one of some processes write nothing for a while."""

        def way() -> bool:
            found = processes()
            return bool(found) and refuse_writes(self._dice.choice(found), ERRORS_S)

        return way

    def _kill_node(self) -> bool:
        self._there.kill_node(self._dice.choice)
        return True

    def _kill_head(self) -> bool:
        for process in self._there.head():
            sigkill(process)
        self.up()
        return True

    def _cut(self) -> bool:
        """Drop the answers to a submit until it has come through."""
        self._proxy.cut(ANSWERS)
        self._submit()
        return True

    def _submit(self) -> None:
        self.submitted.append(patiently(self._submit_one))
