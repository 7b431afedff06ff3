"""Hands out the files that jobs leave as outputs, in parts."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.output_tree import Name, Output
from ...core.settings import Settings
from ..access.lines import line_of
from ..files.outputs import Outputs
from ..store.store import Store


class OutputsDesk:
    """Answers for outputs of jobs."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings

    def output_page(self, job_id: str, after: Name = ()) -> Sequence[Output]:
        """Return outputs of a job after a name, as `Outputs.page` does. Raises: KeyError, OutputError."""
        return self._outputs(job_id).page(after)

    def output_contents(self, job_id: str, names: Sequence[Name]) -> Sequence[bytes | None]:
        """Return contents of a job's outputs, as `Outputs.contents` does. Raises: KeyError, OutputError."""
        return self._outputs(job_id).contents(names)

    def output_part(self, job_id: str, name: Name, offset: int) -> bytes | None:
        """Return a part of an output, as `Outputs.part` does. Raises: KeyError, OutputError."""
        return self._outputs(job_id).part(name, offset)

    def _outputs(self, job_id: str) -> Outputs:
        job = self._store.get(job_id)
        url = self._settings.outputs_url(job.id, job.spec.training.checkpoint.url)
        return Outputs(url, line_of(job_id, self._settings).uid)
