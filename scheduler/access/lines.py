"""How the processes of a job are set apart, by the operator's settings."""

from __future__ import annotations

from ...core.settings import Settings
from ...executor.files.workplace import local_path
from ...executor.sandbox.line import Line


def line_of(job_id: str, settings: Settings) -> Line:
    """Return the line around the processes of a job."""
    root = local_path(settings.checkpoints)
    return Line.of(
        job_id,
        settings.isolation,
        state_dir=settings.state_dir,
        roots=(str(root),) if root is not None else (),
        paths=tuple(settings.isolation_paths),
        passed=tuple(settings.pass_env),
    )
