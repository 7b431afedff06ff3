"""Many clients of an API at once: submits, pages of lists, streams of events, followed logs, open browsers.

    python -m benchmarks.months.clients URL PLAN < TOKEN

Prints one line of JSON: seconds that requests took, and seconds from an event's moment to its arrival.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import httpx

from .many_jobs import SPEC

WAIT_S = 60.0
PAGES = ("/", "/jobs", "/timeline", "/rounds", "/teams")
PAGE_EVERY_S = 1.0  # a page asks for itself at most so often, as `dashboard/static/page.js` does


@dataclass(frozen=True)
class Plan:
    """What clients do for some seconds. `logs`: jobs whose logs are followed. `pages`: open in browsers."""

    seconds: float = 60.0
    submits_per_s: float = 10.0
    lists_per_s: float = 20.0
    streams: int = 100
    pages: int = 0
    logs: tuple[str, ...] = ()
    package: str = ""


@dataclass
class Found:
    """What they found. Each list of `_s` holds seconds. `followed`: logs that were followed."""

    submit_s: list[float] = field(default_factory=list)
    list_s: list[float] = field(default_factory=list)
    event_s: list[float] = field(default_factory=list)
    page_s: list[float] = field(default_factory=list)
    followed: int = 0
    submitted: list[str] = field(default_factory=list)
    failed: dict[str, int] = field(default_factory=dict)


class Clients:
    """Clients of one API for the time of a plan."""

    def __init__(self, url: str, token: str, plan: Plan) -> None:
        self._plan, self.found = plan, Found()
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._http = httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {token}"}, limits=limits, timeout=WAIT_S
        )
        self._random = random.Random(0)

    async def run(self) -> None:
        """Do what the plan says."""
        plan = self._plan
        streams = [asyncio.create_task(self._stream(at)) for at in range(plan.streams)]
        logs = [asyncio.create_task(self._log(job_id)) for job_id in plan.logs]
        pages = [asyncio.create_task(self._page(PAGES[at % len(PAGES)])) for at in range(plan.pages)]
        await asyncio.sleep(1.0)  # streams stand before there is something to send
        await asyncio.gather(
            self._often(plan.submits_per_s, self._submit),
            self._often(plan.lists_per_s, self._list),
            asyncio.sleep(plan.seconds),
        )
        for task in [*streams, *logs, *pages]:
            task.cancel()
        await asyncio.gather(*streams, *logs, *pages, return_exceptions=True)
        await self._http.aclose()

    async def _often(self, per_s: float, work: Callable[[], Awaitable[None]]) -> None:
        """Begin a piece of work so often a second, however long each takes."""
        if not per_s:
            return
        began_s, tasks, count = time.monotonic(), set[asyncio.Task[None]](), 0
        while (now_s := time.monotonic() - began_s) < self._plan.seconds:
            while count < now_s * per_s:
                count += 1
                task = asyncio.ensure_future(self._try(work))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            await asyncio.sleep(1 / per_s / 2)
        await asyncio.gather(*tasks)

    async def _try(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (httpx.HTTPError, KeyError, ValueError) as error:
            self._fail(type(error).__name__)

    def _fail(self, what: str) -> None:
        self.found.failed[what] = self.found.failed.get(what, 0) + 1

    async def _submit(self) -> None:
        body = {"spec": SPEC, "package": self._plan.package}
        began_s = time.monotonic()
        answer = await self._http.post("/v1/jobs", json=body, headers={"Idempotency-Key": uuid.uuid4().hex})
        self.found.submit_s.append(time.monotonic() - began_s)
        if answer.status_code != 201:
            self._fail(f"submit {answer.status_code}")
            return
        self.found.submitted.append(answer.json()["id"])

    async def _list(self) -> None:
        parameters: dict[str, Any] = {"limit": 100}
        if self._random.random() < 0.5:
            parameters["phase"] = self._random.choice(["running", "queued", "succeeded"])
        began_s = time.monotonic()
        answer = await self._http.get("/v1/jobs", params=parameters)
        self.found.list_s.append(time.monotonic() - began_s)
        if answer.status_code != 200 or not answer.json()["items"]:
            self._fail(f"list {answer.status_code}")

    async def _stream(self, at: int) -> None:
        async with self._http.stream("GET", "/v1/events", timeout=httpx.Timeout(WAIT_S, read=None)) as answer:
            async for line in answer.aiter_lines():
                # Each stream reads all events; one of ten looks into them, as its clients share one core here.
                if at % 10 == 0 and line.startswith("data: "):
                    self.found.event_s.append(time.time() - json.loads(line[6:])["time_s"])

    async def _page(self, path: str) -> None:
        """Be a browser with an open page: it listens, and asks for the page anew when something changed."""
        changed = asyncio.Event()
        anew = asyncio.create_task(self._anew(path, changed))
        try:
            async with self._http.stream("GET", "/v1/events", timeout=httpx.Timeout(WAIT_S, read=None)) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        changed.set()
        finally:
            anew.cancel()

    async def _anew(self, path: str, changed: asyncio.Event) -> None:
        while await changed.wait():
            changed.clear()
            began_s = time.monotonic()
            answer = await self._http.get(path)
            self.found.page_s.append(time.monotonic() - began_s)
            if answer.status_code != 200 or "</main>" not in answer.text:
                self._fail(f"page {path} {answer.status_code}")
            await asyncio.sleep(PAGE_EVERY_S)

    async def _log(self, job_id: str) -> None:
        path, patience = f"/v1/jobs/{job_id}/logs", httpx.Timeout(WAIT_S, read=None)
        async with self._http.stream("GET", path, params={"follow": "true"}, timeout=patience) as answer:
            self.found.followed += answer.status_code == 200
            async for _ in answer.aiter_lines():
                pass


def main() -> None:
    url, plan = sys.argv[1], Plan(**json.loads(sys.argv[2]))
    clients = Clients(url, sys.stdin.read().strip(), plan)
    asyncio.run(clients.run())
    print(json.dumps(asdict(clients.found)))


if __name__ == "__main__":
    main()
