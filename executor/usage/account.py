"""What an executor of any kind tells the scheduler of its workers' GPUs: sums, with what it reports anyway."""

from __future__ import annotations

from collections.abc import Callable

from ...core.usage import NO_USAGE, Usage
from ..protocol.job_events import Used
from ..protocol.worker_events import Sampled
from .sampler import Growing

# Longer than reports, which carry the sums, usually are apart: at first and later on.
FIRST_S, MOST_S = 4.0, 45.0


class UsageAccount:
    """Adds up what workers tell, by GPU type, until the scheduler is told.

    The sums go with the executor's reports. They go by themselves where no report comes for long. A job that uses
    no GPU may report nothing.

    Args:
        executor: names this process of the executor, as one that is restarted counts from 1 again.
        put: tells the scheduler.
    """

    def __init__(self, executor: str, put: Callable[[Used], None], now: float) -> None:
        self._executor = executor
        self._put = put
        self._number = 0
        self._by_type: dict[str, Usage] = {}
        self._telling = Growing(now, FIRST_S, MOST_S)

    def hear(self, event: Sampled, now: float) -> None:
        """Add what a worker has told, and tell the scheduler where that is due."""
        self._by_type[event.gpu_type] = self._by_type.get(event.gpu_type, NO_USAGE) + event.usage
        if self._telling.due(now):
            self.tell(now)

    def tell(self, now: float) -> None:
        """Tell the scheduler what is new, as before the end of a job, after which nothing counts."""
        if (used := self.take(now)) is not None:
            self._put(used)

    def take(self, now: float) -> Used | None:
        """Return what is new, for a report to take along; None: nothing."""
        if not self._by_type:
            return None
        self._number += 1
        self._telling.done(now)
        told, self._by_type = Used(self._executor, self._number, self._by_type), {}
        return told
