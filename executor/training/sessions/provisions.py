"""Takes over the CPUs and the memory that the executor gives a process while it trains."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ...protocol import messages
from ...protocol.messages import Provide
from ..caching import node_cache
from ..data.batches import Source
from .channel import Channel

PROC = Path("/proc")
_ALL = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else frozenset()


class Provisions:
    """The newest `Provide` of this process, and what was done about it.

    Cores and the cache are this process's own affair. The number of loader workers is rank 0's word, since all
    ranks draw as far ahead.
    """

    def __init__(self, channel: Channel, source: Source) -> None:
        self._channel, self._source = channel, source
        self._workers = 0  # that the executor wants
        self._fresh = True  # no batch was read yet
        if workers := int(os.environ.get(messages.LOADER_WORKERS) or 0):
            source.have_workers(workers)

    @property
    def waiting(self) -> bool:
        """Whether rank 0 is to have all ranks take up another number of loader workers."""
        self._take()
        return self._workers > 0

    def here(self) -> None:
        """Take up cores and memory of this process, if others were given; a newcomer its workers, too."""
        self._take()
        if self._fresh and self._workers:
            self.agreed(self._workers)
        self._fresh = False

    def words(self) -> int:
        """Return the number of loader workers that rank 0 tells all ranks."""
        workers, self._workers = self._workers, 0
        return workers

    def agreed(self, workers: int) -> bool:
        """Have the loader workers that rank 0 has told; return whether that is another number."""
        self._workers = 0
        return self._source.have_workers(workers)

    def _take(self) -> None:
        given = self._channel.take(Provide)
        if given is None:
            return
        self._workers = given.workers
        use_cores(given.cores)
        cache = node_cache.here()
        if cache is not None and given.cache_bytes is not None:
            cache.resize(given.cache_bytes)


def use_first_cores() -> None:
    """Keep to the cores that the environment names, if it does."""
    if named := os.environ.get(messages.CORES):
        use_cores([int(core) for core in named.split(",")])


def use_cores(cores: Sequence[int]) -> None:
    """Let all threads and children of this process run on these cores; none: on all that it was started with."""
    if not _ALL or (wanted := set(cores) or set(_ALL)) == os.sched_getaffinity(0):
        return
    for task in [0, *_tasks(os.getpid())]:
        with suppress(OSError):  # it has ended, or the machine lacks all of these
            os.sched_setaffinity(task, wanted)


def _tasks(process: int) -> Iterator[int]:
    """Yield the threads of a process, and of all that it has started."""
    for task in _names(PROC / str(process) / "task"):
        yield task
        for child in _children(PROC / str(process) / "task" / str(task) / "children"):
            yield from _tasks(child)


def _names(folder: Path) -> list[int]:
    with suppress(OSError):
        return [int(entry.name) for entry in folder.iterdir()]
    return []


def _children(file: Path) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in file.read_text().split()]
    return []
