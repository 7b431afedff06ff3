"""The played cluster as the benchmark has it: a process of its own, which it asks and tells."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Subject:
    """A cluster that is served. `tokens`: by user. `jobs`: their ids by name."""

    url: str
    tokens: dict[str, str]
    jobs: dict[str, str]
    process: subprocess.Popen[str]

    def tell(self, *words: object) -> dict[str, Any]:
        """Have it do something, and return what it answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the played cluster ended while it was told {words[0]}")
        return dict(json.loads(line))


@contextmanager
def played(folder: Path, *words: object) -> Iterator[Subject]:
    """Yield a played cluster. `words`: arguments of `played.py`."""
    command = [sys.executable, "-m", "benchmarks.dashboard_steps.played", str(folder), *map(str, words)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("the played cluster did not start")
        yield Subject(**json.loads(line), process=process)
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
