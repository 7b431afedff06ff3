"""What a job's scripts print, as files a person can follow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO


class JobLog:
    """`<source>.log` per rank or profile run and `all.log` with everything, each line after its source.

    With an empty folder nothing is written. A full or missing disk loses lines, never the job.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder) if folder else None
        self._files: dict[str, TextIO] = {}

    def write(self, source: str, lines: Sequence[str]) -> None:
        if self._folder is None or not lines:
            return
        try:
            self._append(source, "".join(f"{line}\n" for line in lines))
            self._append("all", "".join(f"[{source}] {line}\n" for line in lines))
        except OSError:
            self._files.clear()

    def _append(self, name: str, text: str) -> None:
        assert self._folder is not None
        if name not in self._files:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files[name] = (self._folder / f"{name}.log").open("a", encoding="utf-8")
        self._files[name].write(text)
        self._files[name].flush()
