"""Teams as their page shows them: bars of what each was promised and has, and value units of the month. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.schemas import TeamNow, TeamsView, UsageSum
from .words import count, short

WARNED_AT = 0.8  # part of a month's value units, as events tell it
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Bar:
    """What a team has of a GPU type. Places are parts of a bar that is 100 wide.

    kind: the GPU type, with its pool as in a100@lab. cap: None: it has none.
    own, borrowed: what it uses of its guarantee and beyond. lent: what others have of it, while it is idle.
    promised, room: where guarantee and cap end.
    """

    kind: str
    gpu_type: str
    guarantee: int
    cap: int | None
    used: int
    borrowed: int
    lent: int
    own: float
    beyond: float
    promised: float
    room: float

    @property
    def told(self) -> str:
        """Return the bar in words."""
        cap = "no cap" if self.cap is None else f"cap {self.cap:,}"
        more = f", {self.borrowed:,} borrowed" if self.borrowed else ""
        lent = f", {self.lent:,} lent" if self.lent else ""
        return f"{self.used:,} used{more}; guarantee {self.guarantee:,}{lent}, {cap}"


@dataclass(frozen=True)
class Spent:
    """Value units of this month. `most`: the limit; None: there is none. `part`: of it that is used, 0 to 1."""

    units: float
    most: float | None
    part: float

    @property
    def warns(self) -> bool:
        return self.most is not None and self.units >= WARNED_AT * self.most

    @property
    def over(self) -> bool:
        return self.most is not None and self.units >= self.most

    @property
    def told(self) -> str:
        if self.most is None:
            return f"{short(self.units)} value units this month"
        return f"{short(self.units)} of {short(self.most)} value units this month"


@dataclass(frozen=True)
class Member:
    """A user of a team. `gpus`: each GPU type with how many."""

    name: str
    gpus: tuple[tuple[str, str, int], ...]  # kind, GPU type, GPUs
    units: float  # value units of this month, for this team


@dataclass(frozen=True)
class TeamLine:
    """A team. `spent`: None: it is not told. `members`: of others' teams none."""

    name: str
    default: bool
    facts: str
    scale: int
    bars: tuple[Bar, ...]
    spent: Spent | None
    members: tuple[Member, ...]
    more: int  # members that are not named


@dataclass(frozen=True)
class TeamsPage:
    """All that the page shows."""

    answer: str
    teams: tuple[TeamLine, ...]


MOST_MEMBERS = 50  # of a team that are named, those with the most value units


def teams_page(
    view: TeamsView, board: Mapping[str, Any], used: Sequence[UsageSum], told: Collection[str] | None
) -> TeamsPage:
    """Return the page.

    Args:
        view: the file of teams.
        board: `teams`: what each has now; `gpus`: of the cluster, by GPU type.
        used: value units of this month by team and user.
        told: the teams of which users and value units are told; None: all.
    """
    teams, now, gpus = view["teams"], board["teams"], board["gpus"]
    default = next((name for name, team in teams.items() if team["default"]), None)
    units: dict[str, dict[str, float]] = {name: {} for name in teams}
    for row in used:
        name = row.get("team", "")
        if (counted := name if name in teams else default) is not None:
            mine = units[counted]
            mine[row.get("user", "")] = mine.get(row.get("user", ""), 0.0) + row["value_units"]
    lines = tuple(
        _line(name, team, now.get(name) or _NOTHING, gpus, units[name], told is None or name in told)
        for name, team in teams.items()
    )
    return TeamsPage(_answer(lines, now, sum(gpus.values())), lines)


_NOTHING: TeamNow = {"gpus": {}, "borrowed": {}, "lent": {}, "running": 0, "waiting": 0, "users": {}}


def _answer(lines: Sequence[TeamLine], now: Mapping[str, TeamNow], gpus: int) -> str:
    """Return the sentence that the page opens with."""
    if not lines:
        return "No teams share this cluster."
    used = sum(bar.used for line in lines for bar in line.bars)
    borrowed = sum(bar.borrowed for line in lines for bar in line.bars)
    waiting = sum(team["waiting"] for team in now.values())
    verb = "uses" if len(lines) == 1 else "use"
    parts = [f"{count(len(lines), 'team')} {verb} {used:,} of {count(gpus, 'GPU')}"]
    if borrowed:
        parts.append(f"{borrowed:,} {'is' if borrowed == 1 else 'are'} borrowed")
    if waiting:
        parts.append(count(waiting, "job waits", "jobs wait"))
    return "; ".join(parts) + "."


def _line(
    name: str, team: Mapping[str, Any], now: TeamNow, gpus: Counts, units: Mapping[str, float], told: bool
) -> TeamLine:
    kinds = sorted({*gpus, *team["guarantee"], *now["gpus"]})
    scale = max((_widest(kind, team, now, gpus) for kind in kinds), default=1) or 1
    facts = [f"share {short(team['share'])}", count(now["running"], "job trains", "jobs train")]
    if now["waiting"]:
        facts.append(count(now["waiting"], "waits", "wait"))
    people = sorted(
        {*team["users"], *now["users"], *units} if told else (),
        key=lambda user: (-units.get(user, 0.0), -sum(now["users"].get(user, {}).values()), user),
    )
    return TeamLine(
        name=name,
        default=bool(team["default"]),
        facts=" · ".join(facts),
        scale=scale,
        bars=tuple(_bar(kind, team, now, gpus, scale) for kind in kinds),
        spent=_spent(sum(units.values()), team["limits"]["value_units_a_month"]) if told else None,
        members=tuple(
            Member(user or "nobody known", _held(now["users"].get(user, {})), units.get(user, 0.0))
            for user in people[:MOST_MEMBERS]
        ),
        more=max(len(people) - MOST_MEMBERS, 0),
    )


def _widest(kind: str, team: Mapping[str, Any], now: TeamNow, gpus: Counts) -> int:
    return max(team["guarantee"].get(kind, 0), now["gpus"].get(kind, 0), _room(kind, team, gpus))


def _room(kind: str, team: Mapping[str, Any], gpus: Counts) -> int:
    """Return how many GPUs a team may have at most: its cap, or all that there are."""
    have = gpus.get(kind, 0)
    return min(team["cap"].get(kind, have), have)


def _bar(kind: str, team: Mapping[str, Any], now: TeamNow, gpus: Counts, scale: int) -> Bar:
    guarantee, used = team["guarantee"].get(kind, 0), now["gpus"].get(kind, 0)
    borrowed, lent = now["borrowed"].get(kind, 0), now["lent"].get(kind, 0)

    def part(number: int) -> float:
        return round(100 * number / scale, 2)

    return Bar(
        kind=kind,
        gpu_type=kind.partition("@")[0],
        guarantee=guarantee,
        cap=team["cap"].get(kind),
        used=used,
        borrowed=borrowed,
        lent=lent,
        own=part(used - borrowed),
        beyond=part(borrowed),
        promised=part(guarantee),
        room=part(_room(kind, team, gpus)),
    )


def _held(counts: Counts) -> tuple[tuple[str, str, int], ...]:
    return tuple((kind, kind.partition("@")[0], number) for kind, number in sorted(counts.items()))


def _spent(units: float, most: float | None) -> Spent:
    return Spent(units, most, min(units / most, 1.0) if most else 0.0)
