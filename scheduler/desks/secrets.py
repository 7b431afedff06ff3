"""Keeps secrets of users, and gives new values to the jobs that name them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..access.secrets import Secrets
from ..jobs.record import JobRecord
from ..runtime.degraded import StoreWatch


class SecretsDesk:
    """Answers for secrets. Their values are told to nobody.

    Args:
        give: has the executor of a job take the secrets of now.
    """

    def __init__(self, secrets: Secrets, watch: StoreWatch, give: Callable[[JobRecord], None]) -> None:
        self._secrets, self._watch, self._give = secrets, watch, give

    def secrets(self, user: str) -> Sequence[dict[str, Any]]:
        """Return names and dates of a user's secrets."""
        return self._secrets.rows(user)

    def put_secret(self, user: str, name: str, value: str) -> dict[str, Any]:
        """Keep a secret; return whether it is `new`, and the active `jobs` that name it. Raises: SecretError."""
        with self._watch.storing():
            new = self._secrets.put(user, name, value)
        jobs = self._secrets.users_of(name, user)
        for job in jobs:  # their next processes take the new value
            self._give(job)
        return {"new": new, "jobs": [job.id for job in jobs]}

    def remove_secret(self, user: str, name: str) -> dict[str, Any]:
        """Remove a secret; return the active `jobs` that name it. Raises: KeyError; StateError."""
        jobs = self._secrets.users_of(name, user)
        with self._watch.storing():
            self._secrets.remove(user, name)
        for job in jobs:
            self._give(job)
        return {"jobs": [job.id for job in jobs]}

    def rekey_secrets(self) -> dict[str, int]:
        """Seal all secrets with a new key, as `Secrets.rekey` does. Raises: SecretError."""
        with self._watch.storing():
            return self._secrets.rekey()
