"""When a job that keeps failing is given up. Pure counting."""

from __future__ import annotations

from dataclasses import dataclass

# Losses that no step followed at all, or that never got past the step of an earlier loss, are bounded too: a
# script that segfaults deterministically must stop, while one on an unlucky machine must not.
FRUITLESS_LOSSES = 3
REPEATED_LOSSES = 12


@dataclass
class FailureBudget:
    """Counts the user's own errors and lost workers of one job.

    User errors are bounded by `max_failures` for the job's whole life. A lost worker is not the job's fault
    and costs nothing, unless losses repeat without progress.
    """

    max_failures: int
    failures: int = 0
    recoveries: int = 0
    _fruitless: int = 0
    _repeated: int = 0
    _furthest: int = -1

    def user_error(self) -> bool:
        """Count an error of the script; True when the job has to be given up."""
        self.failures += 1
        return self.failures > self.max_failures

    def loss(self, steps: int, steps_since_formed: int) -> bool:
        """Count a lost worker at optimizer step `steps`; True when the job has to be given up."""
        self.recoveries += 1
        self._fruitless = self._fruitless + 1 if steps_since_formed <= 0 else 0
        self._repeated = self._repeated + 1 if steps <= self._furthest else 0
        self._furthest = max(self._furthest, steps)
        bound = max(self.max_failures, FRUITLESS_LOSSES)
        return self._fruitless > bound or self._repeated > max(self.max_failures, REPEATED_LOSSES)
