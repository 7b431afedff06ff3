"""Packages of jobs' working directories on the service's disk.

The client packs a folder (`client/package.py`), and the API takes it in (`api/arriving_package.py`). The service
keeps the package for as long as the job may need it.
Workers fetch it from the job's executor. So a job outlives the command that submitted it and a restart of the
whole cluster.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...core.errors import PackageError
from ...core.package_form import ENDING


class PackageStore:
    """Packages on the service's disk. Each is named by the SHA-256 of its content."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def has(self, name: str) -> bool:
        """Return whether a package is there. One that was asked for is not removed for some days."""
        if not name.isalnum():
            return False
        try:
            os.utime(self._path(name))
        except FileNotFoundError:
            return False
        except OSError:  # of a disk that cannot be written
            return self._path(name).exists()
        return True

    def find(self, name: str) -> Path:
        """Return the path of a package. Raises: PackageError if it was never put."""
        if not self.has(name):
            raise PackageError(f"package: {name} is not in {self._folder}; submit the job again")
        return self._path(name)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{ENDING}"
