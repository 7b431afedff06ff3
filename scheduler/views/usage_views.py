"""What users and teams have used, as `coadapt usage` shows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...core.schemas import UsageSum
from ...core.teams import price_of
from ..store.intervals import PROFILING, RUNNING
from ..store.used import Used

_COLUMNS = {RUNNING: "trained_h", PROFILING: "profiled_h"} | {
    kind: f"{kind}_h" for kind in ("started", "idle", "lost")
}
_PAID = ("trained_h", "profiled_h", "started_h", "lost_h")  # idle time is part of what was trained


def usage_rows(
    found: Iterable[Used], by: Sequence[str], prices: Mapping[str, float], duals: Mapping[str, float]
) -> list[UsageSum]:
    """Return sums by team, user and type as asked, those of the most value units first.

    Args:
        prices: the operator's. duals: the program's mean ones, by GPU type.
    """
    rows: dict[tuple[str, ...], UsageSum] = {}
    for one in found:
        if (column := _COLUMNS.get(one.phase)) is None:
            continue
        named = {"team": one.team, "user": one.owner, "type": one.gpu_type}
        key = tuple(named[word] for word in by)
        row = rows.setdefault(key, _nothing({word: named[word] for word in by}))
        hours = one.gpu_s / 3600
        row[column] += hours  # type: ignore[literal-required]
        if column in _PAID:
            row["value_units"] += hours * price_of(prices, duals, one.gpu_type)
    return sorted(rows.values(), key=lambda row: (-row["value_units"], row.get("team", ""), row.get("user", "")))


def _nothing(named: Mapping[str, str]) -> UsageSum:
    zero = dict.fromkeys(("value_units", *_COLUMNS.values()), 0.0)
    return {**named, **zero}  # type: ignore[typeddict-item]
