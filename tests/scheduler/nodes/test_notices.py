"""What each cloud says before it takes a node away is understood, and nothing else is taken for it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from coadapt.core.cloud import Cloud
from coadapt.core.settings import Settings
from coadapt.scheduler.nodes import metadata
from coadapt.scheduler.nodes.metadata import MetadataService
from coadapt.scheduler.nodes.notice_listener import NoticeListener
from coadapt.scheduler.nodes.notices import MetadataError, Notice, of_aws, of_azure, of_gcp
from coadapt.scheduler.runtime.clock import SystemClock
from pydantic import ValidationError

from tests.support.metadata_server import MetadataServer, serving, soon

AT_S = 1_800_000_000.0  # 2027-01-15 08:00:00 UTC
Ask = Callable[[], Notice | None]


def events(*told: dict[str, object]) -> str:
    return json.dumps({"DocumentIncarnation": 3, "Events": list(told)})


def event(kind: str, not_before: str, *machines: str) -> dict[str, object]:
    return {"EventType": kind, "NotBefore": not_before, "Resources": list(machines)}


IN_A_MINUTE = "Fri, 15 Jan 2027 08:01:00 GMT"
SAID: dict[str, tuple[Ask, Notice | None]] = {
    "aws: nothing": (lambda: of_aws(404, "", AT_S), None),
    "aws: in two minutes": (
        lambda: of_aws(200, '{"action": "stop", "time": "2027-01-15T08:02:00Z"}', AT_S),
        Notice("spot notice of aws (stop)", 120.0),
    ),
    "aws: a time that has passed": (
        lambda: of_aws(200, '{"action": "terminate", "time": "2027-01-15T07:59:00Z"}', AT_S),
        Notice("spot notice of aws (terminate)", 0.0),
    ),
    "gcp: nothing": (lambda: of_gcp(200, "FALSE\n", 0.0), None),
    "gcp: since 4 s": (lambda: of_gcp(200, "TRUE", 4.0), Notice("preemption notice of gcp", 26.0)),
    "azure: nothing": (lambda: of_azure(200, events(), "vm1", AT_S), None),
    "azure: another machine": (
        lambda: of_azure(200, events(event("Preempt", IN_A_MINUTE, "vm2")), "vm1", AT_S),
        None,
    ),
    "azure: a freeze": (lambda: of_azure(200, events(event("Freeze", IN_A_MINUTE, "vm1")), "vm1", AT_S), None),
    "azure: the first of two": (
        lambda: of_azure(
            200, events(event("Redeploy", IN_A_MINUTE, "vm1"), event("Preempt", "", "vm1")), "vm1", AT_S
        ),
        Notice("scheduled event of azure (Preempt)", 0.0),
    ),
    "azure: a reboot": (
        lambda: of_azure(200, events(event("Reboot", IN_A_MINUTE, "vm0", "vm1")), "vm1", AT_S),
        Notice("scheduled event of azure (Reboot)", 60.0),
    ),
}


@pytest.mark.parametrize(("ask", "expected"), SAID.values(), ids=SAID)
def test_what_a_cloud_says(ask: Ask, expected: Notice | None) -> None:
    assert ask() == expected


REFUSED: dict[str, tuple[Ask, str]] = {
    "aws: a page": (lambda: of_aws(200, "<html>", AT_S), "aws: its answer is not JSON: '<html>'"),
    "aws: no time": (lambda: of_aws(200, "{}", AT_S), "aws: its notice has no time: '{}'"),
    "aws: an error": (lambda: of_aws(500, "", AT_S), "aws: it answers with status 500"),
    "gcp: a page": (lambda: of_gcp(200, "<html>", 0.0), "gcp: it says neither TRUE nor FALSE: '<html>'"),
    "azure: a list": (lambda: of_azure(200, "[]", "", AT_S), "azure: its answer is no object: '[]'"),
    "azure: no moment": (
        lambda: of_azure(200, events(event("Reboot", "soon", "vm1")), "vm1", AT_S),
        "azure: NotBefore is no moment: 'soon'",
    ),
}


@pytest.mark.parametrize(("ask", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_answer_is_told_in_one_sentence(ask: Ask, sentence: str) -> None:
    with pytest.raises(MetadataError) as raised:
        ask()
    assert str(raised.value) == sentence


def service(server: MetadataServer, machine: str, cloud: Cloud | None = None) -> MetadataService:
    return MetadataService(cloud or server.cloud, SystemClock(), server.url.replace("{machine}", machine))


@pytest.mark.parametrize("cloud", [Cloud.AWS, Cloud.GCP, Cloud.AZURE])
def test_a_machine_hears_its_own_notice_and_finds_out_which_cloud_it_is_in(cloud: Cloud) -> None:
    with serving(cloud) as server:
        mine, other, found_out = (
            service(server, "m1"),
            service(server, "m2"),
            service(server, "m1", Cloud.AUTO),
        )
        assert [mine.ask(), other.ask(), found_out.ask()] == [None, None, None]
        server.going_s["m1"] = soon(30)
        heard = mine.ask()
        assert heard is not None
        assert 25 <= heard.left_s <= 31
        assert cloud.value in heard.what
        assert found_out.ask() is not None
        assert other.ask() is None


def test_a_cloud_that_does_not_answer_is_told_and_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "TIMEOUT_S", 0.2)
    with serving(Cloud.GCP) as server:
        with pytest.raises(MetadataError, match="aws: it gives no token, with status 404"):
            service(server, "m1", Cloud.AWS).ask()
        url = server.url
    listener = NoticeListener("gcp", url, 0.1)
    heard = listener.heard(0, 30.0)
    assert (heard.number, heard.notice) == (1, None)
    assert heard.trouble


def test_a_listener_tells_a_notice_when_it_comes_and_when_it_is_withdrawn() -> None:
    with serving(Cloud.AWS) as server:
        listener = NoticeListener("aws", server.url.replace("{machine}", "m1"), 0.1)
        first = listener.heard(0, 30.0)
        assert first.notice is None
        server.going_s["m1"] = soon(120)
        second = listener.heard(first.number, 30.0)
        assert second.notice is not None
        assert second.notice[1] == pytest.approx(120, abs=5)
        server.going_s.clear()
        assert listener.heard(second.number, 30.0).notice is None
        assert server.asked.count("/latest/api/token") == 1


@pytest.mark.parametrize("url", ["169.254.169.254", "ftp://x", "http://a b"])
def test_the_url_of_a_metadata_service_is_one_of_http(url: str) -> None:
    with pytest.raises(ValidationError):
        Settings(metadata_url=url)
    assert Settings().cloud is Cloud.NONE, "by default nobody is asked"
