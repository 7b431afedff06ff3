"""What happens, and what a reader must be able to see of it. Pure, except that it reads a job file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coadapt.client import jobfile
from coadapt.core.deadline_answer import Answer
from coadapt.core.job import JobSpec
from coadapt.core.schemas import JobRow

EXAMPLE = Path(__file__).resolve().parent.parent / "rigid" / "job.yaml"
CLUSTER = "1x t4:2"
OPTIONS: dict[str, Any] = {"best_effort_lease_s": 10, "deadline_lease_s": 20, "urgent_s": 20}
ROUND_S, WITHIN_S = 10.0, 160.0
SWEEP_EPOCHS, MONDAY_EPOCHS = 80, 12  # of some three seconds each on both GPUs
SAYS = "must run now for its deadline"  # `explain` of who waits


def spec(name: str, epochs: int, deadline_s: float | None = None) -> JobSpec:
    """Return a job that trains so many epochs on both GPUs."""
    found = jobfile.load(EXAMPLE)
    training = found.training.model_copy(update={"report_interval_s": 2.0, "target": None})
    emulation = found.emulation.model_copy(update={"time_scale": 8.0})
    changed = {"name": name, "args": ["--epochs", str(epochs)], "training": training, "emulation": emulation}
    job = found.model_copy(update=changed)
    if deadline_s is None:
        return job
    return JobSpec.model_validate(job.model_dump(exclude_unset=True) | {"deadline": deadline_s})


SWEEP, MONDAY = spec("sweep", SWEEP_EPOCHS), spec("monday", MONDAY_EPOCHS, WITHIN_S)


@dataclass(frozen=True)
class Promise:
    """Something that has to happen, and what was seen of it; None: nothing."""

    what: str
    seen: str | None


@dataclass
class Seen:
    """What was seen so far.

    told: what monday was told of its deadline, each once. waited: what `explain` said of sweep while it waited.
    """

    told: list[str] = field(default_factory=list)
    waited: str = ""
    runs_beside: bool = False  # sweep ran while monday waited
    ended_in_s: float | None = None
    goes_on: bool = False

    def rows(self, sweep: JobRow, monday: JobRow | None, line: str, explained: Sequence[str]) -> None:
        """Take note of a look at both jobs.

        Args:
            line: what monday is told of its deadline now; "": nothing.
            explained: what `explain` says of sweep.
        """
        if monday is None:
            return
        if line and (not self.told or _kind(self.told[-1]) != _kind(line)):
            self.told.append(line)
        if monday["finished_s"] is None and sweep["gpus"] and not monday["gpus"]:
            self.runs_beside = True
        if monday["gpus"] and not sweep["gpus"]:
            self.waited = next((told for told in explained if SAYS in told), self.waited)
        if monday["phase"] == "succeeded" and monday["finished_s"] is not None:
            self.ended_in_s = monday["finished_s"] - monday["submitted_s"]
        if self.ended_in_s is not None and sweep["phase"] == "running" and sweep["gpus"]:
            self.goes_on = True

    @property
    def over(self) -> bool:
        """Whether nothing more is to be seen."""
        return self.goes_on

    def promises(self) -> list[Promise]:
        """Return what has to happen, and what was seen of it."""
        beside = "sweep ran" if self.runs_beside else None
        in_time = self.ended_in_s is not None and self.ended_in_s <= WITHIN_S
        ahead = next((told for told in self.told if _kind(told) == Answer.ON_TIME.line), None)
        return [
            Promise("monday is told in advance that its deadline holds", ahead),
            Promise("best effort runs as long as that deadline can wait", beside),
            Promise("a best-effort job waits for the deadline, and explain says so", self.waited or None),
            Promise("the deadline is met", f"{self.ended_in_s:.0f} of {WITHIN_S:.0f} s" if in_time else None),
            Promise("best effort goes on from its checkpoint", "sweep runs again" if self.goes_on else None),
        ]


def _kind(told: str) -> str:
    return told.partition(",")[0].partition(":")[0]
