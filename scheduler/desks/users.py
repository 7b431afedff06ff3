"""Knows users and their tokens, and says whose token it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..access.identities import Identities
from ..runtime.applied_teams import AppliedTeams
from ..runtime.degraded import StoreWatch


class UsersDesk:
    """Answers for users and tokens."""

    def __init__(self, identities: Identities, watch: StoreWatch, teams: AppliedTeams) -> None:
        self._identities, self._watch, self._teams = identities, watch, teams

    def authenticate(self, token: str) -> dict[str, Any] | str:
        """Return whose token it is, as `Identities.authenticate` does, and the `teams` of that user."""
        return self._with_teams(self._identities.authenticate(token))

    def known_user(self, name: str) -> dict[str, Any] | str:
        """Return a user whom a proxy names, as `Identities.known_user` does, and the `teams` of that user."""
        return self._with_teams(self._identities.known_user(name))

    def _with_teams(self, found: dict[str, Any] | str) -> dict[str, Any] | str:
        return found if isinstance(found, str) else found | {"teams": self._teams.of_user(found["user"])}

    def users(self) -> Sequence[dict[str, Any]]:
        """Return all users."""
        return self._identities.users()

    def put_user(self, name: str, role: str, disabled: bool = False) -> bool:
        """Make a user or change its role. Raises: IdentityError; StateError."""
        with self._watch.storing():
            return self._identities.put_user(name, role, disabled)

    def tokens(self, user: str | None = None) -> Sequence[dict[str, Any]]:
        """Return tokens of a user or of all, as `Identities.tokens` does."""
        return self._identities.tokens(user)

    def issue_token(self, user: str, label: str = "", days: float | None = None) -> dict[str, Any]:
        """Make a token. Raises: IdentityError; StateError."""
        with self._watch.storing():
            return self._identities.issue(user, label, days)

    def issue_page_key(self, user: str) -> dict[str, Any]:
        """Make a key with which a browser signs in once. Raises: IdentityError; StateError."""
        with self._watch.storing():
            return self._identities.issue_page_key(user)

    def begin_session(self, told: str) -> dict[str, Any]:
        """Sign a browser in, as `Identities.begin_session` does. Raises: IdentityError; StateError."""
        with self._watch.storing():
            return self._identities.begin_session(told)

    def revoke_token(self, token_id: str, user: str | None = None) -> bool:
        """Revoke a token. Raises: KeyError; StateError."""
        with self._watch.storing():
            return self._identities.revoke(token_id, user)
