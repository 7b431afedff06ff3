"""Events reach their readers in order, once each, whoever else reads slowly or comes back later."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from coadapt.api import feed
from coadapt.api.context import Context
from coadapt.api.feed import Feed
from coadapt.api.serve import Server
from coadapt.core.api_settings import ApiSettings
from coadapt.core.errors import StateError
from coadapt.core.events import EventKind
from coadapt.scheduler.store.events import Event

from tests.support.api import Api, DirectScheduler

LONG_S = 30.0


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    api = Api(tmp_path)
    yield api
    api.world.store.close()


def told(api: Api, count: int, job_id: str | None = None) -> None:
    for n in range(count):
        api.world.store.log(Event(EventKind.ERROR, float(n), job_id, {"text": f"no {n}"}))


async def numbers(follow: feed.AsyncIterator[list[feed.Event]], most: int) -> list[int]:
    found = list[int]()
    async for events in follow:
        found += [event["number"] for event in events]
        if len(found) >= most:
            break
    return found


def test_a_reader_gets_what_it_missed_and_what_comes(api: Api) -> None:
    told(api, 3)
    shared = Feed(DirectScheduler(api.service))

    async def read() -> list[int]:
        reading = asyncio.create_task(numbers(shared.follow(1), 7))
        await asyncio.sleep(0)
        told(api, 5)
        return await asyncio.wait_for(reading, LONG_S)

    assert asyncio.run(read()) == list(range(2, 9))


def test_a_slow_reader_loses_nothing_and_delays_no_other(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MOST_WAITING", 4)
    monkeypatch.setattr(feed, "POLL_S", 0.01)
    shared = Feed(DirectScheduler(api.service))

    async def read() -> tuple[list[int], list[int]]:
        slow = shared.follow(0)
        told(api, 1)
        first = await numbers(slow, 1)
        fast = asyncio.create_task(numbers(shared.follow(0), 41))
        await asyncio.sleep(0)
        told(api, 40)
        quick = await asyncio.wait_for(fast, LONG_S)
        return quick, first + await numbers(slow, 40)

    quick, late = asyncio.run(read())
    assert quick == list(range(1, 42))
    assert late == list(range(1, 42))


def test_a_stream_goes_on_from_the_last_event_and_shows_only_ones_own_jobs(api: Api) -> None:
    mine, theirs = api.job("ann", "m"), api.job("bob", "t")
    server = Server(api.app, ApiSettings(), 0)
    headers = {"Authorization": f"Bearer {api.tokens['ann']}", "Last-Event-ID": "0"}
    try:
        with httpx.stream(
            "GET", f"http://127.0.0.1:{server.port}/v1/events", headers=headers, timeout=LONG_S
        ) as got:
            lines = got.iter_lines()
            assert got.headers["content-type"].startswith("text/event-stream")
            told(api, 1, theirs)
            told(api, 1, mine)
            seen = list[dict[str, object]]()
            for line in lines:
                if line.startswith("data: "):
                    seen.append(json.loads(line.removeprefix("data: ")))
                if len(seen) == 2:
                    break
    finally:
        server.stop()
    assert [(event["job_id"], event["kind"]) for event in seen] == [(mine, "submitted"), (mine, "error")]
    assert [event["number"] for event in seen] == [1, 4]


def test_a_user_who_follows_reads_no_names_of_others_jobs_in_what_the_cluster_tells(api: Api) -> None:
    theirs = api.job("ann", "theirs")
    api.world.store.log(Event(EventKind.ERROR, 0.0, None, {"text": f"the policy failed over {theirs}: a secret"}))
    api.world.store.log(Event(EventKind.POWER, 0.0, None, {"text": f"m0 stays on: {theirs} is there"}))

    def followed(user: str) -> list[dict[str, Any]]:
        server = Server(api.app, ApiSettings(), 0)
        headers = {"Authorization": f"Bearer {api.tokens[user]}", "Last-Event-ID": "1"}
        url = f"http://127.0.0.1:{server.port}/v1/events"
        try:
            with httpx.stream("GET", url, headers=headers, timeout=LONG_S) as got:
                lines = (line for line in got.iter_lines() if line.startswith("data: "))
                return [json.loads(next(lines).removeprefix("data: ")) for _ in range(2)]
        finally:
            server.stop()

    seen = followed("bob")
    assert [event["text"] for event in seen] == [
        "the policy failed over a job; operators see why",
        "m0 stays on: a job is there",
    ]
    assert set(seen[0]) == {"number", "time_s", "kind", "text", "job_id", "who"}
    seen = followed("ops")
    assert [event["text"] for event in seen] == [
        f"the policy failed over {theirs}: a secret",
        f"m0 stays on: {theirs} is there",
    ]


class Away(DirectScheduler):
    """A scheduler that is away at first. `asked`: methods that were answered. `refused`: calls that were not."""

    def __init__(self, api: Api) -> None:
        super().__init__(api.service)
        self.is_back, self.refused, self.asked = False, 0, list[str]()
        self.tried = asyncio.Event()

    async def call(self, method: str, *args: Any) -> Any:
        await asyncio.sleep(0)
        if not self.is_back:
            self.refused += 1
            if self.refused > 4:
                self.tried.set()
            raise StateError("the scheduler does not answer now: it starts")
        self.asked.append(method)
        return await super().call(method, *args)


def test_a_feed_starts_when_the_scheduler_is_back_that_was_away_as_its_first_reader_came(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "POLL_S", 0.01)
    told(api, 3)

    async def read() -> list[int]:
        scheduler = Away(api)
        shared = Feed(scheduler)
        reading = asyncio.create_task(numbers(shared.follow(1), 4))
        await asyncio.wait_for(scheduler.tried.wait(), LONG_S)
        scheduler.is_back = True
        while "last_event" not in scheduler.asked:  # the feed runs: further events come by it
            await asyncio.sleep(0)
        told(api, 2)
        return await asyncio.wait_for(reading, LONG_S)

    assert asyncio.run(read()) == [2, 3, 4, 5]


def test_a_reader_hears_that_its_connection_is_alive_while_the_scheduler_is_away(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "POLL_S", 0.01)
    monkeypatch.setattr(feed, "QUIET_S", 0.02)

    async def read() -> list[feed.Event]:
        return await asyncio.wait_for(anext(aiter(Feed(Away(api)).follow(0))), LONG_S)

    assert asyncio.run(read()) == []


def test_whose_a_new_job_is_is_asked_once_though_who_asked_first_goes_away(api: Api) -> None:
    job_id = api.job("ann")

    async def ask() -> tuple[list[tuple[str, str]], list[str]]:
        scheduler = Away(api)
        scheduler.is_back = True
        shared = Context(scheduler, ApiSettings())
        first = asyncio.create_task(shared.whose(job_id))
        await asyncio.sleep(0)  # it has begun to ask
        others = [asyncio.create_task(shared.whose(job_id)) for _ in range(5)]
        first.cancel()
        await asyncio.sleep(0)
        late = asyncio.create_task(shared.whose(job_id))
        return [*(await asyncio.gather(*others)), await late], scheduler.asked

    owners, asked = asyncio.run(ask())
    assert set(owners) == {("ann", "")}
    assert asked == ["whose"]


def test_whose_an_unknown_job_is_can_be_asked_again(api: Api) -> None:
    async def ask() -> tuple[str, str]:
        scheduler = Away(api)
        shared = Context(scheduler, ApiSettings())
        with pytest.raises(StateError):
            await shared.whose("a-1")
        scheduler.is_back = True
        with pytest.raises(KeyError):
            await shared.whose("a-1")
        api.job("ann")
        return await shared.whose("a-1")

    assert asyncio.run(ask()) == ("ann", "")
