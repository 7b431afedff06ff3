"""Finds and removes files of jobs that have ended: checkpoints, outputs, logs and packages."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import fsspec

from ...core.package_form import ENDING, PART
from ...core.settings import Settings
from ...executor.files.workplace import local_path
from ..store.retention import JobFiles, PackageFile

OUTPUTS = "outputs"
GONE = ".removed-"  # begins names of folders that are being removed
TORN_S = 86_400.0  # no package takes so long to come


class JobFolders:
    """The folders of jobs below the cluster's own place for checkpoints, each with checkpoints and outputs.

    Args:
        lock: no job begins again, and none is forked, while it is held.
        over: returns whether a job has ended and nobody starts from its checkpoints.
    """

    def __init__(
        self, settings: Settings, lock: AbstractContextManager[object], over: Callable[[str], bool]
    ) -> None:
        self._url = settings.checkpoint_url("x", None).removesuffix("/x")
        self._local = local_path(self._url) is not None
        self._logs = settings.log_dir
        self._lock, self._over = lock, over
        self._sizes: dict[str, tuple[int, int]] = {}  # bytes of checkpoints and outputs of ended jobs

    @cached_property
    def _place(self) -> tuple[Any, str]:
        """Return the file system and the root; looked up when first needed, as it may be out of reach."""
        return cast("tuple[Any, str]", fsspec.core.url_to_fs(self._url))

    @property
    def _fs(self) -> Any:
        return self._place[0]

    @property
    def _root(self) -> str:
        return self._place[1].rstrip("/")

    def names(self) -> list[str]:
        """Return the jobs that have a folder."""
        try:
            self._fs.invalidate_cache(self._root)
            found = [str(path).rstrip("/").rsplit("/", 1)[-1] for path in self._fs.ls(self._root, detail=False)]
        except FileNotFoundError:
            return []
        return sorted(name for name in found if not name.startswith("."))

    def found(self, ends: Mapping[str, float]) -> tuple[list[JobFiles], list[JobFiles]]:
        """Return the checkpoints and the outputs of jobs that have ended, by their ends."""
        self._sizes = {job_id: size for job_id, size in self._sizes.items() if job_id in ends}
        checkpoints, outputs = list[JobFiles](), list[JobFiles]()
        for job_id, end_s in ends.items():
            if job_id not in self._sizes:
                self._sizes[job_id] = self._measured(job_id)
            some, others = self._sizes[job_id]
            checkpoints += [JobFiles(job_id, end_s, some)] if some else []
            outputs += [JobFiles(job_id, end_s, others)] if others else []
        return checkpoints, outputs

    def _measured(self, job_id: str) -> tuple[int, int]:
        folder = f"{self._root}/{job_id}"
        found = self._fs.find(folder, detail=True)
        below = f"{folder}/{OUTPUTS}/"
        outputs = sum(int(told.get("size") or 0) for path, told in found.items() if path.startswith(below))
        return sum(int(told.get("size") or 0) for told in found.values()) - outputs, outputs

    def remove_checkpoints(self, job_id: str) -> bool:
        """Remove a job's checkpoints, unless it is active by now. Return whether that was done."""
        return self._remove(job_id, lambda name: name != OUTPUTS)

    def remove_outputs(self, job_id: str) -> bool:
        """Remove a job's outputs, unless it is active by now. Return whether that was done."""
        return self._remove(job_id, lambda name: name == OUTPUTS)

    def remove_all(self, job_id: str) -> bool:
        """Remove all files of a job, its logs, too. Return whether that was done."""
        if not self._remove(job_id, lambda name: True):
            return False
        shutil.rmtree(self._logs(job_id), ignore_errors=True)
        return True

    def _remove(self, job_id: str, chosen: Callable[[str], bool]) -> bool:
        folder = f"{self._root}/{job_id}"
        if not self._fs.exists(folder):
            return self._over(job_id)
        self._sizes.pop(job_id, None)
        return (
            self._remove_here(Path(folder), job_id, chosen)
            if self._local
            else self._remove_there(folder, job_id, chosen)
        )

    def _remove_here(self, folder: Path, job_id: str, chosen: Callable[[str], bool]) -> bool:
        """Rename what goes while no job begins again, and remove it then."""
        going = folder.parent / f"{GONE}{uuid.uuid4().hex}"
        with self._lock:
            if not self._over(job_id):
                return False
            going.mkdir()
            for path in folder.iterdir():
                if chosen(path.name):
                    os.rename(path, going / path.name)
        shutil.rmtree(going, ignore_errors=True)
        with suppress(OSError):  # unless something is left in it
            folder.rmdir()
        return True

    def _remove_there(self, folder: str, job_id: str, chosen: Callable[[str], bool]) -> bool:
        """Remove a file after another. Without its manifest, which goes first, a checkpoint does not exist."""
        paths = [str(path) for path in self._fs.ls(folder, detail=False)]
        for path in sorted(paths, key=lambda path: not path.endswith(".json")):
            if chosen(path.rstrip("/").rsplit("/", 1)[-1]):
                with self._lock:
                    if not self._over(job_id):
                        return False
                self._fs.rm(path, recursive=True)
        return True

    def clean(self) -> None:
        """Remove what an earlier process had renamed and not removed yet."""
        if self._local and Path(self._root).is_dir():
            for path in Path(self._root).glob(f"{GONE}*"):
                shutil.rmtree(path, ignore_errors=True)


def packages(folder: Path, now: float) -> list[PackageFile]:
    """Return the packages on disk. `now`: by the machine's clock, as that of files is."""
    found = list[PackageFile]()
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            with suppress(FileNotFoundError):
                told = path.stat()
                if path.name.endswith(ENDING):
                    name = path.name.removesuffix(ENDING)
                    found.append(PackageFile(name, now - told.st_mtime, told.st_size))
    return found


def remove_torn_packages(folder: Path, now: float) -> None:
    """Remove what is left of packages that never came whole. `now`: as for `packages`."""
    for path in folder.glob(f"*{PART}"):
        with suppress(FileNotFoundError):
            if now - path.stat().st_mtime > TORN_S:
                path.unlink()


def remove_packages(folder: Path, names: Collection[str]) -> None:
    """Remove packages."""
    for name in names:
        (folder / f"{name}{ENDING}").unlink(missing_ok=True)


def total(found: Sequence[JobFiles | PackageFile]) -> int:
    """Return bytes of files together."""
    return sum(one.bytes for one in found)
