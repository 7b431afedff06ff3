"""Looks through a package that a client has sent, before anything is made of it.

Memory stays bounded whatever the package claims: only headers are read whole, and nothing is written.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from ..core.errors import PackageError
from ..core.package_form import MIB, MOST_ENTRIES, MOST_HEADER_BYTES
from ..core.refused_values import shown

HEADERS_BYTES = 8 << 10  # on average for an entry, with its name and the padding of its content
_PIECE = 1 << 20
_UNREADABLE = (tarfile.TarError, EOFError, OSError, zlib.error, ValueError, ArithmeticError, RecursionError)


def check(path: Path, most_bytes: int, most_entries: int = MOST_ENTRIES) -> None:
    """Raise PackageError unless a file is a package of folders and regular files inside of one folder.

    Args:
        most_bytes: of the files together, unpacked.
        most_entries: files and folders.
    """
    with path.open("rb") as file, _Unpacked(fileobj=file, mode="rb") as unpacked:
        unpacked.most_bytes = most_bytes + (most_entries + 1) * HEADERS_BYTES
        unpacked.largest = most_bytes
        try:
            with tarfile.open(fileobj=unpacked, mode="r:") as archive:
                _check_members(archive, most_bytes, most_entries)
            unpacked.most_bytes = unpacked.tell() + _PIECE
            while unpacked.read(_PIECE):  # its end says whether all of it came
                pass
        except PackageError:
            raise
        except _UNREADABLE as error:
            raise PackageError(f"package: it is not a tar file compressed by gzip: {_why(error)}") from None


def _check_members(archive: tarfile.TarFile, most_bytes: int, most_entries: int) -> None:
    size = entries = 0
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # of no stub; it keeps each one
        name = PurePosixPath(member.name)
        entries += 1
        if name.is_absolute() or ".." in name.parts:
            raise PackageError(f"package: its entry {shown(member.name)} is outside the job's folder")
        if not (member.isdir() or member.isreg()) or member.issparse():
            raise PackageError(f"package: its entry {shown(member.name)} is neither a plain file nor a folder")
        if member.size < 0 or "\0" in member.name:
            raise PackageError(f"package: its entry {shown(member.name)} has a header that is none")
        size += member.size
        if entries > most_entries:
            raise PackageError(f"package: it has more than {most_entries} files and folders, which is the most")
        if size > most_bytes:
            raise _too_large(most_bytes)


def _too_large(most_bytes: int) -> PackageError:
    return PackageError(f"package: it has more than {most_bytes // MIB} MiB unpacked, which is the most")


class _Unpacked(gzip.GzipFile):
    """What a package unpacks to. Reads at once no more than a header may have, and no more in all than allowed."""

    most_bytes = largest = 0

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= max(_PIECE, MOST_HEADER_BYTES):
            raise PackageError(f"package: a header of {size} bytes, and at most {MOST_HEADER_BYTES} are accepted")
        if self.tell() > self.most_bytes:
            raise _too_large(self.largest)
        return super().read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset > self.most_bytes:  # it would unpack all before
            raise _too_large(self.largest)
        return super().seek(offset, whence)


def _why(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
