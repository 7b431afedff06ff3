"""The sentences and lines of Markdown pages, and how long they are.

Sentences are those of running text and of list items. Headings, tables, code blocks, HTML comments, pictures,
link definitions and lines of nothing but names in backticks are left out. An inline code span counts as one word.
Line lengths are those of all lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

FENCE = re.compile(r"\s*(```|~~~)")
ITEM = re.compile(r"(\s*)([*+-]|\d+[.)])\s+")
LEFT_OUT = re.compile(r"\s*(#{1,6}\s|\||!\[|\[[^\]]+\]:\s|<!--|(`[^`]+`[,.]?\s*)+$)")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\](\([^)]*\)|\[[^\]]*\])?")
MARKS = re.compile(r"\*{1,3}|(?<!\w)_{1,3}(?=\w)|(?<=\w)_{1,3}(?!\w)")
SHORT = re.compile(r"\b(e\.g|i\.e|vs|cf|etc|Fig|No)\.")
END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[A-Z0-9])")
WORD = re.compile(r"\S*\w\S*")


@dataclass(frozen=True)
class Sentence:
    """One sentence of a page. `line` is where its paragraph begins, from 1."""

    line: int
    text: str

    @property
    def words(self) -> int:
        return words(self.text)


def paragraphs(text: str) -> list[tuple[int, str]]:
    """Return the running text of a page as (first line, paragraph); each list item is a paragraph."""
    found: list[tuple[int, list[str]]] = []
    fenced = opened = listed = False  # in a code block; in a paragraph; in a list
    for number, line in enumerate(text.splitlines(), start=1):
        if FENCE.match(line):
            fenced, opened = not fenced, False
            continue
        item = ITEM.match(line)
        indented_code = line.startswith("    ") and not opened and not listed
        if fenced or not line.strip() or LEFT_OUT.match(line) or indented_code:
            opened = False
            listed = listed and (not line.strip() or line.startswith(" "))
            continue
        if item or not opened:
            found.append((number, []))
            listed = bool(item) or (listed and line.startswith(" "))
        found[-1][1].append(line[item.end() :] if item else line.strip())
        opened = True
    return [(number, " ".join(lines)) for number, lines in found]


def plain(paragraph: str) -> str:
    """Return a paragraph without marks: links by their text, each code span as the one word `Code`."""
    text = CODE.sub("Code", paragraph)
    text = LINK.sub(r"\1", text)
    return " ".join(MARKS.sub("", text).split())


def sentences(text: str) -> list[Sentence]:
    """Return the sentences of a page, in order."""
    found = []
    for line, paragraph in paragraphs(text):
        kept = SHORT.sub(r"\1\0", plain(paragraph))
        found += [Sentence(line, one.replace("\0", ".")) for one in END.split(kept) if words(one)]
    return found


def words(sentence: str) -> int:
    """Return how many words a sentence has: what stands between spaces and holds a letter or digit."""
    return len(WORD.findall(sentence))


def mean_words(found: Iterable[Sentence]) -> float:
    """Return the mean number of words of sentences; 0 without any."""
    counts = [one.words for one in found]
    return fmean(counts) if counts else 0.0


def longest_line(text: str) -> int:
    """Return the length of the longest line, in characters."""
    return max((len(line) for line in text.splitlines()), default=0)
