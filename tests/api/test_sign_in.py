"""A browser is signed in by a token or a link that works once, and no other site can act for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from coadapt.api.app import make_app
from coadapt.api.sessions import PAGE_HEADER, page_word
from coadapt.core.api_settings import ApiSettings

from tests.support.api import Api, DirectScheduler

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def sign_in(api: Api, token: str, **more: Any) -> httpx.Response:
    headers = {**FORM, **more.pop("headers", {})}
    return api.ask("POST", "/sign-in", None, data={"token": token, **more}, headers=headers)


def cookie_of(answer: httpx.Response) -> tuple[str, str]:
    ((name, value),) = answer.cookies.items()
    return name, value


def browser(api: Api, user: str) -> dict[str, str]:
    """Return the cookie of a browser that a user has signed in."""
    name, value = cookie_of(sign_in(api, api.tokens[user]))
    return {"Cookie": f"{name}={value}"}


def test_a_token_signs_a_browser_in_and_no_script_can_read_its_cookie(api: Api) -> None:
    answer = sign_in(api, api.tokens["ann"], next="/jobs?which=all")
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?which=all")
    told = answer.headers["set-cookie"]
    assert "HttpOnly" in told
    assert "SameSite=strict" in told
    name, value = cookie_of(answer)
    page = api.ask("GET", "/jobs", None, headers={"Cookie": f"{name}={value}"})
    assert page.status_code == 200
    assert "Sign out" in page.text
    assert api.tokens["ann"] not in page.text
    assert value not in page.text


def test_a_link_signs_in_once(api: Api) -> None:
    key = api.ask("POST", "/v1/page-keys", "ann").json()["key"]
    assert key in api.ask("GET", "/sign-in", None, params={"key": key}).text
    assert api.ask("GET", "/v1/me", None, headers={"Authorization": f"Bearer {key}"}).status_code == 401
    assert sign_in(api, key).status_code == 303
    again = sign_in(api, key)
    assert again.status_code == 401
    assert "this key was used" in again.text
    assert "set-cookie" not in again.headers


@pytest.mark.parametrize(
    ("token", "told"),
    [
        ("", "malformed"),
        ("coadapt_0123456789ab_" + "A" * 43, "unknown"),
        ('"><script>alert(1)</script>', "malformed"),
    ],
)
def test_who_is_not_known_is_told_why_and_gets_no_cookie(api: Api, token: str, told: str) -> None:
    answer = sign_in(api, token)
    assert answer.status_code == 401
    assert told in answer.text
    assert "<script>alert" not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "next",
    ["https://evil.example/", "//evil.example", "/\\evil.example", "jobs", "/a\nSet-Cookie: x=y", "/sign-out", ""],
)
def test_nobody_is_sent_to_another_place_than_a_page(api: Api, next: str) -> None:
    assert sign_in(api, api.tokens["ann"], next=next).headers["location"] == "/"


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_another_site_signs_nobody_in(api: Api, headers: dict[str, str]) -> None:
    answer = sign_in(api, api.tokens["ann"], headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text


@pytest.mark.parametrize("word", [None, "", "0" * 32, "\u00e9"])
def test_a_change_without_the_word_of_a_page_is_refused(api: Api, word: str | None) -> None:
    job_id, headers = api.job("ann"), dict[str, Any](browser(api, "ann"))
    headers["Idempotency-Key"] = "k"
    if word is not None:
        headers[PAGE_HEADER] = word.encode()
    answer = api.ask("POST", f"/v1/jobs/{job_id}/pause", None, headers=headers)
    assert (answer.status_code, "load the page anew" in answer.json()["detail"]) == (403, True)


def test_a_page_changes_what_its_user_may_change(api: Api) -> None:
    mine, theirs, cookie = api.job("ann", "mine"), api.job("bob", "theirs"), browser(api, "ann")
    token = cookie["Cookie"].partition("=")[2]
    assert page_word(token) in api.ask("GET", f"/jobs/{mine}", None, headers=cookie).text
    headers = {**cookie, PAGE_HEADER: page_word(token), "Idempotency-Key": "k"}
    assert api.ask("POST", f"/v1/jobs/{mine}/pause", None, headers=headers).json() == {"changed": True}
    assert api.ask("POST", f"/v1/jobs/{theirs}/pause", None, headers=headers).status_code == 404


def test_who_signs_out_is_out_with_every_copy_of_the_cookie(api: Api) -> None:
    cookie = browser(api, "ann")
    headers = {**cookie, PAGE_HEADER: page_word(cookie["Cookie"].partition("=")[2])}
    assert api.ask("POST", "/sign-out", None, headers=headers).status_code == 200
    assert api.ask("GET", "/jobs", None, headers=cookie).headers["location"] == "/sign-in?next=%2Fjobs"
    assert api.ask("GET", "/v1/me", "ann").status_code == 200, "the token with which ann signed in is another one"


@pytest.mark.parametrize("cookie", ["coadapt_80=forged", "coadapt_80=", "other=x", "coadapt_80=\xff"])
def test_a_forged_cookie_opens_nothing(api: Api, cookie: str) -> None:
    headers = {"Cookie": cookie.encode("latin-1")}
    answer = api.ask("GET", "/", None, headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2F")


def test_a_page_that_asks_anew_is_told_that_its_sign_in_has_expired(api: Api) -> None:
    answer = api.ask("GET", "/jobs", None, headers={"HX-Request": "true"})
    assert answer.status_code == 401, "a redirect would put the sign-in into the page"


def test_the_audit_log_tells_who_signed_in_and_who_could_not(api: Api) -> None:
    sign_in(api, api.tokens["ann"])
    sign_in(api, "coadapt_0123456789ab_" + "A" * 43)
    rows = [row for row in api.ask("GET", "/v1/audit").json()["items"] if row["verb"] == "session.begin"]
    assert {(row["outcome"], row["detail"].get("after", {}).get("user")) for row in rows} == {
        ("done", "ann"),
        ("refused: the token is unknown; `coadapt login URL` takes a new one", None),
    }


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), (None, 200)]
)
def test_no_other_site_changes_anything_for_whom_a_proxy_vouches(api: Api, site: str | None, status: int) -> None:
    """Such a user has no cookie of ours: the proxy's own goes along with whatever the browser sends."""
    job_id = api.job("ann")
    api.app = make_app(DirectScheduler(api.service), ApiSettings(trusted_proxies=("127.0.0.1",)))
    headers = {"X-Forwarded-User": "ann"} | ({} if site is None else {"Sec-Fetch-Site": site})
    assert api.ask("POST", f"/v1/jobs/{job_id}/cancel", None, headers=headers).status_code == status
    assert api.ask("GET", f"/jobs/{job_id}", None, headers=headers).status_code == 200, "a link may lead here"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://evil.example.com", 403),
        ("null", 403),
        ("http://api", 200),
        ("https://coadapt.example.com", 200),
        (None, 200),
    ],
)
def test_a_browser_that_tells_only_an_origin_changes_nothing_for_another_site(
    api: Api, origin: str | None, status: int
) -> None:
    """Browsers leave Sec-Fetch-Site out where a page is not encrypted."""
    job_id = api.job("ann")
    settings = ApiSettings(trusted_proxies=("127.0.0.1",), public_url="https://coadapt.example.com")
    api.app = make_app(DirectScheduler(api.service), settings)
    headers = {"X-Forwarded-User": "ann"} | ({} if origin is None else {"Origin": origin})
    assert api.ask("POST", f"/v1/jobs/{job_id}/cancel", None, headers=headers).status_code == status
    assert api.ask("GET", f"/jobs/{job_id}", None, headers=headers).status_code == 200, "a link may lead here"
