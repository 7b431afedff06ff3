"""What was measured of earlier jobs, by user and fingerprint."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, select

from ...estimators.measurements import Measurements
from .schema import profiles
from .tables import upsert


def write(connection: Connection, found: Mapping[tuple[str, str], tuple[Measurements, float]]) -> None:
    """Write measurements with the time when they were made."""
    texts = {id(measured): measured.to_json() for measured, _ in found.values()}
    rows = [
        {"owner": owner, "fingerprint": key, "time_s": at_s, "measurements": texts[id(measured)]}
        for (owner, key), (measured, at_s) in found.items()
    ]
    upsert(connection, profiles, ("owner", "fingerprint"), rows)


def read(connection: Connection, owner: str, fingerprint: str) -> Measurements | None:
    """Return what is known; None: nothing, or it is torn and can be measured again."""
    query = select(profiles.c.measurements).where(profiles.c.owner == owner, profiles.c.fingerprint == fingerprint)
    if (text := connection.scalar(query)) is None:
        return None
    try:
        return Measurements.from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
