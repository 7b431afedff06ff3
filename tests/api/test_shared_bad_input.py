"""What may be sent to a shared cluster by mistake or in bad faith: each gets one sentence, and nothing is changed.

A table has what programs send; below it stands what browsers do. Two lines take time, and so stand where time is
played: a state that changes while what-if works is in `test_whatif.py`, and a node that never comes in
`tests/scheduler/scaling/test_control.py`.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from coadapt.api.serve import Server
from coadapt.api.sessions import PAGE_HEADER, page_word
from coadapt.core.api_settings import ApiSettings

from tests.support.api import Api
from tests.support.bad_service_input import Way, answer
from tests.support.bad_shared_input import BAD_SHARED_INPUT


@pytest.mark.parametrize(("what", "way", "sentence"), BAD_SHARED_INPUT, ids=[row[0] for row in BAD_SHARED_INPUT])
def test_it_is_refused_in_one_sentence(tmp_path: Path, what: str, way: Way, sentence: str) -> None:
    told = answer(way, tmp_path)
    assert told.startswith(sentence), what
    assert "\n" not in told


# --- what browsers send ---------------------------------------------------------------------------------------

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HTML = "<img src=x onerror=alert(1)>"


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def browser(api: Api, user: str = "ann") -> dict[str, str]:
    """Return the headers of a page that a user has opened, for a change."""
    answer = api.ask("POST", "/sign-in", None, data={"token": api.tokens[user]}, headers=FORM)
    ((name, value),) = answer.cookies.items()
    return {"Cookie": f"{name}={value}", PAGE_HEADER: page_word(value), "Idempotency-Key": "k"}


def forged(api: Api, job: str) -> httpx.Response:
    headers = {**browser(api), "Cookie": "coadapt_80=coadapt_0123456789ab_" + "A" * 43}
    headers[PAGE_HEADER] = page_word("coadapt_0123456789ab_" + "A" * 43)
    return api.ask("POST", f"/v1/jobs/{job}/pause", None, headers=headers)


def used_key(api: Api, job: str) -> httpx.Response:
    key = api.ask("POST", "/v1/page-keys", "ann").json()["key"]
    for _ in range(2):
        answer = api.ask("POST", "/sign-in", None, data={"token": key}, headers=FORM)
    return answer


def no_word(api: Api, job: str) -> httpx.Response:
    headers = browser(api)
    del headers[PAGE_HEADER]
    return api.ask("POST", f"/v1/jobs/{job}/pause", None, headers=headers)


def expired(api: Api, job: str) -> httpx.Response:
    headers = browser(api)
    mine = [row["id"] for row in api.ask("GET", "/v1/tokens", "ann").json() if row["label"] == "browser"]
    assert api.ask("DELETE", f"/v1/tokens/{mine[0]}", "ann").status_code == 200
    body = {"name": "what-was-typed"}
    return api.ask("POST", f"/v1/jobs/{job}/fork", None, headers=headers, json=body)


def deleted(api: Api, job: str) -> httpx.Response:
    return api.ask("GET", "/jobs/gone-77", None, headers={**browser(api), "HX-Request": "true"})


def long_filter(api: Api, job: str) -> httpx.Response:
    return api.ask("GET", "/jobs", params={"name": "x" * 60_000})


def long_word(api: Api, job: str) -> httpx.Response:
    return api.ask("GET", "/jobs", params={"which": HTML * 1000})


def far_round(api: Api, job: str) -> httpx.Response:
    return api.ask("GET", f"/jobs/{job}", params={"round": "10" * 30})


def no_number(api: Api, job: str) -> httpx.Response:
    return api.ask("GET", f"/jobs/{job}", params={"at": "nan"})


@pytest.mark.parametrize(
    ("sends", "status", "told"),
    [
        (forged, 401, "the token is unknown"),
        (used_key, 401, "this key was used"),
        (no_word, 403, "load the page anew"),
        (expired, 401, "was revoked"),
        (deleted, 404, "no job gone-77"),
        (long_filter, 422, "name: "),
        (long_word, 422, "which: "),
        (far_round, 422, "round: "),
        (no_number, 422, "at: "),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_it_is_told_in_one_sentence_and_changes_nothing(api: Api, sends: Any, status: int, told: str) -> None:
    job = api.job("ann", "mine")
    told_by = sends(api, job)
    assert told_by.status_code == status
    if told_by.headers["content-type"].startswith("text/html"):
        (sentence,) = re.findall(r"(?:<p class=\"alert\" role=\"alert\">|<p>)([^<]+)</p>", told_by.text)[:1]
    else:
        sentence = told_by.json()["detail"]
    assert told in sentence
    assert len(sentence) < 500, "what was sent is not repeated at length"
    assert HTML not in told_by.text
    assert [row["status"] for row in api.ask("GET", "/v1/jobs").json()["items"]] == ["waiting"]


def test_an_address_of_a_megabyte_ends_no_server(api: Api) -> None:
    server = Server(api.app, ApiSettings(), 0)
    try:
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.port}/jobs?name={'x' * 1_000_000}",
            headers={"Authorization": f"Bearer {api.tokens['ops']}"},
        )
        with pytest.raises(urllib.error.HTTPError) as raised:
            urllib.request.urlopen(request, timeout=30)
        assert 400 <= raised.value.code < 500
        fine = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=30)
        assert fine.status == 200
    finally:
        server.stop()


def test_html_in_what_jobs_tell_is_text_on_every_page(api: Api) -> None:
    api.world.play("submit a unprofiled\nwish a t4-000:2\ngo\nruns a\nreport a t4")
    job = api.world.job("a")
    state = replace(job.state, reason=HTML)
    api.world.store.save(replace(job, metrics={HTML: 0.5}, traceback=HTML, quarantine=HTML, state=state))
    folder = api.world.settings.log_dir(job.id)
    folder.mkdir(parents=True)
    (folder / "rank-0.log").write_text(f"{HTML}\n")
    for path in ("/", "/jobs", f"/jobs/{job.id}", "/rounds", "/audit", "/tokens", f"/jobs?name={HTML}"):
        assert "<img src=x" not in api.ask("GET", path).text, path
    refused = api.ask("POST", f"/v1/jobs/{job.id}/fork", json={"name": HTML}, headers={"Idempotency-Key": "k"})
    assert refused.status_code in (409, 422), "no job is called so"
    for path in (f"/v1/jobs/{job.id}/metrics", f"/v1/jobs/{job.id}/logs"):
        assert api.ask("GET", path).headers["content-type"] == "application/json", "no browser takes it for a page"
