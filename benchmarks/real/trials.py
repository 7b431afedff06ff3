"""One script in one scenario, and the verdict."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from coadapt import executor
from coadapt.executor.rehearsal.group import Crash, Hang, Unmet

from .compare import Outcome, differences, read
from .group import HeldGroup
from .heads import HANG, PARTS, REFUSED, RIGHT, WRONG, Head, head_of
from .processes import Process, run_alone, run_ddp, run_torchrun
from .reference import Phase
from .scenarios import SCENARIOS, Scenario

LIMIT_S = 180.0  # of one run
EXECUTOR = Path(executor.__file__).resolve().parent
ALONE, TORCHRUN = "alone", "torchrun"
ALL_SCENARIOS = (TORCHRUN, *SCENARIOS)
DDP = "ddp"  # the reference of models whose statistics are over a replica's part of a batch


@dataclass(frozen=True)
class Verdict:
    """`problems` say what is not as it should be; `sentence` is what a refusal said."""

    script: str
    scenario: str
    outcome: str
    expected: str
    problems: tuple[str, ...] = ()
    sentence: str = ""
    wall_s: float = 0.0

    @property
    def as_expected(self) -> bool:
        return self.outcome == self.expected


class Trials:
    """Runs of one script; the runs that others are compared with are made once."""

    def __init__(self, script: Path, folder: Path) -> None:
        self.script = script
        self.head: Head = head_of(script)
        self._folder = folder / script.stem
        self._runs: dict[str, Future[Outcome]] = {}
        self._making = threading.Lock()

    def verdict(self, scenario: str) -> Verdict:
        """Run a scenario and compare it."""
        started_s = time.perf_counter()
        outcome, problems, sentence = self._judged(scenario)
        wall_s = time.perf_counter() - started_s
        expected = self.head.outcome(scenario)
        return Verdict(self.script.stem, scenario, outcome, expected, tuple(problems), sentence, wall_s)

    def _judged(self, scenario: str) -> tuple[str, list[str], str]:
        head = self.head
        try:
            alone = self.run(ALONE)
        except (Hang, Unmet) as error:
            return WRONG, [f"the script fails alone: {error}"], ""
        try:
            got = self.run(scenario)
        except Crash as crash:
            if crash.steps <= 0 and _is_refusal(crash):
                return REFUSED, [], str(crash)
            return WRONG, [f"failed after {crash.steps + 1} steps: {crash}", _last_frames(crash)], ""
        except Hang as hang:
            return HANG, [str(hang)], ""
        except Unmet as unmet:
            sentence = refusal_in(str(unmet)) if scenario == TORCHRUN else ""
            return (REFUSED, [], sentence) if sentence else (WRONG, [str(unmet)], "")
        try:
            reference = alone if scenario == "one" else self._reference(got)
        except (Crash, Hang, Unmet) as error:
            return WRONG, [f"the reference failed: {error}"], ""
        parts = [part for part in PARTS if head.compares(part, scenario)]
        if scenario == TORCHRUN:
            parts = [part for part in parts if part != "metrics"]  # nobody combines them there
        if scenario == "one" == head.reference:
            parts = [part for part in parts if part == "seen"]
        problems = differences(
            reference,
            got,
            seen=alone.seen,
            parts=parts,
            replays=scenario in SCENARIOS and SCENARIOS[scenario].replays,
            tolerance=head.tolerance,
        )
        return (WRONG if problems else RIGHT), problems, ""

    def _reference(self, got: Outcome) -> Outcome:
        if self.head.reference != DDP:
            return self.run(self.head.reference)
        return self.run(DDP + " " + " ".join(f"{p.step}:{p.replicas}x{p.passes}" for p in got.phases), got.phases)

    def run(self, name: str, phases: Sequence[Phase] = ()) -> Outcome:
        """Return the outcome of a run by its name; it is run when it is first asked for.

        Groups that changed alike share a run of `phases`.
        """
        with self._making:
            made = self._runs.get(name)
            mine = made is None
            if made is None:
                made = self._runs[name] = Future()
        if mine:
            try:
                made.set_result(self._make(name, phases))
            except BaseException as error:
                made.set_exception(error)
        return made.result()

    def _make(self, name: str, phases: Sequence[Phase]) -> Outcome:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if name == ALONE:
            _finish(Process(run_alone, self.script, _environment(folder), folder), folder / "alone.log")
            return read(folder, ["0"])
        if name == TORCHRUN:
            _finish(Process(run_torchrun, self.script, _environment(folder), folder, 2), folder / "torchrun.log")
            return replace(read(folder, ["0", "1"]), phases=[Phase(0, 2, 1)])
        if phases:
            _finish(Process(run_ddp, self.script, _environment(folder), folder, phases), folder / "alone.log")
            return read(folder, ["0"])
        return self._make_group(SCENARIOS[name], folder)

    def _make_group(self, scenario: Scenario, folder: Path) -> Outcome:
        with HeldGroup(self.script, folder, scenario.gates, **scenario.training) as job:
            ended = scenario.drive(job)
            outcome = read(folder, [str(job.members.index(member)) for member in ended])
            for report in job.reports():
                if report.progress.epoch and report.metrics:  # the first one after an epoch has what it ended with
                    outcome.reported.setdefault(report.progress.epoch - 1, dict(report.metrics))
            last = max(self.run(ALONE).reported, default=0)
            outcome.reported[last] = dict(job.finished_metrics())
            outcome.phases = job.phases()
            return outcome


def _environment(folder: Path) -> Mapping[str, str]:
    words = {key: value for key, value in os.environ.items() if not key.startswith("COADAPT")}
    return words | {"OUT": str(folder), "OMP_NUM_THREADS": "1"}


def _finish(process: Process, log: Path) -> None:
    try:
        code = process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Hang(f"not done after {LIMIT_S:g} s; {_tail(log)}") from None
    if code != 0:
        raise Unmet(f"ended with status {code}; {_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text()[-4000:].strip() if log.exists() else ""


def _last_frames(crash: Crash) -> str:
    frames = [line.strip() for line in crash.event.traceback.splitlines() if line.strip().startswith('File "')]
    return "\n".join(frames[-2:])


def _is_refusal(crash: Crash) -> bool:
    """Return whether Coadapt said it, in one sentence: no error that comes out of torch or the script."""
    summary, trace = str(crash).strip(), crash.event.traceback.strip()
    frames = [line for line in trace.splitlines() if line.strip().startswith('File "')]
    said_by_us = _is_ours(frames[-1]) if frames else trace == summary
    return bool(summary) and "\n" not in summary and said_by_us


def refusal_in(log: str) -> str:
    """Return the sentence that Coadapt ended a process with, by what it wrote; "" where it was something else."""
    lines = [re.sub(r"^\[\w+\]:", "", line).strip() for line in log.splitlines()]
    errors = [i for i, line in enumerate(lines) if re.match(r"\w*Error: \S", line)]
    for i in errors:
        frames = [line for line in lines[:i] if line.strip().startswith('File "')]
        if frames and _is_ours(frames[-1]):
            return lines[i]
    return ""


def _is_ours(frame: str) -> bool:
    named = re.search(r'File "([^"]+)"', frame)
    return named is not None and EXECUTOR in Path(named[1]).resolve().parents
