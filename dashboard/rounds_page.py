"""Rounds as their page lists them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.wording import span
from .words import count, short, took

# How the phases of a cycle are called, in their order; the first three classes of grey are theirs by turns.
PARTS = {
    "observe": "looking at nodes and jobs",
    "upkeep": "keeping records true",
    "snapshot": "collecting the round",
    "plan": "planning",
    "place": "placing",
    "diff": "comparing",
    "apply": "sending",
}


@dataclass(frozen=True)
class Part:
    """A part of a round's time, as a rectangle of a bar that is 100 wide."""

    name: str
    left: float
    wide: float
    told: str


@dataclass(frozen=True)
class Move:
    """A job whose GPUs a round changed."""

    kind: str
    job: str
    text: str


@dataclass(frozen=True)
class RoundLine:
    """A round."""

    number: int
    time_s: float
    took: str
    parts: tuple[Part, ...]
    moves: tuple[Move, ...]
    more: int  # changes of jobs that are not named
    waiting: int
    objective: str
    gap: str
    cost: str
    gained: str
    errors: tuple[str, ...]
    quiet: int = 0  # rounds before this one that changed nothing either, and have no line
    since_s: float | None = None  # when the first of these was

    @property
    def changes_nothing(self) -> bool:
        return not (self.moves or self.more or self.errors)


def round_lines(rows: Sequence[Mapping[str, Any]]) -> tuple[RoundLine, ...]:
    """Return the lines of rounds, newest first. Rounds in a row that changed nothing share one."""
    found: list[RoundLine] = []
    for line in map(_line, rows):
        last = found[-1] if found else None
        if last is not None and last.changes_nothing and line.changes_nothing and last.waiting == line.waiting:
            found[-1] = replace(last, quiet=last.quiet + 1, since_s=line.time_s)
        else:
            found.append(line)
    return tuple(found)


def _line(row: Mapping[str, Any]) -> RoundLine:
    moves = tuple(
        Move(
            kind,
            one["job"],
            f"{_gpus(one['before'])} → {_gpus(one['after'])}" if one["before"] else f"on {_gpus(one['after'])}",
        )
        for kind in ("placed", "moved", "stopped", "measured")
        for one in row[kind]
    )
    changed = sum(row["counts"].get(kind, 0) for kind in ("placed", "moved", "stopped", "measured"))
    cost, gained = row.get("moves_cost_gpu_s"), row.get("gained")
    return RoundLine(
        number=row["number"],
        time_s=row["time_s"],
        took=took(row["seconds"]),
        parts=_parts(row["phases"]),
        moves=moves,
        more=changed - len(moves),
        waiting=row["counts"].get("waiting", 0),
        objective=short(row["objective"]),
        gap=_gap(row["gap"]),
        cost=span(cost) if cost else "–",
        gained="–" if gained is None or not changed else _signed(gained),
        errors=tuple(row["errors"]),
    )


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{short(value)}".replace("-", "−")


def _gap(gap: float | None) -> str:
    if gap is None:
        return "–"
    part = gap * 100
    return "0 %" if part < 1e-6 else "< 0.01 %" if part < 0.01 else f"{short(part)} %"


def _gpus(text: str) -> str:
    return text.replace("x", " ", 1) or "nothing"


def _parts(phases: Mapping[str, float]) -> tuple[Part, ...]:
    total, left, found = sum(phases.values()), 0.0, []
    for name, called in PARTS.items():
        wide = 100 * phases.get(name, 0.0) / total if total else 0.0
        if wide >= 0.5:
            found.append(Part(name, round(left, 1), round(wide, 1), f"{called} {took(phases[name])}"))
        left += wide
    return tuple(found)


def answer(rows: Sequence[Mapping[str, Any]], now_s: float) -> str:
    """Return the sentence that the page opens with."""
    if not rows:
        return "No round was yet."
    moved = sum(sum(row["counts"].get(kind, 0) for kind in ("placed", "moved", "stopped")) for row in rows)
    ago = span(max(now_s - rows[0]["time_s"], 0.0))
    changed = count(moved, "placement") if moved else "no placement"
    before = f"the last {len(rows)}" if len(rows) > 1 else "it"
    return f"The last round was {ago} ago; {before} changed {changed}."
