"""What users and teams have used, as `coadapt usage` shows it. Pure."""

from __future__ import annotations

from collections import defaultdict
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
    sums: defaultdict[tuple[str, ...], defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in found:
        if (column := _COLUMNS.get(one.phase)) is None:
            continue
        named = {"team": one.team, "user": one.owner, "type": one.gpu_type}
        row, hours = sums[tuple(named[word] for word in by)], one.gpu_s / 3600
        row[column] += hours
        if column in _PAID:
            row["value_units"] += hours * price_of(prices, duals, one.gpu_type)
    rows = [_row(dict(zip(by, key, strict=True)), some) for key, some in sums.items()]
    return sorted(rows, key=lambda row: (-row["value_units"], row.get("team", ""), row.get("user", "")))


def _row(named: Mapping[str, str], of: Mapping[str, float]) -> UsageSum:
    row: UsageSum = {
        "value_units": of["value_units"],
        "trained_h": of["trained_h"],
        "profiled_h": of["profiled_h"],
        "started_h": of["started_h"],
        "idle_h": of["idle_h"],
        "lost_h": of["lost_h"],
    }
    if "team" in named:
        row["team"] = named["team"]
    if "user" in named:
        row["user"] = named["user"]
    if "type" in named:
        row["type"] = named["type"]
    return row
