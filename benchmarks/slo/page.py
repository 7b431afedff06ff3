"""Tables of the page on deadlines, in Markdown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .statements import Means, Statement

COLUMNS = (
    ("miss_rate", "missed (%)", 100.0),
    ("be_jct_h", "best effort (h)", 1.0),
    ("deadline_jct_h", "deadline (h)", 1.0),
    ("suspensions_deadline", "stops", 1.0),
    ("suspensions_be", "stops, best effort", 1.0),
    ("policy_p99_s", "p99 (s)", 1.0),
)


def number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "–"


def mixes(means: Means) -> str:
    """Return a table per mix: what each policy missed, and how long others took."""
    found = []
    for mix, policies in means.items():
        first = next(iter(policies.values()))
        head = f"**{mix}**: {first['jobs']:,.0f} jobs, load {first['load']:.2f}"
        rows = [
            (policy, *(number(scale * own.get(key, math.nan)) for key, _, scale in COLUMNS))
            for policy, own in policies.items()
        ]
        found.append(f"{head}\n\n{_table(['policy', *(name for _, name, _ in COLUMNS)], rows)}")
    return "\n\n".join(found) or "Not run yet."


def statements(stated: Sequence[Statement], loads: Mapping[str, float]) -> str:
    """Return a row per statement: what the paper has, the aim, what was measured, and whether it holds."""
    rows = []
    for one in stated:
        load = number(loads[one.mix]) if one.mix in loads else ""
        aim = f"≤ {number(one.aim)}" if one.counts else ""
        held = ("yes" if one.holds else "**no**") if one.counts else ""
        rows.append((one.row, one.mix, load, one.what, one.paper, aim, number(one.value), held))
    return _table(["figure", "mix", "load", "what", "paper", "aim", "ours", "held"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'|'.join(['---', *['--:'] * (len(head) - 1)])}|"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])
