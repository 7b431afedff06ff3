"""Finds packages and checkpoints that jobs count on and that are missing or torn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from ...core.checkpoint_name import DATA, MANIFEST, SHARD_FILES, SHARDS
from ...core.settings import Settings
from ...executor.files.workplace import local_path
from ..files.checkpoints import CheckpointFiles, CheckpointFilesError
from ..files.packages import PackageStore
from ..jobs.record import JobRecord
from ..store.doctor import Finding


def file_findings(jobs: Iterable[JobRecord], settings: Settings) -> list[Finding]:
    """Return what active jobs lack. Of checkpoints only those on a disk of this machine are looked at."""
    found: list[Finding] = []
    packages = PackageStore(settings.package_dir)
    for job in jobs:
        if job.active:
            found += _package(job, packages)
            found += _checkpoints(job, settings)
    return found


def _package(job: JobRecord, packages: PackageStore) -> Iterator[Finding]:
    names = {job.package, job.changed.package if job.changed is not None else None} - {None}
    for name in sorted(str(name) for name in names):
        if not packages.has(name):
            text = f"{job.id}: its package {name} is missing, so it cannot start; cancel it and submit it again"
            yield Finding("package", text, job.id)


def _checkpoints(job: JobRecord, settings: Settings) -> Iterator[Finding]:
    url = settings.checkpoint_url(job.id, job.spec.training.checkpoint.url)
    mine = _published(url)
    origin = job.origin
    if origin is not None and mine == []:
        if origin.copied:
            text = f"{job.id}: the checkpoint that it starts from, of {origin.job_id}, is missing in {url}"
            yield Finding("checkpoint", text, job.id)
        elif _published(origin.url) == []:
            text = f"{job.id}: the checkpoint that it starts from is missing in {origin.url}"
            yield Finding("checkpoint", text, job.id)
    for name in mine or ():
        if (lacks := _lacks(Path(str(local_path(url))), name)) is not None:
            text = f"{job.id}: checkpoint {name} in {url} is torn: {lacks}; the one before it is used"
            yield Finding("checkpoint", text, job.id)


def _published(url: str) -> list[str] | None:
    """Return the stems of the checkpoints in a folder; None where it is on no disk here, or cannot be read."""
    if local_path(url) is None:
        return None
    try:
        return [name.stem for name in CheckpointFiles(url).published()]
    except CheckpointFilesError:
        return None


def _lacks(folder: Path, stem: str) -> str | None:
    """Return what a published checkpoint lacks; None: it is whole, or was removed meanwhile."""
    try:
        manifest = json.loads((folder / f"{stem}{MANIFEST}").read_text())
        files = {f"{stem}{DATA}": manifest["bytes"]}
        files |= {f"{stem}{SHARDS}/{name}": told[0] for name, told in manifest.get(SHARD_FILES, {}).items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"its manifest cannot be read ({error})"
    for name, size in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing" if (folder / f"{stem}{MANIFEST}").exists() else None
        if path.stat().st_size != size:
            return f"{name} has {path.stat().st_size} bytes instead of {size}"
    return None
