"""When a job that keeps failing is given up, and which errors of its script are the same. Pure counting."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from ..protocol.script_errors import NEVER_PREPARED

# Losses that no step followed at all, or that never got past the step of an earlier loss, are bounded too: a
# script that segfaults deterministically must stop, while one on an unlucky machine must not.
FRUITLESS_LOSSES = 3
REPEATED_LOSSES = 12

# Why no other try follows an error.
NO_OTHER_END = "no other try can end otherwise"
SAME_TWICE = "the same error twice, and no progress between"
_FRAME = re.compile(r'^[ |+-]*File "([^"]+)", line (\d+)', re.MULTILINE)
_NOT_THE_SCRIPTS = re.compile(
    rf"[/\\](site|dist)-packages[/\\]|[/\\]lib[/\\]python3[^/\\]*[/\\]|^<|^{re.escape(str(Path(__file__).parents[1]))}[/\\]"
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


def fault_of(summary: str, traceback: str) -> str:
    """What tells one error of a script from another: what it says, and the last line of the script on its way."""
    frames = _FRAME.findall(traceback)
    own = [frame for frame in frames if not _NOT_THE_SCRIPTS.search(frame[0])] or frames
    where = f"{PurePath(own[-1][0]).name}:{own[-1][1]}" if own else ""
    return f"{_ADDRESS.sub('0x…', summary)} {where}".rstrip()


def is_final(summary: str) -> bool:
    """Whether the same script cannot end otherwise, however often it is tried."""
    return summary.startswith("SyntaxError: ") or summary.endswith(NEVER_PREPARED)


def too_many(failures: int, max_failures: int) -> str:
    return f"{failures} errors, of {max_failures} that max_failures allows" if failures > max_failures else ""


@dataclass
class FailureBudget:
    """Counts the user's own errors and lost workers of one job.

    User errors are bounded by `max_failures` for the job's whole life, and the same one twice without progress
    is enough. A lost worker is not the job's fault and costs nothing, unless losses repeat without progress.
    """

    max_failures: int
    failures: int = 0
    recoveries: int = 0
    _faults: dict[str, int] = field(default_factory=dict)  # -> the step that may have been reached by then
    _fruitless: int = 0
    _repeated: int = 0
    _furthest: int = -1

    def user_error(self, summary: str, fault: str | None = None, steps: int = 0, stride: int = 0) -> str:
        """Count an error of the script. Returns why the job has to be given up; "" where another try follows.

        `fault`: of `fault_of`; None for what the next try changes or may not meet, as memory that ran out.
        `steps`: the optimizer step last heard of; the error may have come up to `stride` steps later.
        """
        self.failures += 1
        if is_final(summary):
            return NO_OTHER_END
        before = self._faults.get(fault) if fault is not None else None
        if fault is not None:
            self._faults[fault] = max(steps + stride, before or 0)
        if before is not None and steps <= before:
            return SAME_TWICE
        return too_many(self.failures, self.max_failures)

    def loss(self, steps: int, steps_since_formed: int) -> bool:
        """Count a lost worker at optimizer step `steps`; True when the job has to be given up."""
        self.recoveries += 1
        self._fruitless = self._fruitless + 1 if steps_since_formed <= 0 else 0
        self._repeated = self._repeated + 1 if steps <= self._furthest else 0
        self._furthest = max(self._furthest, steps)
        bound = max(self.max_failures, FRUITLESS_LOSSES)
        return self._fruitless > bound or self._repeated > max(self.max_failures, REPEATED_LOSSES)
