"""Value units that users and teams have used this month, and warnings where these come to an end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain

from ...core.events import EventKind
from ...core.json_numbers import dumps
from ...core.spans import month_begins_s
from ...core.teams import Teams, price_of
from ..jobs.limits import Group, budget_notes, groups_of
from ..runtime.clock import Clock
from ..store import used
from ..store.events import Event
from ..store.failures import StoreFailure
from ..store.store import Store

FACT = "budgets_told"
AGAIN_S = 60.0  # between two looks at the store
MOST_TOLD = 20  # jobs, the newest, whose logs a warning is written to


class Spending:
    """Knows who has used what of this month, in UTC.

    Args:
        duals: returns the mean price of each GPU type, where the operator has set none.
    """

    def __init__(self, store: Store, clock: Clock, duals: Callable[[], Mapping[str, float]]) -> None:
        self._store, self._clock, self._duals = store, clock, duals
        self._spent: dict[Group, float] = {}
        self._looked_s: float | None = None
        self._for: Teams | None = None
        self._month, self._parts = _read(store)

    def now(self, teams: Teams | None) -> Mapping[Group, float]:
        """Return the value units by user and team; nothing where nobody has a limit of them."""
        if teams is None or not _counts(teams):
            return {}
        now = self._clock.steady_s()
        if self._looked_s is None or self._for is not teams or now - self._looked_s >= AGAIN_S:
            self._looked_s, self._for = now, teams
            with suppress(StoreFailure):  # the watch of the store tells it; what was known counts on
                self._spent = self._sum(teams, now)
                self._warn(teams, now)
        return self._spent

    def _sum(self, teams: Teams, now: float) -> dict[Group, float]:
        begins_s = month_begins_s(self._clock.wall_s()) - self._clock.wall_s() + now
        duals, found = self._duals(), dict[Group, float]()
        with self._store.database.reading() as connection:
            first = datetime.fromtimestamp(self._clock.wall_s(), UTC).strftime("%Y-%m-01")
            for one in chain(used.read(connection, begins_s, now), used.read_kinds(connection, first)):
                if one.phase == "idle":  # it is part of what was trained
                    continue
                units = one.gpu_s / 3600 * price_of(teams.prices, duals, one.gpu_type)
                for group in groups_of(one.owner, one.team or None, teams):
                    found[group] = found.get(group, 0.0) + units
        return found

    def _warn(self, teams: Teams, now: float) -> None:
        month = datetime.fromtimestamp(self._clock.wall_s(), UTC).strftime("%Y-%m")
        parts = dict(self._parts) if self._month == month else {}
        events = list[Event]()
        for group, (part, text) in budget_notes(teams, self._spent).items():
            key = f"{group[0]} {group[1]}"
            if part <= parts.get(key, 0.0):
                continue
            parts[key] = part
            jobs = [job for job in self._store.unretired.values() if job.active]
            mine = [job for job in jobs if group in groups_of(job.owner, job.spec.team, teams)]
            events += [Event(EventKind.BUDGET, now, job.id, {"text": text}) for job in mine[-MOST_TOLD:]]
        if parts != (self._parts if self._month == month else {}):
            with self._store.together():
                self._store.write_fact(FACT, dumps({"month": month, "parts": parts}))
                self._store.log(*events)
            self._month, self._parts = month, parts


def _counts(teams: Teams) -> bool:
    every = (teams.user_limits, *(team.limits for team in teams.teams.values()))
    return any(limits.value_units_a_month is not None for limits in every)


def _read(store: Store) -> tuple[str, dict[str, float]]:
    """Return the month in which warnings were told, and the parts of which they were."""
    try:
        found = json.loads(store.read_fact(FACT) or "{}")
        return str(found["month"]), {str(key): float(part) for key, part in found["parts"].items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return "", {}
