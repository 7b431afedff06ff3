"""Measure how hard the Markdown pages are to read.

    python -m benchmarks.prose                    every page: mean and longest sentence, longest line
    python -m benchmarks.prose --worst 3 docs     the three longest sentences of each page below docs/

What counts as a sentence says `tests/support/prose.py`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.prose import Sentence, longest_line, mean_words, sentences

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Page:
    """What was measured of one page: its sentences and the length of its longest line, in characters."""

    path: Path
    sentences: tuple[Sentence, ...]
    longest_line: int

    @property
    def mean_words(self) -> float:
        return mean_words(self.sentences)


def measure(path: Path) -> Page:
    """Read and measure one page."""
    text = path.read_text()
    return Page(path, tuple(sentences(text)), longest_line(text))


def pages(roots: Sequence[Path] = ()) -> list[Path]:
    """Return the Markdown pages below `roots`; by default docs/ and the pages beside it."""
    found = roots or [ROOT / "docs", *ROOT.glob("*.md")]
    return sorted({page for one in found for page in ([one] if one.is_file() else one.rglob("*.md"))})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.prose", description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="pages or folders; by default docs/ and *.md")
    parser.add_argument("--worst", type=int, default=1, metavar="N", help="longest sentences shown of each page")
    options = parser.parse_args(arguments)
    missing = [path for path in options.paths if not path.exists()]
    if missing:
        parser.error(f"paths: {missing[0]} does not exist")
    measured = [measure(path) for path in pages(options.paths)]
    for page in measured:
        name = page.path.resolve()
        shown = name.relative_to(ROOT) if name.is_relative_to(ROOT) else name
        print(f"{page.mean_words:5.1f} words a sentence, longest line {page.longest_line:4}  {shown}")
        for one in sorted(page.sentences, key=lambda one: (-one.words, one.line))[: options.worst]:
            print(f"      {one.words:3} words, line {one.line}: {one.text}")
    everything = [one for page in measured for one in page.sentences]
    print(
        f"{mean_words(everything):.1f} words a sentence, {len(everything):,} sentences, {len(measured)} pages; "
        f"longest sentence {max((one.words for one in everything), default=0)} words, "
        f"longest line {max((page.longest_line for page in measured), default=0)} characters"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
