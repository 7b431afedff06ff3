"""Headless Chromium: signs in, opens pages, and notes what they ask of other hosts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = (1280, 860), (360, 760)
PATIENCE_MS = 120_000  # others may use the machine, too; what is timed is timed by itself


def chromium() -> str:
    """Return where Chromium is. Raises: SystemExit with one sentence where there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise SystemExit("no Chromium is here; install Debian's package chromium and run this again")


def playwright() -> Any:
    """Return the library. Raises: SystemExit with one sentence where it is not installed."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise SystemExit("playwright is not installed; `pip install coadapt[benchmarks]` brings it") from None
    return sync_playwright


@dataclass
class Seen:
    """What pages did: hosts that they asked beside their own, and errors in their scripts."""

    hosts: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)


@contextmanager
def opened() -> Iterator[Browser]:
    """Yield a browser."""
    path, library = chromium(), playwright()
    with library() as made:
        browser = made.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def person(
    browser: Browser,
    url: str,
    token: str,
    *,
    size: tuple[int, int] = WIDE,
    dark: bool = False,
    seen: Seen | None = None,
    signed_in: Any = None,
) -> Iterator[BrowserContext]:
    """Yield a signed-in person's browser window.

    token: "" for nobody's. signed_in: what a window has kept that was signed in before; then no token is used.
    """
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        locale="en-GB",
        storage_state=signed_in,
    )
    context.set_default_timeout(PATIENCE_MS)
    watched = seen or Seen()
    own = urlsplit(url).netloc

    def asked(request: Any) -> None:
        host = urlsplit(request.url).netloc
        if host and host != own:
            watched.hosts.add(host)

    context.on("request", asked)
    context.on("weberror", lambda error: watched.errors.append(str(error.error)))
    try:
        if token and signed_in is None:
            page = context.new_page()
            page.goto(f"{url}/sign-in")
            page.get_by_label("Your token").fill(token)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url(f"{url}/")
            page.close()
        yield context
    finally:
        context.close()


def settled(page: Page) -> None:
    """Wait until a page shows what it fetches."""
    from playwright.sync_api import expect

    expect(page.locator("[data-loading], [aria-busy=true]")).to_have_count(0, timeout=15_000)
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def axe_source() -> str:
    """Return the script of axe-core, which is only of this benchmark."""
    import axe_playwright_python

    return Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text()


RULES = """async () => {
  const found = await axe.run(document, { resultTypes: ["violations"] });
  return found.violations
    .filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target.join(" ")).join("; ")}`);
}"""


def serious(page: Page, axe: str) -> list[str]:
    """Return what axe-core finds wrong with a page, serious or critical. No page loads it by itself."""
    page.evaluate(f"() => {{ {axe} }}")
    return list(page.evaluate(RULES))
