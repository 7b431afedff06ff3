"""A package on its way in: written as it comes, and kept only if it is what its name says."""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path
from types import TracebackType

from ..core.errors import PackageError
from ..core.package_form import ENDING, PART, unpacked_bytes
from .package_check import check


class ArrivingPackage:
    """A package of which pieces come. It appears whole and looked through, or not at all.

    Its methods raise OSError where the disk takes no more. Leaving the context removes what is not kept.

    Args:
        folder: of packages.
        name: the SHA-256 of its content.
    """

    def __init__(self, folder: Path, name: str, max_package_mib: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._name, self._max_package_mib = name, max_package_mib
        self._path = folder / f"{name}{ENDING}"
        self._beside = folder / f"{name}.{uuid.uuid4().hex[:8]}{PART}"
        self._file = self._beside.open("xb")
        self._digest = hashlib.sha256()

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._digest.update(piece)
        self._file.write(piece)

    def keep(self) -> None:
        """Keep the package, now that all of it is there.

        Raises: PackageError if its name is not that of its content, or if it is no package.
        """
        if self._digest.hexdigest() != self._name:
            raise PackageError(f"package: {self._name} is not the SHA-256 of its content")
        self._file.flush()
        check(self._beside, unpacked_bytes(self._max_package_mib))
        os.fsync(self._file.fileno())
        self._beside.replace(self._path)

    def __enter__(self) -> ArrivingPackage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._beside.unlink(missing_ok=True)
