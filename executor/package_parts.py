"""A job's package on its way from the executor's node to those of its workers, in parts."""

from __future__ import annotations

from typing import Any

import ray

from .files.job_folder import FolderError

PART_BYTES = 4 << 20


def read_part(package: str, offset: int) -> bytes:
    """Return a part of a package from an offset on; empty at its end."""
    with open(package, "rb") as file:
        file.seek(offset)
        return file.read(PART_BYTES)


def part_of(executor: Any, offset: int) -> bytes:
    """Return a part that an executor has. Raises: FolderError where it cannot read its package."""
    try:
        part: bytes = ray.get(executor.package_part.remote(offset))
    except ray.exceptions.RayTaskError as error:
        raise FolderError(f"the job's package cannot be had: {error.cause}") from None
    return part
