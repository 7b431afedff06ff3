"""The checkpoints of jobs as files: which there are, and copies of one for another job."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import fsspec

from ...core.checkpoint_name import DATA, MANIFEST, SHARD_FILES, SHARDS, CheckpointName
from ...core.errors import JobStateError
from ...executor.files.workplace import local_path
from ...executor.sandbox.ownership import acting_as, make_private


class CheckpointFilesError(RuntimeError):
    """Checkpoints cannot be listed or copied; one sentence for a person."""


class CheckpointFiles:
    """The checkpoints in a job's folder, a path or any fsspec URL. Raises: CheckpointFilesError.

    uid: of the job, where it has a user of its own.
    """

    def __init__(self, url: str, uid: int | None = None) -> None:
        self.url, self._uid = url, uid
        try:
            self._fs, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise CheckpointFilesError(f"checkpoint.url: {url!r} cannot be used: {error}") from error
        self._root = root.rstrip("/") or "/"

    def published(self) -> list[CheckpointName]:
        """Return those that have a manifest, by progress."""
        try:
            self._fs.invalidate_cache(self._root)
            names = [str(path).rsplit("/", 1)[-1] for path in self._fs.ls(self._root, detail=False)]
        except FileNotFoundError:
            return []
        except Exception as error:
            raise CheckpointFilesError(f"checkpoint.url: {self.url!r} cannot be read: {error}") from error
        found = [CheckpointName.parse(name.removesuffix(MANIFEST)) for name in names if name.endswith(MANIFEST)]
        return sorted(name for name in found if name is not None)

    def copy_to(self, name: CheckpointName, other: CheckpointFiles) -> None:
        """Copy one checkpoint into another folder, where it appears whole or not at all.

        Files on one disk become links of one another: nobody writes to a checkpoint after it was published. Jobs
        with users of their own have files of their own.
        """
        try:
            other._make(other._root)
            manifest = json.loads(self._fs.cat_file(f"{self._root}/{name.stem}{MANIFEST}"))
            shards = [f"{name.stem}{SHARDS}/{file}" for file in manifest.get(SHARD_FILES, ())]
            if shards:
                other._make(f"{other._root}/{name.stem}{SHARDS}")
            # A checkpoint without a manifest does not exist.
            for file in (*shards, f"{name.stem}{DATA}", f"{name.stem}{MANIFEST}"):
                self._copy(f"{self._root}/{file}", other, f"{other._root}/{file}")
        except FileNotFoundError as error:
            raise CheckpointFilesError(f"checkpoint {name.stem} of {self.url} is gone") from error
        except Exception as error:
            told = f"checkpoint {name.stem} of {self.url} could not be copied to {other.url}: {error}"
            raise CheckpointFilesError(told) from error

    def _copy(self, source: str, other: CheckpointFiles, target: str) -> None:
        if local_path(self.url) is not None and local_path(other.url) is not None:
            if other._uid is None:
                _link(Path(source), Path(target))
            else:
                with acting_as(self._uid):
                    opened = os.open(source, os.O_RDONLY)
                _copy(os.fdopen(opened, "rb"), Path(target), other._uid)
        elif self._fs == other._fs:
            self._fs.cp_file(source, target)
        else:
            with self._fs.open(source, "rb") as read, other._fs.open(target, "wb") as written:
                shutil.copyfileobj(read, written, 4 << 20)

    def make(self) -> None:
        """Make the folder, where there is none. Raises: CheckpointFilesError."""
        try:
            self._make(self._root)
        except Exception as error:
            raise CheckpointFilesError(f"{self.url} cannot be made: {error}") from error

    def _make(self, folder: str) -> None:
        if self._uid is None or local_path(self.url) is None:
            self._fs.makedirs(folder, exist_ok=True)
        else:
            make_private(Path(folder), self._uid)


def on_disk(url: str) -> bool:
    """Return whether checkpoints at a URL are files of a disk, which belong to a user."""
    return local_path(url) is not None


def _copy(reading: BinaryIO, target: Path, uid: int) -> None:
    """Copy a file to a place where it is a user's, and appears whole."""
    beside = target.with_name(f"{target.name}.copy")
    with reading, beside.open("wb") as written:
        shutil.copyfileobj(reading, written, 4 << 20)
        os.fchown(written.fileno(), uid, uid)
        os.fsync(written.fileno())
    beside.replace(target)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:  # of a copy that was interrupted
        return
    except FileNotFoundError:
        raise
    except OSError:  # on another disk, or on one without links
        beside = target.with_name(f"{target.name}.copy")
        shutil.copyfile(source, beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(target)


def chosen(found: Iterable[CheckpointName], job_id: str, steps: int | None) -> CheckpointName:
    """Return the newest checkpoint of a job, or the newest of these steps.

    Raises: JobStateError, with the steps that there are.
    """
    names = sorted(found)
    if not names:
        raise JobStateError(f"{job_id} has no checkpoint yet, so nothing can start from one")
    fitting = [name for name in names if steps in (None, name.steps)]
    if not fitting:
        there = ", ".join(str(steps) for steps in sorted({name.steps for name in names}))
        raise JobStateError(f"{job_id} has no checkpoint of step {steps}; it has those of {there}")
    return fitting[-1]
