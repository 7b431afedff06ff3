"""Reads the output folders of jobs, a page at a time, for `coadapt outputs`.

A local path is read directly. Behind any other URL lies what workers have sent there (`output_mirror.py`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ...core.errors import OutputError
from ...core.output_tree import PART_BYTES, Entry, Kind, Name, Output, entries, entry_of, is_name
from ...executor.files.output_mirror import Place
from ...executor.files.workplace import local_path
from ...executor.sandbox.ownership import acting_as

PAGE = 10_000


class Outputs:
    """The outputs of one job. Raises: OutputError for a URL that cannot be read.

    uid: of the job, whose links lead only where the job itself gets; None: it has no user of its own.
    """

    def __init__(self, url: str, uid: int | None = None) -> None:
        self.url, self._uid = url, uid
        self._folder = local_path(url)
        self._place = None if self._folder is not None else Place(url)

    def page(self, after: Name = ()) -> list[Output]:
        """Return up to `PAGE` outputs after a name, in order; none once all were returned."""
        with acting_as(self._uid):
            return [Output(*found) for found in itertools.islice(self._entries(after), PAGE)]

    def contents(self, names: Sequence[Name]) -> list[bytes | None]:
        """Return the contents of the first few of these files, at least of one; None for a file that is gone.

        A file larger than `PART_BYTES` is cut there.
        """
        found: list[bytes | None] = []
        size = 0
        for name in names:
            content = self.part(name, 0)
            size += len(content or b"")
            if found and size > PART_BYTES:
                break
            found.append(content)
        return found

    def part(self, name: Name, offset: int) -> bytes | None:
        """Return up to `PART_BYTES` of a file from an offset on; None if the outputs have no such file."""
        if not is_name(name):
            return None
        if self._folder is not None:
            path = self._folder.joinpath(*name)
            with suppress(OSError), acting_as(self._uid):
                whole = path.parent.resolve().is_relative_to(self._folder.resolve())
                if whole and entry_of(self._folder, path).kind is Kind.FILE:
                    with path.open("rb") as file:
                        if offset >= os.fstat(file.fileno()).st_size:  # no file may be asked for so far a place
                            return b""
                        file.seek(offset)
                        return file.read(PART_BYTES)
            return None
        assert self._place is not None
        try:
            with self._place.fs.open(self._place.key(name), "rb") as file:
                file.seek(offset)
                return bytes(file.read(PART_BYTES))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise OutputError(f"outputs at {self.url} cannot be read: {error}") from error

    def _entries(self, after: Name) -> Iterator[tuple[Name, Entry]]:
        if self._folder is not None:
            yield from entries(self._folder, after, PAGE)
            return
        assert self._place is not None
        for name, entry in self._place.entries().items():
            if name > after:
                yield name, entry
