"""How fast pages come, change and move, and what they hold: with very many jobs."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from .browser import Seen, person
from .flows import Api
from .subject import Subject

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOADS, CHANGES, EVENTS = 20, 7, 50_000
MOVING_S = 4.0
PATIENCE_MS = 60_000
PAINT = """() => new Promise((done) => {
  const look = (list) => list.getEntriesByName("first-contentful-paint").forEach((one) => done(one.startTime));
  new PerformanceObserver(look).observe({ type: "paint", buffered: true });
})"""
MOVES = """async ([seconds]) => {
  const place = document.getElementById("timeline"), keys = ["+", "ArrowRight", "-", "ArrowLeft"];
  let frames = 0, at = 0;
  const begin = performance.now();
  while (performance.now() - begin < seconds * 1000) {
    place.dispatchEvent(new KeyboardEvent("keydown", { key: keys[Math.floor(at++ / 20) % 4], bubbles: true }));
    place.scrollTop = (at * 37) % (place.scrollHeight - place.clientHeight);
    await new Promise((done) => requestAnimationFrame(done));
    frames += 1;
  }
  return frames / ((performance.now() - begin) / 1000);
}"""


def figures(browser: Browser, subject: Subject, events: int = EVENTS) -> dict[str, float]:
    """Return all figures of one cluster with very many jobs."""
    seen = Seen()
    with person(browser, subject.url, subject.tokens["ops"], seen=seen) as window:
        state = window.storage_state()
    paint_s, kib = first_loads(browser, subject.url, state)
    found = {"first_paint_s": round(paint_s, 3), "first_load_kib": round(kib, 1)}
    with person(browser, subject.url, subject.tokens["ops"], seen=seen) as window:
        page = window.new_page()
        found["event_on_page_s"] = round(event_on_page_s(page, subject), 3)
        found["frames_per_s"] = round(frames_per_s(page, subject.url), 1)
        found["heap_growth_mib"] = round(heap_growth_mib(page, subject, events), 2)
    return found | {"asked_hosts": float(len(seen.hosts))}


def first_loads(browser: Browser, url: str, state: Any) -> tuple[float, float]:
    """Return the worse page's median seconds to the first paint, and the most KiB of a first load.

    Each load is a browser's first: nothing is kept of the one before but the sign-in.
    """
    medians, most = [], 0.0
    for path in ("/", "/jobs"):
        paints = []
        for _ in range(LOADS):
            context = browser.new_context(storage_state=state, viewport={"width": 1280, "height": 860})
            page = context.new_page()
            told = context.new_cdp_session(page)
            told.send("Network.enable")
            sizes: list[float] = []
            told.on("Network.loadingFinished", lambda event, sizes=sizes: sizes.append(event["encodedDataLength"]))
            page.goto(f"{url}{path}", wait_until="load")
            paints.append(float(page.evaluate(PAINT)) / 1e3)
            most = max(most, sum(sizes) / 1024)
            context.close()
        medians.append(statistics.median(paints))
    return max(medians), most


def event_on_page_s(page: Page, subject: Subject) -> float:
    """Return the median seconds from a change, as the API answers it, until an open page shows it."""
    api, took = Api(subject.url, subject.tokens["ops"]), []
    page.goto(f"{subject.url}/jobs")
    jobs = [row["id"] for row in api.ask("GET", "/v1/jobs?limit=50&phase=queued")["items"]]
    page.wait_for_timeout(3000)  # until it follows events
    for job_id in jobs[:CHANGES]:
        row = page.locator(f"#job-{job_id} .status-paused")
        began_s = time.monotonic()
        api.ask("POST", f"/v1/jobs/{job_id}/pause")
        row.wait_for(timeout=PATIENCE_MS)
        took.append(time.monotonic() - began_s)
        page.wait_for_timeout(1500)  # so that each change finds a page at rest
    return statistics.median(took)


def frames_per_s(page: Page, url: str) -> float:
    """Return the frames that a timeline of all jobs draws a second, while it is zoomed, moved and scrolled."""
    page.goto(f"{url}/timeline")
    page.locator("#timeline[data-jobs]").wait_for(timeout=PATIENCE_MS)
    return float(page.evaluate(MOVES, [MOVING_S]))


def heap_growth_mib(page: Page, subject: Subject, events: int) -> float:
    """Return by how much the heap of a page's scripts grows while very many events come."""
    page.goto(f"{subject.url}/jobs")
    page.wait_for_timeout(3000)  # until it follows events
    told = page.context.new_cdp_session(page)
    subject.tell("event", 500)  # so that what is made once is there
    page.wait_for_timeout(3000)
    before = _heap_mib(told)
    subject.tell("event", events)
    page.wait_for_timeout(5000)  # until the last ones are on the page
    return _heap_mib(told) - before


def _heap_mib(told: Any) -> float:
    for _ in range(3):
        told.send("HeapProfiler.collectGarbage")
    return float(told.send("Runtime.getHeapUsage")["usedSize"]) / 2**20
