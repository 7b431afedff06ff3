"""The page on a laptop: a real cluster of emulated nodes without teams, opened by the address that is printed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .flows import Done

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).resolve().parents[2]
NODES = "1x a100:1, 1x t4:2"
PATIENCE_MS = 180_000
JOB = """
name: {name}
script: train.py
args: [{folder}/steps-{name}]
resources: {{max_gpus: 2}}
training: {{report_interval_s: 2}}
"""


def on_a_laptop(browser: Browser) -> Done:
    """Start a cluster as the README says, open its page by the link, and do what a first hour brings."""
    done = Done()
    with tempfile.TemporaryDirectory(prefix="coadapt-page-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        with _up(home) as up:
            link = _typed(home, "open", "--print").split()[-1]
            with done.doing("`coadapt up` prints an address, too"):
                assert "/sign-in?key=" in up, up[-300:]
            _visit(browser, done, link, home, Path(folder))
    return done


def _visit(browser: Browser, done: Done, link: str, home: Path, folder: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    own = link.partition("/sign-in")[0]
    try:
        with done.doing("the link opens the page signed in"):
            page.goto(link)
            page.wait_for_url(f"{own}/")
        with done.doing("it works once"):
            other = browser.new_context().new_page()
            other.goto(link)
            other.get_by_role("alert").filter(has_text="used").wait_for(timeout=30_000)
            other.context.close()
        with done.doing("nothing is said of teams"):
            assert "team" not in page.content().lower()
        with done.doing("nodes are said to be emulated"):
            page.locator(".tag", has_text="emulated").first.wait_for()
        first = _submit(home, folder, "first")
        with done.doing("a job appears by itself"):
            page.goto(f"{own}/jobs")
            page.locator(f"#job-{first}").wait_for()
        _watch(page, done, own, first, home, folder)
    finally:
        context.close()


def _watch(page: Page, done: Done, own: str, first: str, home: Path, folder: Path) -> None:
    page.goto(f"{own}/jobs/{first}")
    with done.doing("it is given GPUs"):
        page.locator("[data-resize]").first.wait_for()
        page.locator(".facts .dots").wait_for()
    with done.doing("it is resized while one looks, with the reason"):
        _submit(home, folder, "second")
        page.locator("[data-resize] .what", has_text=":").first.wait_for()
    with done.doing("curves and the grid of options are there"):
        page.locator("#charts .u-over").first.wait_for()
        page.locator("table.grid").wait_for()
    with done.doing("pause"):
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("button", name="Resume").wait_for()
    with done.doing("fork"):
        page.get_by_role("button", name="Fork …").click()
        page.get_by_label("Name").fill("forked")
        page.get_by_role("button", name="Fork", exact=True).click()
        page.wait_for_url("**/jobs/forked-*")
    with done.doing("resume"):
        page.goto(f"{own}/jobs/{first}")
        page.get_by_role("button", name="Resume").click()
        page.get_by_role("button", name="Pause").wait_for()
    with done.doing("cancel, which asks"):
        page.get_by_role("button", name="Cancel job").click()
        page.locator("dialog[open] #ask-yes").click()
        page.get_by_role("button", name="Run again").wait_for()


def _submit(home: Path, folder: Path, name: str) -> str:
    """Submit a job that trains for long; return its id."""
    where = folder / name
    where.mkdir()
    shutil.copy(ROOT / "benchmarks" / "scripts" / "counted_steps.py", where / "train.py")
    (where / "job.yaml").write_text(JOB.format(name=name, folder=folder))
    told = _typed(home, "submit", str(where / "job.yaml"))
    return next(word for word in told.replace(":", " ").split() if word.startswith(f"{name}-"))


@contextmanager
def _up(home: Path) -> Iterator[str]:
    words = ("up", "--emulate", NODES, "--policy", "coadapt", "--round-interval", "5")
    try:
        yield _typed(home, *words)
    finally:
        _typed(home, "down")


def _typed(home: Path, *words: str) -> str:
    """Run a command and return what it prints. Raises: RuntimeError where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "coadapt.cli.main", *words],
        env={**os.environ, "COADAPT_HOME": str(home), "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"coadapt {words[0]} failed: {done.stderr[-500:]}")
    return done.stdout + done.stderr
