"""What the output of a program says of the error that ended it. Pure."""

from __future__ import annotations

import re

TRACEBACK = "Traceback (most recent call last):"
MOST_CHARACTERS = 4000
# torchrun and accelerate tell of a process that failed by an error of their own, below its.
_STARTERS_OWN = re.compile(
    r"ChildFailedError|CalledProcessError|torch[/\\]distributed[/\\]|accelerate[/\\]commands[/\\]"
)
_RANK = re.compile(r"^\[(rank|default)\d+\]:\s?", re.MULTILINE)


def error_in(output: str) -> tuple[str, str]:
    """Return a one-line summary and the traceback of the last Python error in the output; "" where there is none.

    An error of a starter, such as torchrun's ChildFailedError, counts only where nothing else is told.
    """
    text = _RANK.sub("", output)
    blocks = [_block(text[at:]) for at in _starts(text)]
    own = [block for block in blocks if not _STARTERS_OWN.search(block)] or blocks
    if not own:
        return "", ""
    traceback = own[-1]
    return traceback.rstrip().splitlines()[-1].strip()[:500], traceback[-MOST_CHARACTERS:]


def _starts(text: str) -> list[int]:
    return [match.start() for match in re.finditer(re.escape(TRACEBACK), text)]


def _block(text: str) -> str:
    """Return a traceback: its frames, which are indented, and the line of the error below them."""
    lines = text.splitlines()
    for at, line in enumerate(lines[1:], start=1):
        if line and not line.startswith((" ", "\t")):
            return "\n".join(lines[: at + 1]) + "\n"
    return text


def summary_of_end(program: str, code: int, reason: str, output: str) -> tuple[str, str]:
    """Return why a process ended with an error: what its output says, or else its last line and its status.

    `reason`: how the process ended, such as "exited with status 3".
    """
    summary, traceback = error_in(output)
    if summary:
        return summary, traceback
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    return (f"{program} {reason}: {last[:300]}" if last and code > 0 else f"{program} {reason}"), ""
