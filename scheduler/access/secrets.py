"""Secrets of users: sealed in the store, opened only for processes of their jobs, and shown nowhere."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...core.errors import SecretError
from ...core.job import JobSpec
from ..jobs.record import JobRecord
from ..runtime.clock import Clock
from ..store import audit
from ..store import secrets as table
from ..store.store import Store
from .secret_keys import Key, SecretKeys

MOST = 200  # secrets of a user
LOOKS = 3  # for a key that is not there; after these it is lost
Given = dict[str, Any]  # `values` by variable, and the `problem` with one of them


class Secrets:
    """The secrets of one cluster. Moments are by the machine's clock, as people set them."""

    def __init__(self, store: Store, keys: SecretKeys, clock: Clock) -> None:
        self._store, self._keys, self._clock = store, keys, clock
        self._sealing = threading.Lock()  # nothing is sealed with a key that is about to be forgotten

    def rows(self, user: str) -> list[dict[str, Any]]:
        """Return names and dates of a user's secrets, and what is wrong with each; "": nothing."""
        found, known = self._looked(user)
        return [
            {
                "name": row["name"],
                "created_s": row["created_s"],
                "changed_s": row["changed_s"],
                "problem": "" if row["key"] in known else self._lost(row),
            }
            for row in found
        ]

    def put(self, user: str, name: str, value: str) -> bool:
        """Keep a secret. Return whether it is new. Raises: SecretError."""
        if "\0" in value:
            raise SecretError(f"{name}: the value holds a NUL character, which no variable can")
        if not value:
            raise SecretError(f"{name}: the value is empty")
        with self._sealing:
            there = {row["name"]: row for row in table.read(self._store.database, user)}
            if name not in there and len(there) >= MOST:
                raise SecretError(f"{name}: {user} has {MOST} secrets, and no more are kept; remove one first")
            now = self._clock.wall_s()
            created_s = there[name]["created_s"] if name in there else now
            audit.tell(after={"changed" if name in there else "made": True})
            key = self._keys.sealing()
            row = {"user": user, "name": name, "key": key.id, "sealed": key.seal(value, _bound(user, name))}
            self._store.write(table.put({**row, "created_s": created_s, "changed_s": now}))
        return name not in there

    def remove(self, user: str, name: str) -> None:
        """Remove a secret. Raises: KeyError."""
        if name not in {row["name"] for row in table.read(self._store.database, user)}:
            raise KeyError(f"no secret {name}")
        audit.tell(after={"removed": True})
        self._store.write(table.remove(user, name))

    def check(self, spec: JobSpec, user: str) -> None:
        """Refuse a job that names secrets which its user does not have. Raises: SecretError."""
        if spec.secrets and (problem := self._opened(spec, user)["problem"]):
            raise SecretError(problem)

    def given(self, job: JobRecord) -> Given | None:
        """Return what processes of a job are to be given; None: it names no secrets."""
        if not job.spec.secrets:
            return None
        try:
            return self._opened(job.spec, job.owner)
        except SecretError as error:
            return {"values": {}, "problem": str(error)}

    def opened(self, user: str) -> dict[str, str]:
        """Return the values of all secrets of a part of the service, by name. Raises: SecretError."""
        found, known = self._looked(user)
        values = {}
        for row in found:
            value = (
                known[row["key"]].open(row["sealed"], _bound(user, row["name"])) if row["key"] in known else None
            )
            if value is None:
                raise SecretError(self._lost(row))
            values[row["name"]] = value
        return values

    @contextmanager
    def keeping(self, user: str, values: Mapping[str, str]) -> Iterator[None]:
        """Keep secrets of a part of the service, in one transaction with what is written within.

        They are sealed before it begins, as in `put`: who waits for the other lock here holds none.

        Raises: SecretError.
        """
        with self._sealing:
            now, key = self._clock.wall_s(), self._keys.sealing()
            rows = [
                {"user": user, "name": name, "key": key.id, "sealed": key.seal(value, _bound(user, name))}
                for name, value in values.items()
            ]
            with self._store.together():
                for row in rows:
                    self._store.write(table.put({**row, "created_s": now, "changed_s": now}))
                yield

    def forget(self, user: str) -> None:
        """Forget all secrets of a part of the service, in the transaction under way."""
        self._store.write(table.forget(user))

    def derived(self, purpose: str) -> list[bytes]:
        """Return a key for a purpose of the service, one of each key of secrets. Raises: SecretError."""
        self._keys.sealing()
        return [hmac.digest(key.value, purpose.encode(), "sha256") for key in self._keys.all()]

    def rekey(self) -> dict[str, int]:
        """Seal all secrets with a new key, and forget the old one. Return how many, and how many cannot be opened.

        Raises: SecretError.
        """
        with self._sealing:
            return self._rekey()

    def _rekey(self) -> dict[str, int]:
        rows, key = table.read(self._store.database), self._keys.begin_new()
        known, anew, lost = self._known(), list[dict[str, Any]](), 0
        for row in rows:
            bound = _bound(row["user"], row["name"])
            value = known[row["key"]].open(row["sealed"], bound) if row["key"] in known else None
            if value is None:
                lost += 1
            else:
                anew.append({**row, "key": key.id, "sealed": key.seal(value, bound)})
        audit.tell(after={"sealed": len(anew), "lost": lost})
        self._store.write(table.seal_anew(anew))
        self._keys.keep({key.id})
        return {"sealed": len(anew), "lost": lost}

    def users_of(self, name: str, user: str) -> list[JobRecord]:
        """Return the active jobs of a user that name a secret."""
        jobs: Iterable[JobRecord] = self._store.unretired.values()
        return [job for job in jobs if job.active and job.owner == user and name in job.spec.secret_env.values()]

    def _opened(self, spec: JobSpec, user: str) -> Given:
        found, known = self._looked(user)
        rows, values = {row["name"]: row for row in found}, dict[str, str]()
        for variable, name in spec.secret_env.items():
            if (row := rows.get(name)) is None:
                made = f"`coadapt secret set {name}` makes one"
                return {"values": {}, "problem": f"secrets: {user or 'nobody'} has no secret {name}; {made}"}
            value = known[row["key"]].open(row["sealed"], _bound(user, name)) if row["key"] in known else None
            if value is None:
                return {"values": {}, "problem": f"secrets: {self._lost(row)}"}
            values[variable] = value
        return {"values": values, "problem": ""}

    def _looked(self, user: str) -> tuple[list[dict[str, Any]], Mapping[str, Key]]:
        """Return a user's rows, and the keys that open them though all may be sealed anew meanwhile.

        Nobody waits here for that, as rounds give secrets to jobs. A key is in the file before a row needs it, and
        goes when no row does: a look before the rows and one after have it. Further looks are for several changes.
        """
        for _ in range(LOOKS):
            before = self._known()
            rows = table.read(self._store.database, user)
            known = {**before, **self._known()}
            if all(row["key"] in known for row in rows):
                break
        return rows, known

    def _known(self) -> Mapping[str, Key]:
        return {key.id: key for key in self._keys.all()}

    def _lost(self, row: Mapping[str, Any]) -> str:
        return lost(row["name"], row["key"], self._keys.where)


def lost(name: str, key: str, where: str) -> str:
    """Return a sentence on a secret that nobody can open any more."""
    return f"{name} cannot be opened, as its key {key} is not in {where}; bring that back, or set {name} anew"


def _bound(user: str, name: str) -> str:
    return f"{user}\n{name}"
