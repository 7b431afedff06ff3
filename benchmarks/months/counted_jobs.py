"""Training jobs that write each of their steps to a file, so that none is lost or made twice unseen."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coadapt.client.client import Client
from coadapt.core.errors import StateError

PATIENCE_S = 240.0
SCRIPT = Path(__file__).parents[1] / "scripts" / "counted_steps.py"


@dataclass(frozen=True)
class Step:
    """A step that a training process has done: which one, by whom, and when."""

    number: int
    pid: int
    at_s: float


def submit(client: Client, folder: Path, number: int) -> Path:
    """Submit a job that writes its steps to a file; return the file."""
    home, file = folder / f"job{number}", folder / f"steps{number}"
    home.mkdir()
    (home / "train.py").write_text(SCRIPT.read_text())
    (home / "job.yaml").write_text(
        f"name: steps-{number}\nscript: train.py\nargs: [{file}]\nresources: {{max_gpus: 1}}\n"
        "training: {report_interval_s: 2}\n"
    )
    client.submit(home / "job.yaml")
    return file


def patiently(submits: Callable[[], str]) -> str:
    """Return what a submit returns, which is repeated while nothing can be stored. Raises: StateError."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return submits()
        except StateError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.5)  # it says that it heals by itself


def steps_in(file: Path) -> list[Step]:
    """Return the steps that are written; the last line may be cut."""
    lines = file.read_text().splitlines(keepends=True) if file.exists() else []
    found = [line.split() for line in lines if line.endswith("\n")]
    return [Step(int(number), int(pid), float(at_s)) for number, pid, at_s in found]


def lost_steps(steps: Sequence[Step]) -> int:
    """Return how many steps were made twice or left out."""
    numbers = [step.number for step in steps]
    return len(numbers) - len(set(numbers)) + (max(numbers) - min(numbers) + 1 - len(set(numbers)))


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds. Raises: SystemExit if it does not."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline_s:
            raise SystemExit(f"the jobs have not come far enough in {PATIENCE_S:.0f} s")
        time.sleep(0.2)  # between two looks, up to a limit
