"""A file that is measured while it is written."""

from __future__ import annotations

import hashlib
import io
from typing import IO, Any


class HashingWriter(io.RawIOBase):
    """Passes bytes on to a file, and keeps their count and SHA-256."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.size, self.hash = file, 0, hashlib.sha256()
        self.failure: Exception | None = None  # the file's error, which torch.save hides behind one of its own

    def write(self, data: Any) -> int:
        try:
            self._file.write(data)
        except Exception as error:
            self.failure = self.failure or error
            raise
        self.hash.update(data)
        count = memoryview(data).nbytes
        self.size += count
        return count

    def tell(self) -> int:
        return self.size

    def writable(self) -> bool:
        return True

    @property
    def measured(self) -> tuple[int, str]:
        """Return size and SHA-256 of what was written."""
        return self.size, self.hash.hexdigest()
