"""Users, their roles, and the tokens by which they are known."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...core.errors import IdentityError
from ...core.identity import Role
from ..runtime.clock import Clock
from ..runtime.degraded import StoreWatch
from ..store import audit
from ..store import identities as table
from ..store.failures import StoreFailure
from ..store.store import Store

PREFIX = "coadapt"
_FORM = re.compile(rf"^{PREFIX}_([0-9a-f]{{12}})_([A-Za-z0-9_-]{{43}})$")
MOST_TOKENS = 500  # of a user; what became of older ones is in the audit log
PAGE_KEY, PAGE_KEY_S = "one-time key", 600.0  # with which a browser signs in, and for how long it is good
BROWSER, SESSION_DAYS = "browser", 7.0  # what a browser has then
USED_EVERY_S = 60.0  # how exactly it is kept when a token was used last
DAY_S = 86_400.0


def digest_of(secret: str) -> str:
    """Return what is kept of a token. It is random and long, so that a plain digest is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Identities:
    """Users and tokens of one cluster. Moments are by the machine's clock, as people set them."""

    def __init__(self, store: Store, clock: Clock, watch: StoreWatch) -> None:
        self._store, self._clock, self._watch = store, clock, watch
        self._putting = threading.Lock()  # two operators who change each other leave one

    def authenticate(self, token: str) -> dict[str, Any] | str:
        """Return whose token it is: `user`, `role` and `token_id`; or one sentence on why it is not accepted."""
        found = self._known(token)
        if isinstance(found, str):
            return found
        row, user = found
        if row["label"] == PAGE_KEY:
            return "this is a one-time key, which opens the page once; `coadapt open` makes a new one"
        now = self._clock.wall_s()
        if self._watch.degraded is None and (row["used_s"] is None or now - row["used_s"] > USED_EVERY_S):
            with suppress(StoreFailure):  # who only reads is answered all the same
                self._store.write(table.change_token(row["id"], used_s=now))
        return {"user": row["user"], "role": user["role"], "token_id": row["id"]}

    def _known(self, token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]] | str:
        """Return the rows of a token that is good and of its user; or one sentence on why it is not accepted."""
        if (form := _FORM.match(token)) is None:
            return f"the token is malformed; one looks like {PREFIX}_ID_SECRET"
        token_id, secret = form.groups()
        row, now = table.read_token(self._store.database, token_id), self._clock.wall_s()
        if row is None or not hmac.compare_digest(row["digest"], digest_of(secret)):
            return "the token is unknown; `coadapt login URL` takes a new one"
        if row["revoked_s"] is not None:
            return f"the token {token_id} was revoked; ask an operator for a new one"
        if row["expires_s"] is not None and row["expires_s"] <= now:
            return f"the token {token_id} has expired; ask an operator for a new one"
        user = table.read_user(self._store.database, row["user"])
        if user is None or user["disabled"]:
            return f"the user {row['user']} is disabled; ask an operator"
        return row, user

    def known_user(self, name: str) -> dict[str, Any] | str:
        """Return a user whom a proxy names, as `authenticate` does; or one sentence on why it is not accepted."""
        user = table.read_user(self._store.database, name)
        if user is None:
            return f"there is no user {name[:63]}; ask an operator"
        if user["disabled"]:
            return f"the user {name} is disabled; ask an operator"
        return {"user": name, "role": user["role"], "token_id": ""}

    def users(self) -> list[dict[str, Any]]:
        """Return all users by name."""
        return table.read_users(self._store.database)

    def put_user(self, name: str, role: str, disabled: bool = False) -> bool:
        """Make a user or change its role. Return False if nothing changes. Raises: IdentityError."""
        with self._putting:
            return self._put_user(name, role, disabled)

    def _put_user(self, name: str, role: str, disabled: bool) -> bool:
        known = table.read_user(self._store.database, name)
        if known is not None and (known["role"], bool(known["disabled"])) == (role, disabled):
            return False
        loses = known is not None and known["role"] == Role.OPERATOR and (role != Role.OPERATOR or disabled)
        if loses and not any(
            one["role"] == Role.OPERATOR and not one["disabled"] and one["name"] != name for one in self.users()
        ):
            raise IdentityError(f"{name} is the only operator; make another one first")
        created_s = self._clock.wall_s() if known is None else known["created_s"]
        was = {} if known is None else {"role": known["role"], "disabled": bool(known["disabled"])}
        audit.tell(was, {"role": role, "disabled": disabled})
        self._store.write(table.write_user(name, role, disabled, created_s))
        return True

    def tokens(self, user: str | None) -> list[dict[str, Any]]:
        """Return tokens of a user or of all, without what makes them good."""
        return table.read_tokens(self._store.database, user)

    def issue(self, user: str, label: str = "", days: float | None = None) -> dict[str, Any]:
        """Make a token and return it, with its `id`. It can never be read again. Raises: IdentityError."""
        if label in (PAGE_KEY, BROWSER):
            raise IdentityError(f"label: {label!r} is what the page calls its own tokens; choose another one")
        return self._issue_to(user, label, days)

    def issue_page_key(self, user: str) -> dict[str, Any]:
        """Make a key with which a browser may sign in once, within minutes. Raises: IdentityError."""
        return self._issue_to(user, PAGE_KEY, PAGE_KEY_S / DAY_S)

    def begin_session(self, told: str) -> dict[str, Any]:
        """Return a new token for a browser, with its `user` and `role`.

        Args:
            told: a one-time key, which is used up, or a token.

        Raises: IdentityError with one sentence on why it is not accepted, or where its user has too many tokens.
        """
        with self._putting, self._store.together():
            found = self._known(told)
            if isinstance(found, str):
                used = "was revoked" in found and self._is_key(told)
                raise IdentityError("this key was used; `coadapt open` makes a new one" if used else found)
            row, user = found
            if row["label"] == PAGE_KEY:
                self._store.write(table.change_token(row["id"], revoked_s=self._clock.wall_s()))
            made = self._issue(row["user"], BROWSER, SESSION_DAYS)
            return {**made, "user": row["user"], "role": user["role"]}

    def _is_key(self, told: str) -> bool:
        form = _FORM.match(told)
        row = None if form is None else table.read_token(self._store.database, form.group(1))
        return row is not None and row["label"] == PAGE_KEY

    def _issue_to(self, user: str, label: str, days: float | None) -> dict[str, Any]:
        if table.read_user(self._store.database, user) is None:
            raise IdentityError(f"user: there is no user {user}; `coadapt user add {user}` makes one")
        with self._putting:
            return self._issue(user, label, days)

    def _issue(self, user: str, label: str, days: float | None) -> dict[str, Any]:
        token_id, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), self._clock.wall_s()
        expires_s = None if days is None else now + days * DAY_S
        row = {
            "id": token_id,
            "user": user,
            "digest": digest_of(secret),
            "label": label,
            "created_s": now,
            "expires_s": expires_s,
            "revoked_s": None,
            "used_s": None,
        }
        audit.tell(after={"id": token_id, "user": user, "label": label, "expires_s": expires_s})
        self._store.write(table.write_token(row, self._in_excess(user, now)))
        return {"id": token_id, "token": f"{PREFIX}_{token_id}_{secret}", "expires_s": expires_s}

    def _in_excess(self, user: str, now: float) -> list[str]:
        """Return the ids of tokens that give way to a new one: the oldest that are no good any more.

        Raises: IdentityError where all are good.
        """
        rows = self.tokens(user)
        dead = [row["id"] for row in rows if not _is_good(row, now)]
        if len(rows) - len(dead) >= MOST_TOKENS:
            raise IdentityError(f"user: {user} has {MOST_TOKENS} tokens that are good; revoke one first")
        return dead[: max(len(rows) + 1 - MOST_TOKENS, 0)]

    def revoke(self, token_id: str, user: str | None) -> bool:
        """Revoke a token; `user`: whose it must be. Return False if it was revoked before. Raises: KeyError."""
        row = table.read_token(self._store.database, token_id)
        if row is None or (user is not None and row["user"] != user):
            raise KeyError(f"no token {token_id}")
        if row["revoked_s"] is not None:
            return False
        audit.tell({"revoked": False}, {"revoked": True, "user": row["user"]})
        self._store.write(table.change_token(token_id, revoked_s=self._clock.wall_s()))
        return True


def _is_good(row: Mapping[str, Any], now: float) -> bool:
    return row["revoked_s"] is None and (row["expires_s"] is None or row["expires_s"] > now)
