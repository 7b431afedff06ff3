"""The site of docs/: it is built without a broken link, holds every page, and asks no other host for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from docs import site_links

ROOT = Path(__file__).resolve().parent.parent
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Loads(HTMLParser):
    """Collects what a browser fetches for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name == LOADED.get(tag)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `make docs` does, in strict mode: a broken link or a page outside the menu ends it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


def test_each_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / name.replace("README.html", "index.html")).exists(), name


def test_pages_ask_no_other_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text())
        assert loads.found
        assert not [url for url in loads.found if re.match(r"(https?:)?//", url)], page.name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style.name


def test_no_page_shows_a_link_in_its_source(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert "](" not in re.sub(r"<(code|pre)\b.*?</\1>", "", page.read_text(), flags=re.DOTALL), page.name


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("see [`core/job.py`](../../core/job.py)", "see `core/job.py`"),
        ("see [the guide](user.md#files)", "see [the guide](user.md#files)"),
        ("see [concepts](../concepts.md)", "see [concepts](../concepts.md)"),
        ("![a picture](../pictures/demo.svg)", "![a picture](../pictures/demo.svg)"),
        ("see [`real/`][real]\n\n[real]: ../../benchmarks/real/", "see `real/`\n\n"),
        ("see [all](https://example.com)", "see [all](https://example.com)"),
    ],
)
def test_links_to_files_outside_are_their_words(written: str, shown: str) -> None:
    page: Any = SimpleNamespace(file=SimpleNamespace(src_uri="guide/page.md"))
    assert site_links.on_page_markdown(written, page=page) == shown
