"""What a cycle needs of executors: they take commands, and tell what they do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ...core.slot import Slot
from ...executor.executor_job import ExecutorStatus
from ..jobs.record import JobRecord


class ExecutorBackend(Protocol):
    """Talks to executors, as `actors.Executors` does. Commands return at once and may be repeated."""

    def assign(self, job: JobRecord, slots: Sequence[Slot], sequence: int) -> None:
        """Have the job train on exactly these slots."""

    def profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        """Have one replica measured in a slot."""

    def end_profile(self, job: JobRecord, slot: Slot, sequence: int) -> None:
        """Give up a profile run."""

    def save(self, job: JobRecord) -> None:
        """Have the job write a checkpoint and go on; it must be trained by an `AdaptiveExecutor`."""

    def keep(self, job: JobRecord, with_state: bool) -> None:
        """Have a group train only the trials of its record on; with the others' states kept, or not."""

    def cancel(self, job: JobRecord) -> None:
        """End everything of a job at once."""

    def restart(self, job: JobRecord) -> None:
        """End the executor and its workers. The executor starts again, empty."""

    def retire(self, job: JobRecord) -> None:
        """End the executor of a job whose life has ended."""

    def retire_others(self, jobs: Sequence[JobRecord]) -> None:
        """End the executors of all jobs but these, and of earlier lives of these, whoever made them."""

    def statuses(self, jobs: Sequence[JobRecord], timeout_s: float) -> Mapping[str, ExecutorStatus | None]:
        """Return the status of every executor that exists, None for one that does not answer in time."""
