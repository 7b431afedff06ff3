"""Tells what users and teams have used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from ...core.identity import Reader
from ..cycle import SchedulingCycle
from ..runtime.clock import Clock
from ..store import used
from ..store.store import Store
from ..views.usage_views import usage_rows
from .moments import Moments


class UsageDesk:
    """Answers for GPU time and value units."""

    def __init__(self, store: Store, cycle: SchedulingCycle, clock: Clock, moments: Moments) -> None:
        self._store, self._cycle, self._clock, self._moments = store, cycle, clock, moments

    def usage(self, by: Sequence[str], since_s: float, reader: Reader | None = None) -> Sequence[dict[str, Any]]:
        """Return a `core.schemas.UsageSum` for each that `by` tells apart.

        Args:
            by: some of team, user and type.
            since_s: seconds since 1970. What was started, idle and lost counts from the day of it on, in UTC.
            reader: only own use, and that of own teams.
        """
        day = datetime.fromtimestamp(since_s, UTC).strftime("%Y-%m-%d")
        begin_s, now = self._moments.steady_s(since_s) or 0.0, self._clock.steady_s()
        with self._store.database.reading() as connection:
            every = chain(used.read(connection, begin_s, now), used.read_kinds(connection, day))
            found = [one for one in every if reader is None or reader.may_read(one.owner, one.team)]
        teams = self._cycle.teams.now
        rows = usage_rows(found, by, {} if teams is None else teams.prices, self._cycle.mean_prices.now)
        return [dict(row) for row in rows]
