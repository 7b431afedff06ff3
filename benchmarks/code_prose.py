"""Measure how hard the docstrings and comments of the code are to read.

    python -m benchmarks.code_prose                    every room: long sentences, docstrings without a verb
    python -m benchmarks.code_prose --worst 5 core     the five worst of each kind in core/

A sentence is long above 25 words. The docstring of a function begins with a verb in the imperative. Properties,
classes and modules may begin with what they are, and tests with their case. Doctests and indented code are left
out. Neighbouring comment lines are one paragraph. A line `name: meaning` of a docstring begins a paragraph.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.prose import Sentence, mean_words, sentences

from .harness import finish, table

ROOT = Path(__file__).resolve().parent.parent
ROOMS = (
    *("core", "estimators", "optimizer", "policies", "executor", "scheduler", "simulator"),
    *("api", "client", "cli", "deploy", "examples", "benchmarks", "tests"),
)
MOST_WORDS = 25
_VERBS = """
Accept Act Add Adjust Adopt Advance Agree Allow Answer Append Apply Ask Assign Await Be Become Begin Block
Bound Break Bring Broadcast Build Calculate Call Cancel Carry Change Check Checkpoint Choose Claim Clear Close
Collect Combine Compare Compile Complete Compute Conclude Connect Continue Copy Count Cover Cut Decide Deliver
Describe Detect Discard Divide Do Draw Drop Empty End Enter Estimate Evaluate Exchange Expand Expect Explain
Express Extend Factor Fail Fetch Fill Find Finish Fit Follow Forget Fork Form Format Free Generate Get Give Go
Group Grow Guess Hand Handle Have Hold Ignore Import Improve Include Insert Iterate Join Judge Keep Kill Know
Lay Lease Leave Let Limit Link List Listen Load Lock Log Look Lose Make Map Mark Mask Measure Meet Merge Move
Name Narrow Note Offer Open Order Overwrite Pack Parse Pass Pause Pay Perform Pick Place Plan Play Point
Preempt Prepare Price Print Project Prove Publish Put Queue Raise Read Rebuild Receive Record Reduce Refit
Refuse Register Reject Relay Release Remember Remove Rename Repair Repeat Replace Replay Report Reserve Reset
Resize Resolve Restart Restore Retire Return Round Run Sample Save Say Scale Search See Seed Select Send Serve
Set Settle Share Show Shrink Shut Simulate Skip Solve Sort Spend Split Start State Stop Store Submit Subtract
Sum Surround Swap Synchronise Take Tell Test Time Track Train Translate Treat Try Tune Turn Undo Unpack Update
Use Validate Value Wait Wake Walk Warn Watch Weigh Work Wrap Write Yield
"""
VERBS = frozenset(_VERBS.split())
# How comments begin that are read by tools: the last ones by `benchmarks/real/heads.py`.
TOLD_TO_TOOLS = (
    *("noqa", "type:", "fmt:", "pragma", "---", "ruff:"),
    *("kind:", "expect:", "leave out:", "reference:"),
)
SECTION = re.compile(r"\s*(Args|Attributes|Raises|Returns|Yields):$")
# `name: meaning`, `two words: meaning` and `one, other: meaning`.
NAMED = re.compile(r"\s*(?=`?\*{0,2}[a-z_][\w.]*`?( [a-z]+)?(, `?[a-z_][\w.]*`?)*: )")


@dataclass
class Prose:
    """What was found in some files: sentences with their file, and docstrings that begin with no verb."""

    sentences: list[tuple[str, Sentence]] = field(default_factory=list)
    functions: int = 0  # that have a docstring
    without_verb: list[tuple[str, Sentence]] = field(default_factory=list)

    @property
    def long(self) -> list[tuple[str, Sentence]]:
        """Return the sentences above 25 words, longest first."""
        found = [one for one in self.sentences if one[1].words > MOST_WORDS]
        return sorted(found, key=lambda one: -one[1].words)

    def add(self, where: str, text: str) -> None:
        """Take in the source of one file."""
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            docstring = ast.get_docstring(node)
            if not docstring:
                continue
            line = node.body[0].lineno
            self._note(where, line, docstring)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _needs_no_verb(node):
                self.functions += 1
                first = docstring.split(maxsplit=1)[0].strip(".,:;`")
                if first not in VERBS:
                    self.without_verb.append((where, Sentence(line, docstring.splitlines()[0])))
        for line, comment in comments(text):
            self._note(where, line, comment)

    def _note(self, where: str, line: int, text: str) -> None:
        found = sentences(_as_markdown(text))
        self.sentences += [(where, Sentence(line + one.line - 1, one.text)) for one in found]


def _as_markdown(docstring: str) -> str:
    """Return a docstring as Markdown: `name: meaning` as a list item, doctests and headings as blank lines."""
    lines, section = [], False
    for line in docstring.splitlines():
        heading = bool(SECTION.match(line))
        section = heading or (section and line.startswith(" "))
        if heading or line.lstrip().startswith((">>>", "...")):
            lines.append("")
        elif NAMED.match(line) and (section or not line.startswith("    ")):
            lines.append(NAMED.sub("* ", line, count=1))
        else:
            lines.append(line)
    return "\n".join(lines)


def _needs_no_verb(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a function is a property or a test, whose docstrings say what it is or what its case is."""
    if node.name.startswith("test_"):
        return True
    names = (ast.unparse(one).rsplit(".", 1)[-1] for one in node.decorator_list)
    return any(name.endswith("property") for name in names)


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a source as (first line, text); lines of nothing but comments are joined."""
    first, last, found = 0, 0, list[str]()
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, words = token.start[0], token.string.lstrip("#! ")
        alone = lines[line - 1].lstrip().startswith("#")
        if found and not (alone and line == last + 1):
            yield first, " ".join(found)
            found = []
        # What tools are told, and rules between sections, are no sentences.
        if words.startswith(TOLD_TO_TOOLS):
            continue
        first = first if found else line
        found.append(words)
        last = line if alone else 0
    if found:
        yield first, " ".join(found)


def measure(room: Path) -> Prose:
    """Measure every Python file below a folder, or one file."""
    found = Prose()
    for path in sorted([room] if room.is_file() else room.rglob("*.py")):
        name = path.resolve()
        found.add(str(name.relative_to(ROOT) if name.is_relative_to(ROOT) else name), path.read_text())
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.code_prose", description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="rooms, folders or files; by default every room")
    parser.add_argument(
        "--worst", type=int, default=0, metavar="N", help="how many of each kind are shown per room"
    )
    options = parser.parse_args(arguments)
    missing = [path for path in options.paths if not path.exists()]
    if missing:
        parser.error(f"paths: {missing[0]} does not exist")
    measured = {str(path): measure(path) for path in options.paths or [ROOT / room for room in ROOMS]}
    rows = []
    for path, found in measured.items():
        name = Path(path).name
        mean, longest = mean_words(one for _, one in found.sentences), max(found.long, default=None, key=_words)
        for what, ones in (("words", found.long), ("no verb", found.without_verb)):
            for where, one in ones[: options.worst]:
                print(f"{where}:{one.line}: {one.words if what == 'words' else ''} {what}: {one.text}")
        most = longest[1].words if longest else 0
        rows.append(
            [name, len(found.sentences), mean, most, len(found.long), found.functions, len(found.without_verb)]
        )
    columns = [
        "room",
        "sentences",
        "mean words",
        "longest",
        "above 25",
        "docstrings of functions",
        "without a verb",
    ]
    table("Docstrings and comments", columns, rows)
    everything = [one for found in measured.values() for _, one in found.sentences]
    figures = {
        "mean_words": round(mean_words(everything), 1),
        "long_sentences": sum(len(found.long) for found in measured.values()),
        "docstrings_without_verb": sum(len(found.without_verb) for found in measured.values()),
    }
    finish("code_prose", figures)
    return 0


def _words(one: tuple[str, Sentence]) -> int:
    return one[1].words


if __name__ == "__main__":
    sys.exit(main())
