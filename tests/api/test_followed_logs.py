"""A job's output can be followed from any machine, until the job ends, over whatever breaks meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from coadapt.api import log_routes, streams
from coadapt.api.serve import Server
from coadapt.client.client import Client
from coadapt.client.event_stream import ServerEvent, parsed
from coadapt.client.http_api import AccessError, HttpApi, RequestError, UnknownJobError
from coadapt.core.api_settings import ApiSettings
from coadapt.core.events import EventKind
from coadapt.scheduler.store.events import Event

from tests.support.api import Api

LONG_S = 30.0


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(log_routes, "FIRST_LOOK_S", 0.01)
    monkeypatch.setattr(log_routes, "LONGEST_LOOK_S", 0.02)
    api = Api(tmp_path)
    yield api
    api.world.store.close()


@pytest.fixture
def server(api: Api) -> Iterator[Server]:
    server = Server(api.app, ApiSettings(), 0)
    yield server
    server.stop()


def client_of(api: Api, server: Server, user: str = "ann") -> Client:
    return Client(HttpApi(f"http://127.0.0.1:{server.port}", api.tokens[user], 5.0))


def written(api: Api, job_id: str, text: str, source: str = "rank-0") -> None:
    folder = api.world.settings.log_dir(job_id)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{source}.log").open("a") as file:
        file.write(text)


def test_output_comes_as_it_is_written_and_the_end_is_told(api: Api, server: Server) -> None:
    job_id = api.job("ann")
    written(api, job_id, "one\ntwo\n")
    found = client_of(api, server).logs(job_id, follow=True, tail=1)
    assert next(found) == "two\n"
    written(api, job_id, "three\n")
    assert next(found) == "three\n"
    api.world.cycle.orders.cancel(job_id)
    assert list(found) == []
    end = list(client_of(api, server)._api.stream(f"/v1/jobs/{job_id}/logs", follow="true"))[-1]
    assert (end.kind, end.data["phase"], end.data["reason"]) == ("end", "cancelled", "cancelled by the user")


def test_a_stream_that_breaks_off_goes_on_without_a_gap(api: Api, server: Server) -> None:
    job_id = api.job("ann")
    written(api, job_id, "one\n")
    client = client_of(api, server)
    found = client.logs(job_id, follow=True)
    assert next(found) == "one\n"
    port = server.port
    server.stop()
    written(api, job_id, "two\n")
    again = Server(api.app, ApiSettings(), port)
    try:
        assert next(found) == "two\n"
        api.world.cycle.orders.cancel(job_id)
        assert list(found) == []
    finally:
        again.stop()


def test_who_may_not_read_any_more_is_let_go(api: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "CHECK_S", 0.0)
    job_id = api.job("ann")
    written(api, job_id, "one\n")
    found = client_of(api, server).logs(job_id, follow=True)
    assert next(found) == "one\n"
    api.service.put_user("ann", "user", True)
    api.app.state.context.forget_tokens()
    with pytest.raises(AccessError, match="the user ann is disabled"):
        next(found)


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        ({"rank": "99"}, 422, "rank: 99 is more than {job} can have; its ranks are 0 to 63"),
        ({"rank": "9"}, 404, "rank: {job} has no output of rank 9; there is output of rank-0"),
        ({"rank": "-1"}, 422, "rank: -1 is not a rank, 0 or more, or all"),
        ({"rank": "first"}, 422, "rank: first is not a rank, 0 or more, or all"),
        ({"tail": "-1"}, 422, "tail: "),
        ({"tail": "many"}, 422, "tail: "),
        ({"last_s": "-5"}, 422, "last_s: "),
        ({"last_s": "nan"}, 422, "last_s: "),
        ({"offset": "-1"}, 422, "offset: "),
        ({"follow": "perhaps"}, 422, "follow: "),
    ],
    ids=str,
)
@pytest.mark.parametrize("follow", ["false", "true"])
def test_what_cannot_be_asked_of_logs_is_one_sentence(
    api: Api, asked: dict[str, Any], status: int, told: str, follow: str
) -> None:
    job_id = api.job("ann")
    written(api, job_id, "one\n")
    api.world.cycle.orders.cancel(job_id)
    if asked == {"rank": "9"} and follow == "true":
        return  # a job may still grow; the next test follows one that has ended
    answer = api.ask("GET", f"/v1/jobs/{job_id}/logs", "ann", params={"follow": follow, **asked})
    assert answer.status_code == status, answer.text
    assert answer.json()["detail"].startswith(told.format(job=job_id))
    assert "\n" not in answer.json()["detail"]


def test_a_job_that_has_ended_is_followed_to_its_end_at_once(api: Api, server: Server) -> None:
    job_id = api.job("ann")
    api.world.cycle.orders.cancel(job_id)
    client = client_of(api, server)
    assert list(client.logs(job_id, follow=True, rank=9)) == []
    with pytest.raises(UnknownJobError, match="no job gone-9"):
        list(client.logs("gone-9", follow=True))
    with pytest.raises(UnknownJobError, match=f"no job {job_id}"):
        list(client_of(api, server, "bob").logs(job_id, follow=True))


def test_a_place_that_is_none_is_refused(api: Api) -> None:
    job_id = api.job("ann")
    answer = api.ask(
        "GET", f"/v1/jobs/{job_id}/logs", "ann", params={"follow": "true"}, headers={"Last-Event-ID": "x"}
    )
    assert answer.json()["detail"] == "Last-Event-ID: x is not the offset of an earlier part"


def test_newest_lines_come_without_follow_too(api: Api, server: Server) -> None:
    job_id = api.job("ann")
    written(api, job_id, "one\ntwo\nthree\n")
    assert "".join(client_of(api, server).logs(job_id, tail=2)) == "two\nthree\n"
    assert (
        api.ask("GET", f"/v1/jobs/{job_id}/logs", "ann", params={"rank": "0"}).json()["text"]
        == "one\ntwo\nthree\n"
    )


# --- events -------------------------------------------------------------------------------------------------


def noted(api: Api, job_id: str | None, text: str, kind: EventKind = EventKind.ERROR) -> None:
    api.world.store.log(Event(kind, api.world.clock.steady_s(), job_id, {"text": text}))


def test_events_are_chosen_by_job_kind_and_time(api: Api, server: Server) -> None:
    mine, theirs = api.job("ann", "m"), api.job("bob", "t")
    noted(api, mine, "early")
    noted(api, None, "a plan", EventKind.PLAN)
    api.world.clock.forward(100)
    noted(api, mine, "late")
    noted(api, theirs, "of bob")
    client = client_of(api, server)
    assert [event["text"] for event in client.events(kinds=["error"])] == ["early", "late"]
    assert [event["text"] for event in client.events(mine, last=1)] == ["late"]
    since_s = api.world.clock.wall_s() - 10
    assert [event["text"] for event in client.events(since_s=since_s)] == ["late"]
    assert "plan" not in {event["kind"] for event in client.events()}
    assert [event["kind"] for event in client.events(kinds=["plan"])] == ["plan"]
    assert {event["job_id"] for event in client_of(api, server, "ops").events()} == {mine, theirs}
    with pytest.raises(RequestError, match="kind: nonsense is not one of submitted, admitted"):
        client.events(kinds=["nonsense"])
    with pytest.raises(UnknownJobError, match=f"no job {theirs}"):
        client.events(theirs)


def test_events_are_followed_from_one_on(api: Api, server: Server) -> None:
    mine, other = api.job("ann", "m"), api.job("ann", "o")
    last = client_of(api, server).events()[-1]["number"]
    found = client_of(api, server).follow_events(mine, after=last, kinds=["error"])
    seen: list[str] = []
    reading = threading.Thread(target=lambda: seen.extend(next(found)["text"] for _ in range(2)), daemon=True)
    reading.start()
    for at in range(2):
        noted(api, other, "not asked for")
        noted(api, mine, f"no {at}")
    reading.join(LONG_S)
    assert seen == ["no 0", "no 1"]


def test_a_stream_is_read_however_it_is_cut() -> None:
    whole = b': quiet\n\nid: 7\nevent: text\ndata: {"a": 1}\n\nevent: end\ndata: {}\n\nevent: text\ndata: {"to'
    told = [ServerEvent("text", {"a": 1}, "7"), ServerEvent("end", {}, "7")]
    for size in (1, 2, 5, len(whole)):
        chunks = [whole[at : at + size] for at in range(0, len(whole), size)]
        assert list(parsed(chunks)) == told
