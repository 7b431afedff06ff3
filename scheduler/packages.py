"""A job's working directory on its way from the user's machine to the nodes.

The client packs the folder; the service keeps the package on disk for as long as the job may need it and
hands it to Ray's runtime environments, whose own copy goes away with its last user. A job therefore
outlives the command that submitted it, a queue of any length, and a restart of the whole cluster.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .job import JobSpec

EXCLUDED = frozenset(
    {".git", ".hg", ".svn", ".venv", "venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
    | {"node_modules", ".tox", ".ipynb_checkpoints", ".DS_Store"}
)
MIB = 2**20
_EPOCH = (1980, 1, 1, 0, 0, 0)


class PackageError(ValueError):
    """A working directory that cannot be packed; one sentence for the user."""


@dataclass(frozen=True)
class Package:
    """A zip file, named by its content."""

    name: str
    data: bytes

    @property
    def uri(self) -> str:
        return package_uri(self.name)


def package_uri(name: str) -> str:
    return f"gcs://_ray_pkg_{name}.zip"


def files_of(folder: Path) -> Iterator[Path]:
    """Regular files to send, sorted; caches, virtual environments and version control stay behind."""
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in EXCLUDED)
        for name in sorted(names):
            path = Path(root) / name
            if name not in EXCLUDED and path.is_file():
                yield path


def pack(folder: Path, max_mib: int) -> Package:
    """The folder as a package; equal content gives the same name.

    Raises: PackageError for a missing folder, or one larger than `max_mib`, naming its largest files.
    """
    if not folder.is_dir():
        raise PackageError(f"working_dir: {folder} is not a folder")
    files = list(files_of(folder))
    total = sum(path.stat().st_size for path in files)
    if total > 4 * max_mib * MIB:
        raise PackageError(_too_large(folder, files, total, max_mib))
    buffer, digest = io.BytesIO(), hashlib.sha256()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            name, data, mode = path.relative_to(folder).as_posix(), path.read_bytes(), path.stat().st_mode
            entry = zipfile.ZipInfo(name, date_time=_EPOCH)
            entry.external_attr = (mode & 0xFFFF) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
            digest.update(f"{name}\0{mode & 0o777}\0{len(data)}\0".encode())
            digest.update(data)
    if buffer.tell() > max_mib * MIB:
        raise PackageError(_too_large(folder, files, buffer.tell(), max_mib))
    return Package(digest.hexdigest()[:32], buffer.getvalue())


def _too_large(folder: Path, files: Sequence[Path], size: int, max_mib: int) -> str:
    largest = sorted(files, key=lambda path: -path.stat().st_size)[:3]
    names = ", ".join(f"{path.relative_to(folder)} ({path.stat().st_size / MIB:.0f} MiB)" for path in largest)
    told = f"working_dir: {folder} has {size / MIB:.0f} MiB, at most {max_mib} MiB are sent; largest: {names}"
    return f"{told}; keep large files outside of it, where the nodes reach them"


def script_key(package: Package, spec: JobSpec) -> str:
    """Names what a job trains before it has run: its files, script, arguments, environment and requirements."""
    what = [package.name, spec.script, spec.args, sorted(spec.env.items()), spec.pip]
    return "script-" + hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]


class PackageStore:
    """Packages on the service's disk, published to Ray when a job needs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, data: bytes) -> None:
        """Keep a package; it appears whole or not at all."""
        if not name.isalnum():
            raise PackageError(f"package: {name!r} is not a name of letters and digits")
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(name)
        beside = path.with_suffix(f".{os.getpid()}.part")
        beside.write_bytes(data)
        beside.replace(path)

    def has(self, name: str) -> bool:
        return self._path(name).exists()

    def publish(self, name: str) -> str:
        """Its URI, after making sure that Ray holds it. Raises: PackageError if it was never put."""
        # Ray's public API takes local folders from drivers only; these two calls are what it uses itself.
        from ray._private.runtime_env import packaging

        uri = package_uri(name)
        if not packaging.package_exists(uri):
            if not self.has(name):
                raise PackageError(f"package: {name} is not in {self._folder}")
            packaging.upload_package_to_gcs(uri, self._path(name).read_bytes())
        return uri

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.zip"
