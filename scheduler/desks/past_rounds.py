"""Tells why jobs had what they had: options of past rounds, reasons of resizes, and prices over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ...core.events import EventKind
from ...core.identity import Reader
from ..access.others_jobs import OthersJobs
from ..observers.kept_options import REACH, shown_options
from ..store import rounds
from ..store.events import Event
from ..store.store import Store
from .moments import Moments

MOST_RESIZES = 200  # of one job, the newest
MOST_PRICES = 300  # points of one GPU type
DAY_S = 86_400.0


class PastRoundsDesk:
    """Answers for rounds that were, of what these have kept."""

    def __init__(self, store: Store, moments: Moments) -> None:
        self._store, self._moments, self._others = store, moments, OthersJobs(store)

    def options(self, job_id: str, number: int | None = None, at_s: float | None = None) -> dict[str, Any]:
        """Return `core.schemas.OptionsView`: what a job could have had in a round. Raises: KeyError.

        Args:
            number: of the round. at_s: the newest round by then, in seconds since 1970. None: the newest one.
        """
        self._store.get(job_id)
        with self._store.database.reading() as connection:
            row = rounds.at(connection, number, self._moments.steady_s(at_s))
            found = None if row is None else rounds.options(connection, job_id, row["number"], REACH)
        if row is None:
            if number is not None:
                raise KeyError(f"no round {number}: it was never, or is kept no longer")
            return {"round": None, "time_s": None, "of_round": None, "prices": {}, "options": []}
        told: dict[str, Any] = {"round": row["number"], "time_s": row["time_s"], "prices": row.get("prices", {})}
        if found is None:
            return self._moments.shown(told | {"of_round": None, "options": []})
        return self._moments.shown(told | {"of_round": found[0], "options": shown_options(found[1])})

    def resizes(self, job_id: str, reader: Reader | None = None) -> Sequence[dict[str, Any]]:
        """Return `core.schemas.ResizeRow`s of a job, oldest first. Raises: KeyError.

        Args:
            reader: without names of jobs that this user may not read.
        """
        self._store.get(job_id)
        events = self._store.newest_events(MOST_RESIZES, job_id, [EventKind.PLACED.value])
        rows = [_resize(event) for event in events]
        if reader is not None:
            rows = [{**row, "because": self._others.hidden(row["because"], reader)} for row in rows]
        return self._moments.shown(rows)

    def prices(self, since_s: float | None = None) -> dict[str, Any]:
        """Return `core.schemas.PricesView`: the price of each GPU type over a day, or since a moment."""
        now = self._moments.now_s
        begin_s = now - DAY_S if since_s is None else self._moments.steady_s(since_s) or 0.0
        with self._store.database.reading() as connection:
            found = rounds.prices(connection, begin_s)
        ahead_s = self._moments.ahead_s
        of: dict[str, list[list[float]]] = {}
        for at_s, prices in thinned(found, begin_s, now):
            for gpu_type, price in prices.items():
                of.setdefault(gpu_type, []).append([round(at_s + ahead_s, 1), price])
        return {"since_s": begin_s + ahead_s, "until_s": now + ahead_s, "prices": of}


def thinned(
    found: Sequence[tuple[float, Mapping[str, float]]], begin_s: float, end_s: float
) -> list[tuple[float, Mapping[str, float]]]:
    """Return the last prices of each of some equal spans."""
    span_s = max((end_s - begin_s) / MOST_PRICES, 1e-9)
    spans = groupby(found, key=lambda one: int((one[0] - begin_s) / span_s))
    return [list(of)[-1] for _, of in spans]


def _resize(event: Event) -> dict[str, Any]:
    """Return a row; what an earlier version has written tells no reason."""
    data = event.data
    return {
        "time_s": event.time_s,
        "before": data.get("before"),
        "text": str(data.get("text", "")),
        "gpus": data.get("gpus", 0),
        "because": list(data.get("because", ())),
        "round_s": data.get("round_s"),
    }
