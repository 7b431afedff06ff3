"""Promises of the pages: what they name is there, and they can be read without a second look."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from coadapt.cli.main import app
from coadapt.core.decisions import WaitReason

from tests.support.layout import ROOMS
from tests.support.prose import mean_words, sentences

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "examples" / "README.md"])
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```[a-z]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"(?:[\w.-]+/)+[\w-]+\.(?:py|md|json|yaml|toml|svg)")
MODULE = re.compile(r"python -m ((?:benchmarks|examples|tests)\.[a-z_][\w.]*\w)")
MAKE = re.compile(r"\bmake ([a-z]+)\b")
SELECTED = re.compile(r"pytest (tests/[\w/]+\.py) -k (\w+)")
VERB = re.compile(r"\bcoadapt ([a-z]+)\b")
LONGEST_LINE = 110  # characters
MEAN_SENTENCE = 20  # words


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def code(page: Path) -> list[str]:
    """Return what a page shows as code: spans and the lines of blocks."""
    text = page.read_text()
    blocks = [line for block in FENCED.findall(text) for line in block.splitlines()]
    return [*CODE.findall(FENCED.sub("", text)), *blocks]


each_page = pytest.mark.parametrize("page", PAGES, ids=name)


@each_page
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for inline, reference in LINK.findall(page.read_text()):
        path, _, anchor = (inline or reference).partition("#")
        if ":" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {path} does not exist"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name}: {path}#{anchor} is no heading"


@each_page
def test_files_that_a_page_names_by_their_folder_exist(page: Path) -> None:
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for span in code(page):
        for path in PATH.findall(span):
            if path.split("/")[0] in rooms:
                assert (ROOT / path).exists(), f"{page.name}: {path} does not exist"


@each_page
def test_commands_that_a_page_shows_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    verbs = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    verbs |= {group.name for group in app.registered_groups if group.name}
    for span in code(page):
        for module in MODULE.findall(span):
            assert find_spec(f"coadapt.{module}"), f"{page.name}: python -m {module}: no such module"
        for target in MAKE.findall(span):
            assert target in targets, f"{page.name}: make {target}: no such target"
        if not span.lstrip().startswith(("import", "from", "#")):
            for verb in VERB.findall(span):
                assert verb in verbs, f"{page.name}: coadapt {verb}: no such command"


@each_page
def test_tests_that_a_page_selects_exist(page: Path) -> None:
    for span in code(page):
        for path, word in SELECTED.findall(span):
            found = re.search(rf"^def test_\w*{word}", (ROOT / path).read_text(), re.MULTILINE)
            assert found, f"{page.name}: {path}: no test has {word} in its name"


@each_page
def test_lines_fit_beside_code_and_sentences_are_short(page: Path) -> None:
    text = page.read_text()
    long = [number for number, line in enumerate(text.splitlines(), start=1) if len(line) > LONGEST_LINE]
    assert not long, f"{name(page)}: lines of more than {LONGEST_LINE} characters: {long}"
    assert mean_words(sentences(text)) <= MEAN_SENTENCE, f"{name(page)}: words of a sentence"


def test_the_table_of_rooms_is_that_of_the_layout() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    told: dict[str, set[str]] = {}
    for room, imports in re.findall(r"^\| `([\w/]+)` \|[^|]*\| ([^|]*) \|$", text, re.MULTILINE):
        if imports != "see below":
            told[room] = set(CODE.findall(imports))
    for room, imports in re.findall(r"^\* `([\w/]+)`: ((?:`[\w/]+`(?:,\s+)?)+)\.$", text, re.MULTILINE):
        told[room] = set(CODE.findall(imports))
    assert told == ROOMS, "docs/architecture.md: the rooms and what they import"


def test_every_reason_to_wait_is_explained() -> None:
    text = (ROOT / "docs" / "guide" / "troubleshooting.md").read_text()
    assert set(re.findall(r"^\| `([a-z_]+)` \| ", text, re.MULTILINE)) >= set(WaitReason)


def test_each_page_of_results_opens_with_its_conclusion_and_names_machine_date_and_command() -> None:
    for page in sorted((ROOT / "docs" / "results").glob("*.md")):
        title, conclusion, *rest = page.read_text().strip().split("\n\n")
        assert title.startswith("# "), page.name
        assert not conclusion.startswith(("#", "|", "*", "`")), f"{page.name}: no paragraph below the title"
        assert re.search(r"\d", conclusion), f"{page.name}: a conclusion without a figure"
        measured = "\n\n".join(rest)
        assert re.search(r"20\d\d-\d\d-\d\d", measured), f"{page.name}: no date"
        assert re.search(r"EPYC|Xeon|H200", measured), f"{page.name}: no machine"
        assert MODULE.search(measured), f"{page.name}: no command regenerates it"
