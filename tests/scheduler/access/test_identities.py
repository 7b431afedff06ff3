"""Somebody can always let others in again, and a sentence names commands that are there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from coadapt.cli.main import app
from coadapt.core.errors import IdentityError
from coadapt.core.identity import Role
from coadapt.scheduler.access.identities import PAGE_KEY_S, SESSION_DAYS
from typer.main import get_command

from tests.support.api import Api


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def test_two_operators_who_change_each_other_at_once_leave_one(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    identities, both = api.service.parts.identities, threading.Barrier(2)
    identities.put_user("two", Role.OPERATOR.value)
    told, refused = identities.users, list[str]()

    def users() -> list[dict[str, Any]]:
        """Return all users, once both have asked or one has waited in vain for the other."""
        found = told()
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return found

    def demote(name: str) -> None:
        try:
            identities.put_user(name, Role.USER.value)
        except IdentityError as error:
            refused.append(str(error))

    monkeypatch.setattr(identities, "users", users)
    threads = [threading.Thread(target=demote, args=(name,)) for name in ("ops", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = [row["name"] for row in told() if row["role"] == Role.OPERATOR.value]
    assert len(left) == 1
    assert refused == [f"{left[0]} is the only operator; make another one first"]


def test_a_token_for_nobody_names_the_command_that_makes_a_user(api: Api) -> None:
    answer = api.ask("POST", "/v1/tokens", json={"user": "eve"})
    assert answer.json()["detail"] == "user: there is no user eve; `coadapt user add eve` makes one"
    command: Any = get_command(app)
    assert "add" in command.commands["user"].commands


def test_a_user_has_a_bounded_number_of_tokens_of_which_old_ones_give_way(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coadapt.scheduler.access.identities.MOST_TOKENS", 3)
    identities = api.service.parts.identities
    first = identities.tokens("bob")[0]["id"]  # the one of the test
    made = [identities.issue("bob", days=days)["id"] for days in (None, 1.0)]
    with pytest.raises(IdentityError, match=r"^user: bob has 3 tokens that are good; revoke one first$"):
        identities.issue("bob")
    identities.revoke(made[0], "bob")
    api.world.clock.forward(2 * 86_400.0)  # the second one expires
    newest = [identities.issue("bob")["id"] for _ in range(2)]
    assert {row["id"] for row in identities.tokens("bob")} == {first, *newest}
    assert len(identities.tokens("ann")) == 1


def test_a_one_time_key_signs_a_browser_in_once_and_is_no_token(api: Api) -> None:
    identities = api.service.parts.identities
    key = identities.issue_page_key("ann")["token"]
    assert "coadapt open" in str(identities.authenticate(key))
    session = identities.begin_session(key)
    assert (session["user"], session["role"]) == ("ann", "user")
    known = identities.authenticate(session["token"])
    assert isinstance(known, dict)
    assert known["user"] == "ann"
    with pytest.raises(IdentityError, match=r"^this key was used; `coadapt open` makes a new one$"):
        identities.begin_session(key)


def test_a_key_expires_after_minutes_and_a_session_after_days(api: Api) -> None:
    identities, clock = api.service.parts.identities, api.world.clock
    key = identities.issue_page_key("ann")["token"]
    session = identities.begin_session(api.tokens["ann"])["token"]
    clock.forward(PAGE_KEY_S + 1)
    with pytest.raises(IdentityError, match="has expired"):
        identities.begin_session(key)
    assert isinstance(identities.authenticate(session), dict)
    clock.forward(SESSION_DAYS * 86_400)
    assert "has expired" in str(identities.authenticate(session))


@pytest.mark.parametrize("told", ["", "coadapt_x", "coadapt_0123456789ab_" + "A" * 43, "x" * 100_000])
def test_no_browser_signs_in_with_what_is_no_token(api: Api, told: str) -> None:
    with pytest.raises(IdentityError, match=r"malformed|unknown"):
        api.service.parts.identities.begin_session(told)


@pytest.mark.parametrize("label", ["one-time key", "browser"])
def test_no_token_is_called_like_those_of_the_page(api: Api, label: str) -> None:
    with pytest.raises(IdentityError, match="choose another one"):
        api.service.parts.identities.issue("ann", label)
