"""Promises of the pages: every relative link and every path of a Markdown link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
# Written beside these pages in a change of its own; the line goes when both are there.
ELSEWHERE = {ROOT / "docs" / "design" / "001-smaller-allocation-solver.md"}


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for inline, reference in LINK.findall(page.read_text()):
        path, _, anchor = (inline or reference).partition("#")
        if ":" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if target in ELSEWHERE:
            continue
        assert target.exists(), f"{page.name}: {path} does not exist"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {path}#{anchor} is no heading"
