"""A job's run in W&B, whose id is that of the job wherever it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .values import Values

STEP = "steps"  # of the optimizer; a script's own steps stay its own


class WandbRun:
    """The run of one job. One that the script has begun is used as it is."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._run: Any = None

    def begin(self) -> None:
        """Go on with the run of the job, or begin it."""
        import wandb

        if wandb.run is not None:
            self._run = wandb.run
            return
        self._run = wandb.init(id=self._job_id, name=self._job_id, resume="allow")

    def log(self, values: Sequence[Values]) -> None:
        """Add values, oldest first."""
        for one in values:
            self._run.log({**one.metrics, **({} if one.step is None else {STEP: one.step})})

    def end(self, good: bool) -> None:
        """Say that this process adds nothing more; one that goes on elsewhere opens the run again."""
        self._run.finish(exit_code=0 if good else 1)
