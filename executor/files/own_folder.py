"""What a job has on a machine beside its working folder: a home, temporary files, what pip installed for it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from ..sandbox.ownership import let_pass, make_private

OWN = ".own"  # beside the job's folder


class OwnFolder:
    """Make the folder of a job, which goes with the job's other folders.

    keyed: whether the job has such folders; else this one goes when it is closed. Raises: OSError.
    """

    def __init__(self, work: Path, key: str, keyed: bool, uid: int | None) -> None:
        self._passing = not keyed
        self.path = own_folder(work, key) if keyed else Path(tempfile.mkdtemp(prefix="coadapt-own-"))
        if uid is not None:
            for folder in (work, *list(work.parents)[:2]):  # work/<machine> below the state folder
                let_pass(folder)
        make_private(self.path, uid)
        self.home, self.tmp = self.path / "home", self.path / "tmp"
        for folder in (self.home, self.tmp):
            make_private(folder, uid)

    def close(self) -> None:
        if self._passing:
            shutil.rmtree(self.path, ignore_errors=True)


def own_folder(work: Path, key: str) -> Path:
    return work / f".{key}{OWN}"


def pip_lock(own: Path) -> Path:
    """Return the file that whoever installs requirements locks."""
    return own.with_name(f"{own.name}.pip")
