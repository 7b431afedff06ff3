"""Removes the folders of ended jobs from machines. Outputs and checkpoints stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...core.events import EventKind
from ...core.settings import Settings
from ...executor.files.job_folder import work_folder
from ...executor.files.site import Site
from ..access.lines import line_of
from ..jobs.record import JobRecord
from ..nodes.machines import Machines
from ..runtime.clock import Clock
from ..store.events import Event
from ..store.store import Store
from .hooks import CycleHook


class FolderHook(CycleHook):
    """Removes the folders of a job that has ended from the machines it ran on."""

    def __init__(self, store: Store, machines: Machines, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._machines = machines
        self._settings = settings
        self._clock = clock

    def retired(self, job: JobRecord) -> None:
        """Have the job's folders removed. Its log tells what has to stay for now."""

        def tell(text: str) -> None:
            self._store.log(Event(EventKind.OUTPUTS, self._clock.steady_s(), job.id, {"text": text}))

        if job.package is not None:
            url = self._settings.outputs_url(job.id, job.spec.training.checkpoint.url)
            site = Site(
                job.folder,
                self._settings.state_dir,
                outputs_url=url,
                line=line_of(job.id, self._settings),
            )
            self._machines.clean(job.machines, site, tell)

    def clean_rest(self) -> None:
        """Remove folders of ended lives of jobs that an earlier service did not clean up."""
        work = str(work_folder(self._settings.state_dir))
        left = {path.name.rpartition("-")[0] for path in Path(work).glob("*-*")}
        for job_id in sorted(left):
            if (job := self._store.find(job_id)) is None or job.package is None:
                continue
            for life in range(job.life + job.retired):
                ended = replace(job, life=life)
                if Path(work, ended.folder).exists():
                    self.retired(ended)
