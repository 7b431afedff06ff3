"""Packages of jobs: made of entries, put where the service keeps them, or read as a worker fetches them."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path


def entry(name: str, size: int = 0, **fields: object) -> tarfile.TarInfo:
    """Return the header of a file, or of what its other fields say."""
    made = tarfile.TarInfo(name)
    made.size = size
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def packed(entries: Iterable[tarfile.TarInfo] = (), level: int = 1) -> bytes:
    """Return a package of entries, whose files hold zeros; by default it has one empty script."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=level, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for one in list(entries) or [entry("train.py")]:
            archive.addfile(one, io.BytesIO(bytes(one.size if one.isreg() else 0)))
    return buffer.getvalue()


def name_of(content: bytes) -> str:
    """Return the name that a package has."""
    return hashlib.sha256(content).hexdigest()


PACKAGE = packed()
NAME = name_of(PACKAGE)


def kept(folder: Path, name: str = NAME, content: bytes = PACKAGE) -> str:
    """Put a package among those of a service, unchecked, and return its name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.tar.gz").write_bytes(content)
    return name


def fetched(**files: str) -> Callable[[int], bytes]:
    """Return a function that reads a package of Python files in small pieces."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            archive.addfile(entry(f"{name}.py", len(text), mode=0o644), io.BytesIO(text.encode()))
    data = buffer.getvalue()
    return lambda offset: data[offset : offset + 50]
