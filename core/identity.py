"""Who asks, and what that one may do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a user may do. Each role may do what the ones before it may."""

    VIEWER = "viewer"  # read everything
    USER = "user"  # submit jobs, and see and change those
    OPERATOR = "operator"  # see and change everything

    @property
    def rank(self) -> int:
        """Return its place among the roles."""
        return list(Role).index(self)


@dataclass(frozen=True)
class Identity:
    """A user who has shown a token.

    token_id: which one; "": a proxy that is trusted has named the user.
    teams: in which the user is.
    """

    user: str
    role: Role
    token_id: str = ""
    teams: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reader:
    """A user who is not told all, but of own jobs and those of own teams. `teams`: the names of these."""

    user: str
    teams: tuple[str, ...] = ()

    def may_read(self, owner: str, team: str) -> bool:
        """Return whether a job is told. `team`: whose share it uses; "": that of none."""
        return owner == self.user or (team != "" and team in self.teams)
