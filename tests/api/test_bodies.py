"""A body that stops coming holds nothing for long, and no user keeps the packages of others out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from coadapt.api import arrivals, bodies
from coadapt.api.arrivals import Arrivals
from coadapt.api.problems import Problem
from fastapi import Request

from tests.support.api import Api
from tests.support.packages import NAME, PACKAGE


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def body_of(*messages: dict[str, Any] | None) -> bytes:
    """Return a body that comes in these messages; None: nothing more comes."""
    left = list(messages)

    async def receive() -> dict[str, Any]:
        if (message := left.pop(0)) is None:
            await asyncio.Event().wait()
        assert message is not None
        return message

    request = Request({"type": "http", "method": "PUT", "headers": []}, receive)
    return asyncio.run(bodies.whole(request, 100))


PART = {"type": "http.request", "body": b"ab", "more_body": True}


def test_a_body_that_stops_coming_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "QUIET_S", 0.01)
    with pytest.raises(Problem) as found:
        body_of(PART, None)
    assert (found.value.status, found.value.detail) == (408, "nothing more of the body came for 0 s")


def test_a_connection_that_ends_within_a_body_is_no_failure_of_ours() -> None:
    with pytest.raises(Problem) as found:
        body_of(PART, {"type": "http.disconnect"})
    assert (found.value.status, found.value.detail) == (400, "the connection ended within the body")


def test_a_body_that_comes_in_parts_is_whole() -> None:
    assert body_of(PART, PART, {"type": "http.request", "body": b"c", "more_body": False}) == b"ababc"


def test_one_user_cannot_keep_packages_of_others_out(api: Api) -> None:
    with ExitStack() as coming:
        for _ in range(arrivals.MOST_EACH):
            coming.enter_context(api.app.state.context.arrivals.one_of("ann"))
        refused = api.ask("PUT", f"/v1/packages/{NAME}", "ann", content=PACKAGE)
        assert (refused.status_code, refused.headers["retry-after"] != "") == (503, True)
        assert api.ask("PUT", f"/v1/packages/{NAME}", "bob", content=PACKAGE).status_code == 201
    assert api.ask("PUT", f"/v1/packages/{NAME}", "ann", content=PACKAGE).status_code == 201


def test_all_users_together_have_a_bound() -> None:
    some = Arrivals()
    with ExitStack() as coming:
        for at in range(arrivals.MOST):
            coming.enter_context(some.one_of(f"user-{at}"))
        with pytest.raises(Problem, match="too many packages arrive at once"):
            coming.enter_context(some.one_of("another"))
    with some.one_of("another"):
        pass
