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
    """A user who has shown a token. `token_id`: which one; "": a proxy that is trusted has named the user."""

    user: str
    role: Role
    token_id: str = ""
