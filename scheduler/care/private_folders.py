"""The service's folders are closed to all other users of the machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...core.isolation import Isolation
from ...core.settings import Settings
from ...executor.files.workplace import local_path
from ...executor.sandbox.ownership import PASSABLE, PRIVATE, closed_to

# What lies in the state folder, beside what jobs have a part in.
_OWN = ("logs", "packages", "learned", "backups")
_PARTLY_JOBS = ("work", "checkpoints")


def close_folders(settings: Settings) -> None:
    """Make the service's folders, which only its user enters.

    With a user of its own for each job, others pass through those in which jobs have folders, and see nothing.
    """
    root = Path(settings.state_dir)
    passing = PASSABLE if settings.isolation is Isolation.USER else PRIVATE
    _close(root, passing)
    for name in _OWN:
        _close(root / name, PRIVATE)
    for name in _PARTLY_JOBS:
        _close(root / name, passing)


def unreachable(settings: Settings) -> str:
    """Return why jobs with users of their own could not reach their folders, in one sentence, or ""."""
    if settings.isolation is not Isolation.USER:
        return ""
    checkpoints = local_path(settings.checkpoints)
    for path in (Path(settings.state_dir), *([] if checkpoints is None else [checkpoints.parent])):
        if (closed := closed_to(path.parent)) is not None:
            return (
                f"isolation: user: {closed} is closed to other users, so that jobs do not reach {path};"
                " COADAPT_HOME names another folder"
            )
    return ""


def _close(folder: Path, mode: int) -> None:
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX:  # a folder of all, as /tmp, stays so
        folder.chmod(mode)
