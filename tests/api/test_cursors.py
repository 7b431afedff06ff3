"""A cursor that somebody wrote by hand leads nowhere: it is refused, whatever it holds."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from coadapt.api.cursors import cursor_of, name_of_place, number_of_place

from tests.support.api import Api

REFUSED = "cursor: this is not the `next` of an answer to the same query"
# What each listing answers to, as its cursors are bound to it.
NO_CHOICE = {"user": None, "job": None, "verb": None, "since_s": None, "oldest_first": False}
NUMBERED: list[tuple[str, Any]] = [
    ("/v1/jobs", [[], None, None, None]),
    ("/v1/rounds", None),
    ("/v1/audit", NO_CHOICE),
]
HELD = [
    "null",
    "true",
    "-1",
    "1.5",
    "1e400",
    "NaN",
    "Infinity",
    str(2**63),
    "9" * 200,
    '"1"',
    "[]",
    "[1]",
    "[[[[1]]]]",
    "{}",
    '{"number": 1}',
]
NAMES = ["7", "true", "{}", '{"a": 1}', '"x"', "[]", "[1]", "[null]", '[["a"]]', '[""]', '[".."]', '["a/b"]']
NAMES += ['["a\\u0000"]', json.dumps(["a"] * 101)]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    api = Api(tmp_path_factory.mktemp("api"))
    yield api
    api.world.store.close()


def coded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def holding(place: str, query: Any) -> str:
    """Return a cursor of a query that holds any JSON, as somebody makes it who has read how."""
    bound = json.loads(base64.urlsafe_b64decode(cursor_of(1, query) + "=="))[1]
    return coded(f'[{place},"{bound}"]')


def refused(api: Api, path: str, cursor: str) -> None:
    answer = api.ask("GET", path, params={"cursor": cursor})
    assert (answer.status_code, answer.json()["detail"]) == (400, REFUSED), answer.text
    assert answer.json()["field"] == "cursor"


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize(("path", "query"), NUMBERED, ids=[path for path, _ in NUMBERED])
def test_a_place_that_is_no_number_is_refused(api: Api, path: str, query: Any, held: str) -> None:
    assert api.ask("GET", path, params={"cursor": holding("7", query)}).status_code == 200, "a number is one"
    refused(api, path, holding(held, query))


@pytest.mark.parametrize("held", NAMES)
def test_a_place_that_is_no_name_is_refused(api: Api, held: str) -> None:
    job_id = api.job("ann")
    path = f"/v1/jobs/{job_id}/outputs"
    assert api.ask("GET", path, params={"cursor": holding('["a", "b"]', job_id)}).status_code == 200
    refused(api, path, holding(held, job_id))


@pytest.mark.parametrize("path", [path for path, _ in NUMBERED] + ["/v1/jobs/{job}/outputs"])
@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "!",
        "=",
        "é",
        coded("x"),
        coded("5"),
        coded('{"a": 1, "b": 2}'),
        coded('"ab"'),
        coded("[1]"),
        coded("[1, 2, 3]"),
        coded("[1, [[]]]"),
        coded("[" * 180),
        coded("\udcff".encode("utf-8", "surrogateescape").decode("latin-1")),
        base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    ],
)
def test_a_cursor_that_nobody_gave_is_refused(api: Api, path: str, cursor: str) -> None:
    refused(api, path.format(job=api.job("ann")), cursor)


def test_lists_within_lists_without_end_are_refused(api: Api) -> None:
    refused(api, f"/v1/jobs/{api.job('ann')}/outputs", coded("[" * 14_000 + "]" * 900))


def test_characters_that_are_no_base64_are_not_passed_over(api: Api) -> None:
    cursor = cursor_of(7, [[], None, None, None])
    assert api.ask("GET", "/v1/jobs", params={"cursor": cursor}).status_code == 200
    refused(api, "/v1/jobs", f"{cursor[:4]}*{cursor[4:]}")


def test_a_cursor_that_was_given_leads_back_to_its_place() -> None:
    assert number_of_place(cursor_of(2**40, "q"), "q") == 2**40
    assert name_of_place(cursor_of(["a b", "\udcff.pt"], "q"), "q") == ("a b", "\udcff.pt")
    assert number_of_place(None, "q") is None
    assert name_of_place(None, "q") == ()
