"""Teams: who shares the cluster, what each is promised, and what each may not exceed."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from .cluster import Cluster
from .wording import n_gpus

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$"
MOST_TEAMS = 1000
MOST_USERS = 10_000  # of one team

Value = TypeVar("Value")
TeamName = Annotated[str, Field(pattern=NAME)]
GpuCount = Annotated[int, Field(ge=0, le=1_000_000)]
Counts = dict[str, GpuCount]
"""GPUs by GPU type; `a100@lab` names those of the pool `lab`, as prices do."""
Cells = Annotated[list[int], Field(min_length=1, max_length=10_000)]
"""GPUs of each cell of a node."""


class Priority(StrEnum):
    """What the progress of a job is worth beside that of others."""

    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"

    @property
    def factor(self) -> float:
        """Return the factor on what progress is worth. Each step doubles it."""
        return _FACTORS[self]


_FACTORS = {priority: 2.0 ** (step - 1) for step, priority in enumerate(Priority)}


def _unlike_yes(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{str(value).lower()} is not a number")
    return value


class _Strict(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, hide_input_in_errors=True
    )


Above0 = Annotated[float, BeforeValidator(_unlike_yes), Field(gt=0)]


class Limits(_Strict):
    """What one user, or one team, may have at a time. None: no limit."""

    queued: Annotated[int, Field(ge=0)] | None = None
    """Jobs that have not ended and hold no GPUs."""
    running: Annotated[int, Field(ge=0)] | None = None
    """Jobs that hold GPUs."""
    gpus: Counts = {}
    """GPUs of each type."""
    value_units_a_month: Above0 | None = None
    """Value units of a calendar month, in UTC; warned at 80 %, and beyond it only what nobody else wants."""


class Team(_Strict):
    """Users who share what they were promised, and see each other's jobs."""

    users: Annotated[list[str], Field(max_length=MOST_USERS)] = []
    """Names of its users; one may be in several teams."""
    share: Above0 = 1.0
    """Its weight among teams."""
    guarantee: Counts = {}
    """GPUs of each type that it has whenever it asks for them."""
    cap: Counts = {}
    """GPUs of each type that it never exceeds; a type that is not named has no cap."""
    cells: dict[str, Cells] = {}
    """In which cells of nodes the guarantee of a type comes, [8, 4]; by default they are as large as nodes are."""
    default: bool = False
    """Whether users of no team are its users, too; for one team at most."""
    priorities: Annotated[list[Priority], Field(min_length=1)] = [Priority.LOW, Priority.NORMAL, Priority.HIGH]
    """The priorities that its jobs may have."""
    limits: Limits = Limits()
    """What it may have at a time, all its users together."""
    template: dict[str, Any] = {}
    """Fields of a job file that fill in what its jobs leave out."""

    @model_validator(mode="after")
    def _cap_holds_guarantee(self) -> Self:
        for gpu_type, gpus in self.guarantee.items():
            most = self.cap.get(gpu_type)
            if most is not None and most < gpus:
                raise ValueError(f"cap.{gpu_type}: {most} is less than its guarantee of {gpus}")
        for gpu_type, cells in self.cells.items():
            if (bad := next((cell for cell in cells if cell < 1 or cell & (cell - 1)), None)) is not None:
                raise ValueError(f"cells.{gpu_type}: {bad} is no cell; 1, 2, 4, 8 … GPUs are")
            if sum(cells) != (have := self.guarantee.get(gpu_type, 0)):
                raise ValueError(f"cells.{gpu_type}: {sum(cells)} GPUs in all, and its guarantee is {have}")
        return self


class Teams(_Strict):
    """The schema of a file of teams."""

    teams: Annotated[dict[TeamName, Team], Field(max_length=MOST_TEAMS)] = {}
    """The teams, by name."""
    lease_s: Annotated[float, BeforeValidator(_unlike_yes), Field(ge=0)] = 1800.0
    """The lease of a job: how long it keeps what it was given before that may be reclaimed."""
    half_life_h: Above0 = 24.0
    """What a team used counts half after so many hours, where shares are weighed."""
    prices: dict[str, Above0] = {}
    """The price of a GPU-hour of each type, for value units; by default the program's mean dual."""
    user_limits: Limits = Limits()
    """What each user may have at a time."""

    @model_validator(mode="after")
    def _one_default(self) -> Self:
        default = [name for name, team in self.teams.items() if team.default]
        if len(default) > 1:
            raise ValueError(f"teams.{default[1]}.default: {default[0]} is the default team already; one may be")
        return self

    @cached_property
    def of_user(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names of a user's teams, in the order of the file."""
        found: dict[str, list[str]] = {}
        for name, team in self.teams.items():
            for user in team.users:
                if name not in found.setdefault(user, []):
                    found[user].append(name)
        return {user: tuple(names) for user, names in found.items()}

    @property
    def default(self) -> str | None:
        """Return the team of users who are in none; None: they may not submit."""
        return next((name for name, team in self.teams.items() if team.default), None)

    def counted_for(self, named: str | None) -> str | None:
        """Return for whose share a job counts; None: for none.

        Args:
            named: the team that it was submitted for, which may have been removed since; None: none.
        """
        return named if named in self.teams else self.default

    def teams_of(self, user: str) -> tuple[str, ...]:
        """Return the teams that a user may submit to; the first is meant where a job names none."""
        own = self.of_user.get(user)
        if own:
            return own
        return () if self.default is None else (self.default,)


def gpus_called(kind: str, pool: str | None) -> str | None:
    """Return the GPU type that `a100` or `a100@lab` names in a pool (None: outside pools); None: none of it."""
    gpu_type, _, named = kind.partition("@")
    return gpu_type if named == (pool or "") else None


def kind_of(gpu_type: str, pool: str | None) -> str:
    """Return how files, prices and use name a GPU type in a pool: `a100@lab`; outside pools: `a100`."""
    return f"{gpu_type}@{pool}" if pool else gpu_type


def in_pool(counts: Mapping[str, Value], pool: str | None) -> dict[str, Value]:
    """Return what is said of the GPU types of one pool, by GPU type."""
    return {t: n for kind, n in counts.items() if (t := gpus_called(kind, pool)) is not None}


def misfits(teams: Teams, cluster: Cluster) -> list[str]:
    """Return what a cluster does not have of what teams are promised, a sentence each, in the file's order."""
    have = {
        kind_of(gpu_type, pool): gpus
        for pool, part in cluster.pools.items()
        for gpu_type, gpus in part.capacity().items()
    }
    found: list[str] = []
    for name, team in teams.teams.items():
        for field, counts in (("guarantee", team.guarantee), ("cap", team.cap), ("limits.gpus", team.limits.gpus)):
            found += [
                f"teams.{name}.{field}.{kind}: {_unknown(kind, have)}" for kind in counts if kind not in have
            ]
    found += [
        f"user_limits.gpus.{kind}: {_unknown(kind, have)}" for kind in teams.user_limits.gpus if kind not in have
    ]
    found += [f"prices.{kind}: {_unknown(kind, have)}" for kind in teams.prices if kind not in have]
    found += _cells_misfit(teams, cluster)
    for kind, gpus in have.items():
        promised = {name: team.guarantee[kind] for name, team in teams.teams.items() if team.guarantee.get(kind)}
        if (total := sum(promised.values())) > gpus:
            who = _sum_of(promised)
            found.append(f"guarantee.{kind}: {who} is {total}, and the cluster has {n_gpus(gpus)} of that type")
    return found


def _cells_misfit(teams: Teams, cluster: Cluster) -> list[str]:
    """Return which cells no node holds, and for which cells of all teams together nodes are too few."""
    found: list[str] = []
    for pool, part in cluster.pools.items():
        for gpu_type, nodes in part.by_type.items():
            kind = kind_of(gpu_type, pool)
            of = {name: team.cells[kind] for name, team in teams.teams.items() if kind in team.cells}
            largest = max(node.gpus for node in nodes)
            wide = {name: max(cells) for name, cells in of.items() if max(cells) > largest}
            found += [
                f"teams.{name}.cells.{kind}: no node holds a cell of {n_gpus(cell)}; they have at most {largest}"
                for name, cell in wide.items()
            ]
            if wide:
                continue
            room = sorted(node.gpus for node in nodes)
            for cell in sorted((cell for cells in of.values() for cell in cells), reverse=True):
                at = bisect_left(room, cell)
                if at == len(room):
                    found.append(f"cells.{kind}: the nodes do not hold the cells of all teams at once")
                    break
                left = room.pop(at) - cell
                room.insert(bisect_left(room, left), left)
    return found


def _sum_of(promised: Mapping[str, int]) -> str:
    told = " + ".join(f"{gpus} of {name}" for name, gpus in list(promised.items())[:5])
    return told if len(promised) <= 5 else f"{told} + {len(promised) - 5} more teams"


def _unknown(kind: str, have: Iterable[str]) -> str:
    gpu_type, _, pool = kind.partition("@")
    pools = sorted({known.partition("@")[2] for known in have} - {""})
    if pool and pool not in pools:
        return f"pool {pool} has no nodes; the cluster's pools are {', '.join(pools) or 'none'}"
    return f"{gpu_type} is no GPU type of {f'pool {pool}' if pool else 'the nodes outside pools'}; it has " + (
        ", ".join(sorted(k.partition("@")[0] for k in have if k.partition("@")[2] == pool)) or "none"
    )


def price_of(prices: Mapping[str, float], duals: Mapping[str, float], kind: str) -> float:
    """Return the price of a GPU-hour: the operator's, else the program's mean dual, else 1."""
    for known in (prices, duals):
        found = known.get(kind, math.nan)
        if found > 0 and math.isfinite(found):
            return float(found)
    return 1.0
