"""What people do on the page, done by a browser: as each role, by pointer and by keyboard alone."""

from __future__ import annotations

import json
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .browser import NARROW, WIDE, Seen, person
from .cast import CAST

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

PATIENCE_MS = 30_000
MOST_TABS = 120
KEEP_MANY = tuple(role.name for role in CAST if role.rigid)
FOCUSED = "() => document.activeElement?.tagName === 'BUTTON' ? document.activeElement.textContent.trim() : ''"


@dataclass
class Done:
    """What was tried. `failed`: what did not work, a line each."""

    tried: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    seen: Seen = field(default_factory=Seen)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Note whether something works; what follows is tried in any case."""
        self.tried.append(what)
        try:
            yield
        except Exception as error:
            self.failed.append(f"{what}: {str(error).splitlines()[0][:200]}")


@dataclass(frozen=True)
class Api:
    """The API of a cluster, asked as one user."""

    url: str
    token: str

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return an answer. Raises: urllib.error.HTTPError."""
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": uuid.uuid4().hex}
        data = None
        if body is not None:
            headers["Content-Type"], data = "application/json", json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read())

    def status(self, job_id: str) -> str:
        return str(self.ask("GET", f"/v1/jobs/{job_id}")["status"])

    def until(self, job_id: str, *wanted: str) -> None:
        """Wait until a job is as wanted. Raises: TimeoutError."""
        deadline_s = time.monotonic() + PATIENCE_MS / 1e3
        while (status := self.status(job_id)) not in wanted:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{job_id} is {status}, not {' or '.join(wanted)}")
            time.sleep(0.2)  # between two looks

    def until_steps(self, job_id: str) -> None:
        """Wait until a job has made a step, so that there is something to save. Raises: TimeoutError."""
        deadline_s = time.monotonic() + PATIENCE_MS / 1e3
        while not self.ask("GET", f"/v1/jobs/{job_id}")["steps"]:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{job_id} has made no step")
            time.sleep(0.2)  # between two looks


Press = Callable[["Page", str], None]


def _button(page: Page, name: str) -> Locator:
    return page.get_by_role("button", name=name, exact=True).and_(page.locator(":visible")).last


def by_pointer(page: Page, name: str) -> None:
    """Click a button by what it is called."""
    _button(page, name).click(timeout=PATIENCE_MS)


def by_keys(page: Page, name: str) -> None:
    """Go to a button with the tab key alone, and press it. Raises: LookupError where no tab leads there."""
    _button(page, name).wait_for(timeout=PATIENCE_MS)
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if page.evaluate(FOCUSED) == name:
            page.keyboard.press("Enter")
            return
    raise LookupError(f"the tab key does not lead to {name!r}")


def as_user(browser: Browser, api: Api, job_id: str, done: Done, press: Press, size: tuple[int, int]) -> None:
    """Watch one's job, see why it has what it has, then pause, resume, fork and cancel it."""
    how = f"{'keys' if press is by_keys else 'pointer'}, {size[0]} px"
    with person(browser, api.url, api.token, size=size, seen=done.seen) as window:
        page = window.new_page()
        with done.doing(f"open the job ({how})"):
            page.goto(f"{api.url}/jobs/{job_id}")
            page.get_by_role("heading", level=1).wait_for()
        with done.doing(f"see why ({how})"):
            page.locator("table.grid td.chosen").wait_for(timeout=PATIENCE_MS)
        with done.doing(f"see curves ({how})"):
            page.locator("#charts .u-over").first.wait_for(timeout=PATIENCE_MS)
        with done.doing(f"pause ({how})"):
            api.until_steps(job_id)
            press(page, "Pause")
            api.until(job_id, "paused")
            page.get_by_role("button", name="Resume").wait_for(timeout=PATIENCE_MS)
        with done.doing(f"resume ({how})"):
            press(page, "Resume")
            api.until(job_id, "running")
            page.get_by_role("button", name="Pause").wait_for(timeout=PATIENCE_MS)
        with done.doing(f"fork ({how})"):
            press(page, "Fork …")
            page.get_by_label("Name").fill(f"fork-{uuid.uuid4().hex[:6]}")
            press(page, "Fork")
            page.wait_for_url("**/jobs/fork-*", timeout=PATIENCE_MS)
        with done.doing(f"cancel, which asks ({how})"):
            press(page, "Cancel job")
            page.locator("dialog[open]").wait_for(timeout=PATIENCE_MS)
            forked = page.url.rpartition("/")[2]
            press(page, "Cancel job")
            api.until(forked, "cancelled")


def watch_a_resize(browser: Browser, api: Api, job_id: str, change: Callable[[], None], done: Done) -> None:
    """Look at a job while something happens, and see what it has change by itself, with the reason."""
    with (
        person(browser, api.url, api.token, seen=done.seen) as window,
        done.doing("watch a resize, and read why"),
    ):
        page = window.new_page()
        page.goto(f"{api.url}/jobs/{job_id}")
        before = page.locator("[data-resize]").count()
        change()
        page.locator("[data-resize]").nth(before).wait_for(timeout=4 * PATIENCE_MS)


def leave_nodes(api: Api, job_id: str) -> None:
    """Have an operator close the nodes of a job, so that it moves."""
    for node in api.ask("GET", f"/v1/jobs/{job_id}")["nodes"]:
        api.ask("POST", f"/v1/nodes/{node}/drain", {"deadline_s": 20.0, "why": "it is looked at"})


def as_viewer(browser: Browser, api: Api, job_id: str, done: Done) -> None:
    """See everything, and find nothing that changes something."""
    with person(browser, api.url, api.token, seen=done.seen) as window:
        page = window.new_page()
        for path in ("/", "/jobs", "/timeline", "/rounds", "/nodes", f"/jobs/{job_id}"):
            with done.doing(f"a viewer opens {path}"):
                page.goto(f"{api.url}{path}")
                page.get_by_role("heading", level=1).wait_for()
                own = page.locator("[data-post]:not([data-post='/sign-out']), [data-send]").count()
                if own:
                    raise AssertionError(f"{own} things to change are there")


def as_operator(browser: Browser, api: Api, done: Done) -> None:
    """Cordon a node and let it take work again, read the audit log, make a token and revoke it."""
    with person(browser, api.url, api.token, seen=done.seen) as window:
        page = window.new_page()
        with done.doing("an operator cordons a node"):
            page.goto(f"{api.url}/nodes")
            page.get_by_role("button", name="Cordon", exact=True).last.wait_for(timeout=PATIENCE_MS)
            closed = page.get_by_role("button", name="Uncordon").count()
            page.get_by_role("button", name="Cordon", exact=True).last.click()
            page.get_by_role("button", name="Uncordon").nth(closed).wait_for(timeout=PATIENCE_MS)
        with done.doing("an operator lets it take work again"):
            page.get_by_role("button", name="Uncordon").last.click()
            page.get_by_role("button", name="Uncordon").nth(closed).wait_for(state="detached", timeout=PATIENCE_MS)
        with done.doing("an operator finds it in the audit log"):
            page.goto(f"{api.url}/audit?verb=node.cordon")
            page.get_by_role("cell", name="node.cordon").first.wait_for(timeout=PATIENCE_MS)
        with done.doing("an operator makes a token"):
            page.goto(f"{api.url}/tokens")
            page.get_by_label("Label").fill("of a browser")
            page.get_by_role("button", name="Make a token").click()
            page.locator("#made code").wait_for(timeout=PATIENCE_MS)
            page.get_by_role("cell", name="of a browser").first.wait_for(timeout=PATIENCE_MS)
        with done.doing("an operator revokes it"):
            row = page.get_by_role("row").filter(has_text="of a browser")
            row.get_by_role("button", name="Revoke").click()
            page.locator("dialog[open] #ask-yes").click()
            row.get_by_text("revoked").wait_for(timeout=PATIENCE_MS)


def filters(browser: Browser, api: Api, done: Done) -> None:
    """Filter the list, keep the filter, and find it again."""
    with person(browser, api.url, api.token, seen=done.seen) as window, done.doing("keep a filter"):
        page = window.new_page()
        page.goto(f"{api.url}/jobs")
        page.get_by_label("Name").fill("resnet-imagenet")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("button", name="Keep this filter").click()
        page.goto(f"{api.url}/jobs")
        page.locator("#saved a").click()
        page.wait_for_url("**name=resnet-imagenet*")


def cut(browser: Browser, api: Api, done: Done) -> None:
    """Cut the connection: the page says so, and mends itself."""
    with person(browser, api.url, api.token, seen=done.seen) as window:
        page = window.new_page()
        page.goto(f"{api.url}/jobs")
        page.get_by_role("heading", level=1).wait_for()
        with done.doing("a cut stream says so"):
            window.set_offline(True)
            page.locator("#cut:visible").wait_for(timeout=2 * PATIENCE_MS)
        with done.doing("and mends itself"):
            window.set_offline(False)
            page.locator("#cut").wait_for(state="hidden", timeout=PATIENCE_MS)


def make_room(ops: Api, done: Done) -> None:
    """Cancel the jobs that keep many GPUs of the busy cluster, so that others find room."""
    with done.doing("an operator cancels the jobs of others"):
        for row in ops.ask("GET", "/v1/jobs?limit=100")["items"]:
            if row["name"] in KEEP_MANY and row["finished_s"] is None:
                ops.ask("POST", f"/v1/jobs/{row['id']}/cancel")
                ops.until(row["id"], "cancelled")


def all_flows(browser: Browser, url: str, tokens: dict[str, str], package: str) -> Done:
    """Do all of it on a cluster. `package`: the name of one that was put."""
    done, ann = Done(), Api(url, tokens["ann"])
    make_room(Api(url, tokens["ops"]), done)
    ids = []
    for name in ("by-pointer", "by-keys"):
        with done.doing(f"submit {name}"):
            spec = {"name": name, "script": "train.py", "resources": {"max_gpus": 2}}
            ids.append(ann.ask("POST", "/v1/jobs", {"spec": spec, "package": package})["id"])

    for job_id in ids:
        with done.doing(f"{job_id} runs"):
            ann.until(job_id, "running")
    watch_a_resize(browser, ann, ids[0], lambda: leave_nodes(Api(url, tokens["ops"]), ids[0]), done)
    for job_id, press, size in zip(ids, (by_pointer, by_keys), (WIDE, NARROW), strict=True):
        as_user(browser, ann, job_id, done, press, size)
    filters(browser, ann, done)
    cut(browser, ann, done)
    as_viewer(browser, Api(url, tokens["vic"]), ids[0], done)
    as_operator(browser, Api(url, tokens["ops"]), done)
    return done
