"""How many packages come at once: so many in all, and so many of one user, who then cannot keep others out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from .problems import Problem

MOST, MOST_EACH = 16, 4


class Arrivals:
    """Counts packages that come. Only the thread of the event loop may call it."""

    def __init__(self) -> None:
        self._by_user: Counter[str] = Counter()

    @contextmanager
    def one_of(self, user: str) -> Iterator[None]:
        """Count one more of a user while it comes. Raises: Problem where too many do."""
        if self._by_user.total() >= MOST or self._by_user[user] >= MOST_EACH:
            # A client takes this up again by itself, as where the scheduler is away.
            raise Problem(503, "the scheduler does not answer now: too many packages arrive at once; try again")
        self._by_user[user] += 1
        try:
            yield
        finally:
            self._by_user[user] -= 1
            if not self._by_user[user]:
                del self._by_user[user]
