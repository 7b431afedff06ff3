"""What the output of a program says of the error that ended it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..protocol.worker_events import Exited

TRACEBACK = "Traceback (most recent call last):"
MOST_CHARACTERS = 4000
# torchrun and accelerate tell of a process that failed by an error of their own, below its.
_STARTERS_OWN = re.compile(
    r"ChildFailedError|torch[/\\]distributed[/\\](?:run|launch|launcher|elastic)\b|accelerate[/\\]commands[/\\]"
)
_CHILD = re.compile(r"failed \(exitcode: (-?\d+)\) local_rank: \d+")
_STARTERS_LINE = re.compile(r"^[WEI]\d{4} ")
_RANK = re.compile(r"^\[(rank|default)\d+\]:\s?", re.MULTILINE)
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_OF_SHELLS = frozenset(
    {".", "alias", "cd", "eval", "exec", "export", "set", "source", "trap", "ulimit", "umask", "unset"}
)


def why_not_started(command: Sequence[str], reason: str) -> str:
    """Return a sentence on a command that could not be started, with what its user can do.

    `reason`: of the system, such as "No such file or directory".
    """
    word, advice = command[0], ""
    if reason == "No such file or directory":
        if _VARIABLE.match(word):
            advice = "give variables in env, and the program first"
        elif word in _OF_SHELLS:
            advice = "a shell knows it, so give [bash, -c, '…']"
        elif re.search(r"\s", word):
            advice = "give each word by itself, as in [python, train.py]"
    elif reason in ("Permission denied", "Exec format error"):
        advice = "give what runs it first, as in [bash, run.sh]"
    return f"command: {word}: {reason}; {advice}" if advice else f"command: {word}: {reason}"


def error_in(output: str) -> tuple[str, str]:
    """Return a one-line summary and the traceback of the last Python error in the output; "" where there is none.

    An error of a starter, such as torchrun's ChildFailedError, does not count.
    """
    text = _RANK.sub("", output)
    own = [block for at in _starts(text) if not _STARTERS_OWN.search(block := _block(text[at:]))]
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

    `reason`: how the process ended, such as "exited with status 3". Python ends with 1 after an error that nobody
    handles, so that with any other status the error in the output may be one that was handled.
    """
    summary, traceback = error_in(output)
    child = _CHILD.search(output)
    if child is not None:
        code, program, reason = int(child[1]), f"a process of {program}", Exited(int(child[1])).reason
        output = output[: child.start()].rpartition("\n")[0]
    if summary and code == 1:
        return summary, traceback
    if summary:
        return f"{program} {reason}; the last error in its output is {summary}", traceback
    said = (line.strip() for line in reversed(output.splitlines()) if not _STARTERS_LINE.match(line))
    last = next((line for line in said if line), "")
    return (f"{program} {reason}: {last[:300]}" if last and code > 0 else f"{program} {reason}"), ""
