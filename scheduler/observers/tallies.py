"""Counts what happens to jobs and rounds since the service began, for `figures.py`."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from ...core.figures import QUEUE_S, ROUND_S, Histogram, Tallied, of_types
from ...core.job import JobState, Phase
from ...core.slot import Slot
from ..jobs.record import JobRecord
from ..runtime.clock import Clock
from .hooks import Change, CycleHook, RoundDone

COUNTED = ("restarts", "resizes", "recoveries", "evictions", "failures")  # fields of a job's state


class Durations:
    """A histogram that grows."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts, self._sum_s = [0] * (len(bounds) + 1), 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum_s += seconds

    def shown(self) -> Histogram:
        """Return it as it is told."""
        return Histogram(counts=list(self._counts), sum_s=self._sum_s)


class GpuTime:
    """Seconds x GPUs of each type, by the parts held of them, added up between changes of who has how many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock.monotonic_s()
        self._of: dict[str, Mapping[str, float]] = {}  # by job
        self._now: defaultdict[str, float] = defaultdict(float)
        self._sums: defaultdict[str, float] = defaultdict(float)

    def change(self, job_id: str, slots: Iterable[Slot]) -> None:
        """Let a job have other GPUs from now on."""
        found: defaultdict[str, float] = defaultdict(float)
        for slot in slots:
            found[slot.gpu_type] += slot.weight
        before = self._of.get(job_id, {})
        if found == before:
            return
        self._add_up()
        for sign, gpus_of in ((-1, before), (1, found)):
            for gpu_type, gpus in gpus_of.items():
                self._now[gpu_type] += sign * gpus
        self._of[job_id] = found
        if not found:
            del self._of[job_id]

    def sums(self) -> dict[str, float]:
        """Return what has come together by now."""
        self._add_up()
        return dict(self._sums)

    def _add_up(self) -> None:
        now_s = self._clock.monotonic_s()
        for gpu_type, gpus in self._now.items():
            self._sums[gpu_type] += gpus * (now_s - self._at_s)
        self._at_s = now_s


class Trained:
    """Samples that jobs trained on, and the progress that these were worth. What is done again is left out."""

    def __init__(self) -> None:
        self.samples = self.progress = 0.0
        self._furthest: dict[str, tuple[int, float, float]] = {}  # by job: life, samples, progress

    def change(self, job: JobRecord) -> None:
        """Count what a job has done beyond the furthest that was known of its life."""
        if not job.report:
            return
        samples = float(job.report.get("samples", 0.0))
        progress = float(job.report.get("progress_samples", 0.0))
        known = self._furthest.get(job.id)
        if known is None or known[0] != job.life:
            # A life may begin from a checkpoint, and this process in the midst of one: both count from here on.
            self._furthest[job.id] = job.life, samples, progress
        elif samples > known[1]:
            self.samples += samples - known[1]
            self.progress += max(progress - known[2], 0.0)
            self._furthest[job.id] = job.life, samples, max(progress, known[2])

    def forget(self, job_id: str) -> None:
        """Forget how far a job was; its sums stay."""
        self._furthest.pop(job_id, None)


class Tallies(CycleHook):
    """Counts. Whoever reads or writes it holds the lock of the cycle.

    Args:
        jobs: those that are active at the start, with what they have then.
    """

    def __init__(self, clock: Clock, jobs: Iterable[JobRecord]) -> None:
        self.round_s, self.queue_s = Durations(ROUND_S), Durations(QUEUE_S)
        self.held, self.training = GpuTime(clock), GpuTime(clock)
        self.trained = Trained()
        self.rounds_failed = self.executors_lost = self.submitted = 0
        self.ended: Counter[str] = Counter({phase.value: 0 for phase in Phase if phase.is_terminal})
        self.happened: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
        for job in jobs:
            self._note_gpus(job)
            self.trained.change(job)

    def told(self) -> Tallied:
        """Return what has come together by now."""
        return Tallied(
            round_s=self.round_s.shown(),
            rounds_failed=self.rounds_failed,
            queue_s=self.queue_s.shown(),
            submitted=self.submitted,
            ended=dict(self.ended),
            restarts=self.happened["restarts"],
            resizes=self.happened["resizes"],
            recoveries=self.happened["recoveries"],
            evictions=self.happened["evictions"],
            failures=self.happened["failures"],
            executors_lost=self.executors_lost,
            held_gpu_s=of_types(self.held.sums()),
            training_gpu_s=of_types(self.training.sums()),
            samples=self.trained.samples,
            progress_samples=self.trained.progress,
        )

    def planned(self, done: RoundDone) -> None:
        """Count a round."""
        self.round_s.add(done.seconds)

    def changed(self, change: Change) -> None:
        """Count what is new of a job."""
        before, after = change.before.state, change.after.state
        if before is not after:
            self._count(change.before, change.after, before, after)
        self._note_gpus(change.after)
        if change.after.report is not change.before.report:
            self.trained.change(change.after)

    def retired(self, job: JobRecord) -> None:
        """Let it have no GPUs."""
        self.held.change(job.id, ())
        self.training.change(job.id, ())
        self.trained.forget(job.id)

    def _count(self, old: JobRecord, new: JobRecord, before: JobState, after: JobState) -> None:
        for name in COUNTED:
            self.happened[name] += max(getattr(after, name) - getattr(before, name), 0)
        if before.started_s is None and after.started_s is not None:
            self.queue_s.add(max(after.started_s - after.submitted_s, 0.0))
        if old.active and not new.active:
            self.ended[new.phase.value] += 1

    def _note_gpus(self, job: JobRecord) -> None:
        self.held.change(job.id, job.occupied)
        self.training.change(job.id, job.group)
