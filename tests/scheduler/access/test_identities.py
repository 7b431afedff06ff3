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
