"""When a job that keeps failing is given up, and which errors of its script count as the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from ...core.job import RestartPolicy
from ..protocol.script_errors import NEVER_PREPARED, OTHER_SCRIPT

# Losses without a step between them, or without progress past an earlier loss, are bounded too. A script that
# always segfaults must stop; one on an unlucky machine must not.
FRUITLESS_LOSSES = 3
REPEATED_LOSSES = 12
# An outage of storage is waited for, some five minutes by the back-off; a folder that is not there ends the job.
OUTAGES = 12

# Reasons why no other try follows an error.
NO_OTHER_END = "no other try can end otherwise"
SAME_TWICE = "the same error twice, and no progress between"
POLICY = "its restart_policy allows no other try"
FIXED = "a program of a fixed size is tried again only with restartable: true"
_FRAME = re.compile(r'^[ |+-]*File "([^"]+)", line (\d+)', re.MULTILINE)
_NOT_THE_SCRIPTS = re.compile(
    rf"[/\\](site|dist)-packages[/\\]|[/\\]lib[/\\]python3[^/\\]*[/\\]|^<|^{re.escape(str(Path(__file__).parents[1]))}[/\\]"
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")


def fault_of(summary: str, traceback: str) -> str:
    """Return what tells one error of a script from another: its summary and the script's innermost line."""
    frames = _FRAME.findall(traceback)
    own = [frame for frame in frames if not _NOT_THE_SCRIPTS.search(frame[0])] or frames
    where = f"{PurePath(own[-1][0]).name}:{own[-1][1]}" if own else ""
    return f"{_ADDRESS.sub('0x…', summary)} {where}".rstrip()


def is_final(summary: str) -> bool:
    """Return whether every other try of the same script would end the same way."""
    return summary.startswith(("SyntaxError: ", OTHER_SCRIPT)) or summary.endswith(NEVER_PREPARED)


def too_many(failures: int, max_failures: int) -> str:
    """Return why the job is given up after so many errors, or ""."""
    return f"{failures} errors, of {max_failures} that max_failures allows" if failures > max_failures else ""


@dataclass
class FailureBudget:
    """Count script errors and lost workers of one job.

    `max_failures` bounds script errors over the job's life. The same error twice without progress ends the job at
    once. A lost worker costs nothing unless losses repeat without progress. `restarts` may allow less.
    """

    max_failures: int
    restarts: RestartPolicy = RestartPolicy.ON_FAILURE
    failures: int = 0
    recoveries: int = 0
    furthest: int = -1  # the optimizer step that lost workers had reached
    outages: int = 0  # times that storage failed, without a step between them that is new
    _faults: dict[str, int] = field(default_factory=dict)  # -> the step that may have been reached by then
    _fruitless: int = 0
    _repeated: int = 0

    def to_row(self) -> dict[str, Any]:
        """Return all counts as JSON's own values."""
        counts = {name: getattr(self, name) for name in ("failures", "recoveries", "furthest", "outages")}
        return {**counts, "faults": self._faults, "fruitless": self._fruitless, "repeated": self._repeated}

    def go_on(self, row: Mapping[str, Any]) -> None:
        """Go on from the counts of `to_row`; what it lacks stays."""
        for name in ("failures", "recoveries", "furthest", "outages"):
            setattr(self, name, row.get(name, getattr(self, name)))
        self._faults = dict(row.get("faults", {}))
        self._fruitless, self._repeated = row.get("fruitless", 0), row.get("repeated", 0)

    def user_error(
        self, summary: str, fault: str | None = None, steps: int = 0, stride: int = 0, *, of_script: bool = True
    ) -> str:
        """Count an error of the script; return why the job has to be given up, or "".

        `of_script`: whether the script is at fault, as it is not where memory ran out at a batch that was chosen
        for it. `fault` comes from `fault_of`; None if the next try may not meet the error, as with memory.
        `steps` is the last known optimizer step; the error may have come up to `stride` steps later.
        """
        self.failures += 1
        if is_final(summary):
            return NO_OTHER_END
        before = self._faults.get(fault) if fault is not None else None
        if fault is not None:
            self._faults[fault] = max(steps + stride, before or 0)
        if before is not None and steps <= before:
            return SAME_TWICE
        if self.restarts is RestartPolicy.NEVER or (self.restarts is RestartPolicy.ON_LOSS and of_script):
            return POLICY
        return too_many(self.failures, self.max_failures)

    def outage(self, steps: int) -> bool:
        """Count a worker that storage refused at optimizer step `steps`; return whether the job is given up."""
        self.recoveries += 1
        self.outages = 1 if steps > self.furthest else self.outages + 1
        self.furthest = max(self.furthest, steps)
        return self.outages > max(self.max_failures, OUTAGES)

    def loss(self, steps: int, made: int) -> bool:
        """Count a lost worker at optimizer step `steps`; return whether the job has to be given up.

        `made`: steps since the last loss that the job keeps.
        """
        self.recoveries += 1
        self._fruitless = self._fruitless + 1 if made <= 0 else 0
        self._repeated = self._repeated + 1 if steps <= self.furthest else 0
        self.furthest = max(self.furthest, steps)
        bound = max(self.max_failures, FRUITLESS_LOSSES)
        return self._fruitless > bound or self._repeated > max(self.max_failures, REPEATED_LOSSES)
