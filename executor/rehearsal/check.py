"""Try a few steps of a script as a job: with one and two replicas, in several passes, with larger batches.

`trials` (pure) decides what to try, from what the job allows and what the script reports at `prepare`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.batch_plan import BatchPlan
from ...core.reports import Habits, Report
from ...core.training_config import CheckpointConfig, TrainingConfig
from ..protocol import messages
from ..protocol.messages import Crashed, Finished, Joined, Left, Ready, Stop
from .group import Crash, Hang, Member, TrainingGroup, Unmet, gpu_environment, steps_told
from .rehearsed import NOTES, Notes, differing

STEPS = 2  # made in each trial, at least
LIMIT_S = 120.0  # of a whole check
_SAID = "coadapt: "  # begins what the session tells a script's owner
_KINDS = {
    "MEAN": "a mean over samples",
    "SUM": "a sum over samples",
    "WEIGHTED": "a mean over targets that are counted",
    "CONSTANT": "of no samples",
    "MIXED": "of several terms, each weighted by itself",
    "BATCH": "no sum over samples",
}


@dataclass(frozen=True)
class Subject:
    """Describe what to check. `folder` is a copy of the working directory with `script` in it; `env` is the job's.

    `fewest` and `most` bound the job's replicas.
    """

    folder: Path
    script: str
    args: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    training: TrainingConfig = field(default_factory=TrainingConfig)
    fewest: int = 1
    most: int = 64


@dataclass(frozen=True)
class Trial:
    """Let `replicas` train by `batch` (None: the script's own batch in one pass); `words` describes it for people.

    `larger`: the batch is larger than the script's own.
    """

    words: str
    replicas: int
    batch: BatchPlan | None = None
    larger: bool = False


@dataclass(frozen=True)
class Verdict:
    """Say whether a script works as a job. `problem` is one sentence why it does not, or "".

    `tried` lists what went well, `losses` the kinds of losses found, `notes` what its owner should know. `output`
    is what rank 0 wrote.
    """

    problem: str
    tried: tuple[str, ...] = ()
    steps: int = 0
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    output: str = ""

    @property
    def works(self) -> bool:
        return not self.problem


def trials(subject: Subject, ready: Ready) -> tuple[list[Trial], list[str]]:
    """Return what to try with a script, fewer replicas first, and sentences why other ways are not tried."""
    training, size, least = subject.training, ready.initial_batch_size, ready.least_local_bsz
    counts = [count for count in (1, 2) if subject.fewest <= count <= subject.most]
    counts = counts or [2]  # two replicas are enough to find out
    found, left_out = [], []
    passes = (
        {count: _in_two_passes(size, count, least) for count in counts} if training.gradient_accumulation else {}
    )
    with_passes = max((count for count, plan in passes.items() if plan), default=0)
    if not training.gradient_accumulation:
        left_out.append("several passes were not tried, since training.gradient_accumulation is false")
    elif not with_passes:
        left_out.append(f"a batch of {size} is too small for two passes, which were not tried")
    for count in counts:
        who = f"{_number(count)} replica{'s' if count > 1 else ''}"
        found.append(Trial(who, count))
        if count == with_passes:
            found.append(Trial(f"{who} in two passes", count, passes[count]))
    most = training.max_batch_size or size
    if most >= 2 * size:
        last = counts[-1]
        plan = BatchPlan(-(-size // last), 0, 2 * size)
        found.append(Trial(f"batches of {2 * size}", last, plan, larger=True))
    return found, left_out


def _in_two_passes(size: int, replicas: int, least: int) -> BatchPlan | None:
    each = size // (2 * replicas)
    return BatchPlan(-(-size // (2 * replicas)), 1, size) if each >= max(least, 1) else None


def check(subject: Subject, scratch: Path, limit_s: float = LIMIT_S) -> Verdict:
    """Try a script; its files go into `scratch`, and no process is left when this returns."""
    return _Check(subject, scratch, limit_s).verdict()


class _Check:
    """Hold one check: what was tried so far, and what is tried now."""

    def __init__(self, subject: Subject, scratch: Path, limit_s: float) -> None:
        self.subject = subject
        self._scratch = scratch
        self._limit_s = limit_s
        self._until_s = time.monotonic() + limit_s
        self._todo: list[Trial] | None = None
        self._tried: list[str] = []
        self._notes: list[str] = []
        self._steps = 0
        self._has_ended = False
        self._doing = "at its start"
        self._leaders: list[Member] = []  # rank 0 of each group, whose output the owner would see
        self._job = self._group()

    def verdict(self) -> Verdict:
        problem = ""
        with self._job:
            try:
                while self._todo is None or self._todo:
                    self._run()
            except Crash as crash:
                problem = self._crashed(crash.event)
            except (Hang, Unmet) as error:
                problem = f"{self._doing}: {error}"
            problem = problem or self._difference()
        kinds = dict.fromkeys(kind for notes in self._all_notes() for kind in notes.losses)
        if not problem and any(notes.one_pass for notes in self._all_notes()):
            self._notes.append(
                "each of its batches takes one pass, whatever the job's batch size: it makes several steps of one"
            )
        if not problem and not self._has_ended and not any(report.progress.epoch for report in self._reports()):
            self._notes.append(
                "no pass over the data came to its end: what the script does after one, such as a validation, was "
                "not tried"
            )
        self._notes += [told for told in self._told() if told not in (problem, *self._notes)]
        losses = tuple(_KINDS[kind] for kind in kinds)
        output = "".join(leader.output() for leader in self._leaders)
        return Verdict(problem, tuple(self._tried), self._steps, losses, tuple(self._notes), output)

    # --- driving a group ------------------------------------------------------------------------------------

    def _group(self) -> TrainingGroup:
        subject = self.subject
        training = subject.training.model_copy(
            update={
                "report_interval_s": 0.05,
                "checkpoint": CheckpointConfig(every_minutes=None, at_epoch_end=False),
            }
        )
        outputs = self._scratch / "outputs"
        outputs.mkdir(parents=True, exist_ok=True)
        env = {**(subject.env or {}), messages.OUTPUT_DIR: str(outputs), messages.MODE: "train"}
        job = TrainingGroup(
            subject.folder / subject.script,
            self._scratch,
            training,
            env=env,
            args=subject.args,
            module="coadapt.executor.rehearsal.rehearsed",
            cwd=subject.folder,
        )
        job.limit_s = self._limit_s
        return job

    def _run(self) -> None:
        """Start the script again and try what is left to try, up to its end."""
        job = self._job
        job.killed |= set(job.members)
        members = [self._start(len(job.members)) for _ in range(2 if self.subject.most > 1 else 1)]
        self._leaders.append(members[0])
        ready = self._until(lambda: [m.first(Ready) for m in members], "call of coadapt.prepare", everyone=True)[0]
        if self._todo is None:
            self._todo, self._notes = trials(self.subject, ready)
        made = 0
        try:
            for number, trial in enumerate(list(self._todo)):
                trial = self._of_its_steps(trial)
                self._doing = f"with {trial.words}"
                ended, made = self._make_steps(members, trial)
                if not ended or number == 0:  # else the script ended within this trial, which is repeated
                    self._tried.append(trial.words)
                    self._todo.pop(0)
                if ended:
                    self._has_ended = True
                    return
            self._doing = "at its end, where its state is saved"
            self._stop(members)
        finally:
            self._steps += max([made, *(steps_told(event) for m in members for event in m.events)])
            for member in members:
                if not member.all(Crashed):
                    member.kill()
                    job.killed.add(member)

    def _start(self, number: int) -> Member:
        env = {NOTES: str(self._notes_of(number))}
        if Path("/dev/nvidia0").exists():
            env |= gpu_environment(number)
        return self._job.start(1, env, ready=False)[0]

    def _make_steps(self, members: Sequence[Member], trial: Trial) -> tuple[bool, int]:
        """Train a few steps that way; return whether the script has ended by itself, and its steps."""
        job, group = self._job, members[: trial.replicas]
        before = job.group if job.group and job.group[0] in members else []
        job.group = list(before)
        generation = job.join(group, trial.batch, wait=False)

        def next_of(kind: Any, wanted: Callable[[Any], bool]) -> Any:
            what = "step by the loader that prepare returned"
            return self._until(lambda: group[0].first(Finished) or group[0].first(kind, wanted), what)

        joined = next_of(Joined, lambda event: event.generation == generation)
        if isinstance(joined, Finished):
            return True, joined.steps
        enough = joined.steps + STEPS
        done = next_of(object, lambda event: steps_told(event) >= enough)
        return (True, done.steps) if isinstance(done, Finished) else (False, steps_told(done))

    def _of_its_steps(self, trial: Trial) -> Trial:
        """Return a trial of larger batches that fits a script whose steps take several of its batches."""
        per_step = max((habits.per_step for habits in self._habits()), default=1)
        batch = trial.batch
        if per_step == 1 or batch is None or not trial.larger or batch.batch_size is None:
            return trial
        size = batch.batch_size * per_step
        return Trial(f"batches of {size}", trial.replicas, BatchPlan(batch.local_bsz, 0, size), larger=True)

    def _habits(self) -> Iterator[Habits]:
        yield from (report.habits for report in self._reports() if report.habits is not None)

    def _reports(self) -> Iterator[Report]:
        for leader in self._leaders:
            yield from leader.all(Report)

    def _stop(self, members: Sequence[Member]) -> None:
        """End the script as a job is ended that gives up its GPUs."""
        group = self._job.group
        for member in group:
            member.send(Stop(save=True))
        self._until(lambda: [m.first(Left) or m.first(Finished) for m in group], "end", everyone=True)

    def _until(self, found: Callable[[], Any], what: str, everyone: bool = False) -> Any:
        def look() -> Any:
            if time.monotonic() > self._until_s:
                raise Hang(f"no {what} in the {self._limit_s:g} s of this check")
            value = found()
            return value if not everyone or all(value) else None

        return self._job.until(look, what)

    # --- the result --------------------------------------------------------------------------------

    def _notes_of(self, number: int) -> Path:
        return self._scratch / f"notes-{number}.json"

    def _all_notes(self) -> Iterator[Notes]:
        for number in range(len(self._job.members)):
            yield Notes.read(self._notes_of(number))

    def _difference(self) -> str:
        from ..training.sessions.parameter_samples import alike

        notes = list(self._all_notes())
        for first, second in zip(notes[::2], notes[1::2], strict=False):
            if found := differing(first, second, alike):
                return (
                    f"with two replicas: {found[1]} is not the same on both after a step; something changes it "
                    "that is not made of combined gradients"
                )
        return ""

    def _told(self) -> list[str]:
        """Return what the session told the script's owner."""
        lines = [line for leader in self._leaders for line in leader.output().splitlines()]
        return list(dict.fromkeys(line.removeprefix(_SAID) for line in lines if line.startswith(_SAID)))

    def _crashed(self, event: Crashed) -> str:
        place = "" if event.unfit else place_of(event.traceback, self.subject.folder)
        summary = event.summary
        if place:
            summary += f" ({place})"
        elif re.search(r" exited with status \d+$", summary):  # why was written, as argparse does
            # Any member may have written it, not only the one whose log is shown.
            written = [line.strip() for member in self._job.members for line in member.output().splitlines()]
            told = [line for line in written if line and not line.endswith(summary)]
            summary += f": {told[-1]}" if told else ""
        return f"{self._doing}: {summary}" if self._todo else summary


def place_of(traceback: str, folder: Path) -> str:
    """Return the innermost line of the user's own files in a traceback, or ""."""
    frames = re.findall(r'File "(.+?)", line (\d+)', traceback)
    root = os.path.realpath(folder) + os.sep
    own = [(os.path.realpath(file), line) for file, line in frames if os.path.realpath(file).startswith(root)]
    return f"{own[-1][0].removeprefix(root)}, line {own[-1][1]}" if own else ""


def said(verdict: Verdict, name: str) -> str:
    """Return the verdict in one sentence."""
    if verdict.problem:
        return f"{name} does not work as an elastic job: {verdict.problem}"
    if not verdict.tried:
        return f"{name} is started as it is; only scripts that call coadapt.prepare are tried"
    losses = f"; its loss{'es are' if len(verdict.losses) > 1 else ' is'} {_list(verdict.losses)}"
    steps = f"{verdict.steps} step{'s' if verdict.steps != 1 else ''}"
    return f"{name} works as a job: {steps} with {_list(verdict.tried)}{losses if verdict.losses else ''}"


def _list(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1] if words else ""


def _number(count: int) -> str:
    return {1: "one", 2: "two"}.get(count, str(count))
