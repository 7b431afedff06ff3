"""What a job's package is like: its file, and how large it may be. Client and service go by the same numbers."""

from __future__ import annotations

MIB = 1 << 20
ENDING = ".tar.gz"  # of its file, whose name is the SHA-256 of its content
PART = ".part"  # ends the names of files that are not whole yet
MOST_ENTRIES = 100_000  # files and folders
UNPACKED_TIMES = 4  # unpacked it has at most so many times the bytes that are sent
MOST_HEADER_BYTES = 64 << 10  # of one entry's name and attributes


def unpacked_bytes(max_package_mib: int) -> int:
    """Return the most bytes of its files together."""
    return UNPACKED_TIMES * max_package_mib * MIB
