"""Does things to machines in threads of its own, so that no round waits for a command."""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from ...core.cluster import Node
from . import closing
from .adapter import Adapter, AdapterError
from .machine import Machine
from .reactions import Answer, Do

log = logging.getLogger(__name__)

THREADS = 32  # machines that are powered at once


class PowerHands:
    """Has an adapter power machines, and Ray close their nodes.

    Args:
        lease_name: returns the name of a node's lease.
        inside: tells who is on a node.
        answered: called when an answer has come.
    """

    def __init__(
        self,
        adapter: Adapter,
        lease_name: Callable[[str], str],
        inside: closing.Inside,
        answered: Callable[[], None] = lambda: None,
    ) -> None:
        self._adapter, self._lease_name, self._answered = adapter, lease_name, answered
        self._inside = inside
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="power")
        self._queue: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()

    def do(self, what: Do, machine: Machine) -> None:
        self._threads.submit(self._work, what, machine)

    def answers(self) -> Mapping[str, Answer]:
        found: dict[str, Answer] = {}
        while not self._queue.empty():
            name, answer = self._queue.get()
            found[name] = answer
        return found

    def begin(self, closed: frozenset[str]) -> None:
        """Open the nodes that an earlier service closed, but those that are to stay closed."""
        self._guarded(lambda: closing.reopen_all_but(closed))

    def _work(self, what: Do, machine: Machine) -> None:
        if what is Do.OPEN:
            self._guarded(lambda: closing.reopen(machine.node))
        elif what is Do.FORGET:
            self._guarded(lambda: self._forget(machine.node))
        else:
            self._queue.put((machine.name, self._answer(what, machine)))
            self._answered()

    def _answer(self, what: Do, machine: Machine) -> Answer:
        try:
            if what is Do.LOOK:
                why = closing.close(machine.node, self._inside)
                return Answer(what, not why, why)
            if what is Do.STATE:
                return Answer(what, True, is_on=self._adapter.is_on(machine))
            (self._adapter.sleep if what is Do.SLEEP else self._adapter.wake)(machine)
            return Answer(what, True)
        except AdapterError as error:
            return Answer(what, False, str(error))
        except Exception as error:  # Ray may be away
            log.exception("power: %s of %s", what.value, machine.name)
            return Answer(what, False, f"{type(error).__name__}: {error}".splitlines()[0])

    def _forget(self, node: Node) -> None:
        closing.forget(node, self._lease_name(node.id))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            log.exception("power: Ray did not answer")
