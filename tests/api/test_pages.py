"""Pages of a real service: empty and busy, for each role, and with names that would like to be HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from tests.support.api import Api

PAGES = ["/", "/jobs", "/jobs?which=ended", "/jobs?which=all&name=x", "/timeline", "/rounds", "/nodes"]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def busy(api: Api) -> str:
    """Let a job train, and return its id."""
    api.world.play("submit a unprofiled\nwish a t4-000:2\ngo\nruns a\nreport a t4")
    return api.world.job("a").id


@pytest.mark.parametrize("user", ["vic", "ann", "ops"])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens_with_one_sentence_and_asks_no_other_host(api: Api, path: str, user: str) -> None:
    for _ in range(2):  # empty, then busy
        answer = api.ask("GET", path, user)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert re.search(r"<h1[^>]*>[^<]+\.</h1>", answer.text)
        assert not re.findall(r"(?:src|href|action)=\"(?:https?:)?//", answer.text)
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert not re.search(r"<script>|<style>| style=\"| on[a-z]+=\"", answer.text), (
            f"{policy} lets none of it run"
        )
        busy(api)


def test_an_empty_page_says_what_to_type(api: Api) -> None:
    assert "coadapt submit job.yaml" in api.ask("GET", "/jobs").text
    assert "No job fits" in api.ask("GET", "/jobs", params={"name": "x"}).text


def test_a_job_is_shown_with_what_may_be_done(api: Api) -> None:
    job_id = busy(api)
    page = api.ask("GET", f"/jobs/{job_id}").text
    assert "It is running on 2 t4," in page
    assert f'data-post="/v1/jobs/{job_id}/pause"' in page
    assert "It cannot be explained: AssertionError" in page, "the rest is shown where a policy fails to explain"
    assert "It saves a checkpoint first" in page
    assert 'data-post="/v1/' not in api.ask("GET", f"/jobs/{job_id}", "vic").text, "a viewer changes nothing"
    assert api.ask("GET", f"/jobs/{job_id}", "bob").status_code == 404


def test_only_operators_drain_nodes(api: Api) -> None:
    assert 'data-post="/v1/nodes/' in api.ask("GET", "/nodes").text
    assert 'data-post="/v1/nodes/' not in api.ask("GET", "/nodes", "ann").text


def test_users_see_names_of_their_own_jobs_only(api: Api) -> None:
    busy(api)
    mine = api.job("ann", "mine")
    for path in ("/", "/jobs", "/rounds"):
        page = api.ask("GET", path, "ann").text
        assert "a-1" not in page
    assert mine in api.ask("GET", "/jobs", "ann").text


HTML = "<img src=x onerror=alert(1)>"


def test_html_of_others_is_text(api: Api) -> None:
    job_id = busy(api)
    job = api.world.job("a")
    api.world.store.save(replace(job, metrics={HTML: 0.5}, traceback=HTML, quarantine=HTML))
    for path in ("/", "/jobs", f"/jobs/{job_id}", f"/jobs?name={HTML}"):
        page = api.ask("GET", path).text
        assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in api.ask("GET", f"/jobs/{job_id}").text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/jobs/nobody-9", 404),
        ("/jobs?which=some", 422),
        ("/jobs?cursor=forged", 400),
        (f"/jobs?name={'x' * 300}", 422),
    ],
)
def test_what_is_wrong_is_a_page_too(api: Api, path: str, status: int) -> None:
    answer = api.ask("GET", path)
    assert answer.status_code == status
    if answer.headers["content-type"].startswith("text/html"):
        assert re.search(r"<h1>[^<]+</h1>\s*<p>[^<]+\.</p>", answer.text)


def test_files_of_a_page_are_kept_for_good_and_others_are_not_there(api: Api) -> None:
    page = api.ask("GET", "/").text
    for address in re.findall(r"/static/[^\"]+", page):
        answer = api.ask("GET", address, None)
        assert (answer.status_code, "immutable" in answer.headers["cache-control"]) == (200, True)
    for path in (
        "/static/../pages.py",
        "/static/none.js",
        "/static/vendor/README.md",
        "/static/%2e%2e/rendering.py",
    ):
        assert api.ask("GET", path, None).status_code == 404


def test_each_button_of_a_job_does_what_it_says(api: Api) -> None:
    """A page sends what stands in its buttons, and nothing else."""
    job_id = busy(api)
    for label, status in (("Pause", "leaving"), ("Cancel job", "cancelled")):
        page = api.ask("GET", f"/jobs/{job_id}", "ops").text
        (button,) = [one for one in re.findall(r"<button[^>]*>[^<]*</button>", page) if f">{label}<" in one]
        pressed(api, button)
        assert api.ask("GET", f"/v1/jobs/{job_id}").json()["status"] == status


def test_a_paused_job_is_resumed_by_its_button(api: Api) -> None:
    job_id = api.job("ann")
    assert api.ask("POST", f"/v1/jobs/{job_id}/pause", headers={"Idempotency-Key": "p"}).status_code == 200
    page = api.ask("GET", f"/jobs/{job_id}").text
    (button,) = [one for one in re.findall(r"<button[^>]*>[^<]*</button>", page) if ">Resume<" in one]
    pressed(api, button)
    assert api.ask("GET", f"/v1/jobs/{job_id}").json()["status"] == "waiting"


def pressed(api: Api, button: str) -> None:
    """Send what the page's script sends for a button."""
    told = {name: unescape(value) for name, value in re.findall(r'data-(\w+)="([^"]*)"', button)}
    headers = {"Idempotency-Key": told["post"]} | ({"Content-Type": "application/json"} if "body" in told else {})
    answer = api.ask("POST", told["post"], headers=headers, content=told.get("body", "").encode())
    assert answer.status_code == 200, answer.text


def test_the_form_for_a_fork_is_there_before_a_job_has_a_checkpoint(api: Api) -> None:
    """A page that is open when the first step comes gets the button by itself, but not the form."""
    job_id = api.job("ann")
    page = api.ask("GET", f"/jobs/{job_id}", "ann").text
    assert '<dialog id="fork"' in page
    assert 'data-open="fork"' not in page
    assert '<dialog id="fork"' not in api.ask("GET", f"/jobs/{job_id}", "vic").text


def test_a_job_outside_of_rounds_shows_no_options_of_an_old_one(api: Api) -> None:
    job_id = api.job("ann")
    assert api.ask("POST", f"/v1/jobs/{job_id}/pause", headers={"Idempotency-Key": "p"}).status_code == 200
    assert 'class="grid"' not in api.ask("GET", f"/jobs/{job_id}").text
