"""Which cores of a machine its workers use: as many as the slot has CPUs, and none twice if there are enough.

Workers agree by a file that they lock. What a worker that died has claimed is free again.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

from ..core.cores import listed
from .protocol.worker_events import Bound

BOARD = Path(tempfile.gettempdir()) / f"coadapt-cores-{os.getuid()}.json"
Claims = Mapping[str, Sequence[int]]  # who -> cores


def chosen(claims: Claims, who: str, count: int, cores: Sequence[int]) -> tuple[int, ...]:
    """Return `count` of the machine's cores for a worker, or all of them where it has fewer. Pure.

    It keeps its own first. Then come those that the fewest others claim, lowest number first.
    """
    others = Counter(core for one, claimed in claims.items() if one != who for core in claimed)
    own = set(claims.get(who, ()))
    in_order = sorted(cores, key=lambda core: (others[core], core not in own, core))
    return tuple(sorted(in_order[:count]))


class CoreBoard:
    """The claims of one worker on the board of its machine.

    Args:
        cores: those that the worker may use.
    """

    def __init__(self, path: Path = BOARD, cores: Sequence[int] | None = None) -> None:
        self._path = path
        self._cores = sorted(os.sched_getaffinity(0)) if cores is None else cores
        self._who = name_of(psutil.Process())

    @property
    def machine(self) -> tuple[int, ...]:
        """The cores that the worker may use."""
        return tuple(self._cores)

    def claim(self, count: int) -> tuple[int, ...]:
        """Claim so many cores in place of those before, and return them; 0: any, and none is claimed."""
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "r+") as board:
            fcntl.flock(board, fcntl.LOCK_EX)
            claims = _living(board.read())
            cores = chosen(claims, self._who, count, self._cores) if count else ()
            claims.pop(self._who, None)
            if cores:
                claims[self._who] = cores
            board.seek(0)
            board.truncate()
            board.write(json.dumps(claims))
        return cores if len(cores) < len(self._cores) else ()


def claimed(board: CoreBoard | None, count: int, tell: Callable[[Bound], None]) -> tuple[int, ...]:
    """Claim so many cores, tell which these are, and return them; none without a board, as on emulated nodes."""
    if board is None:
        return ()
    cores = board.claim(count)
    tell(Bound(listed(cores), listed(board.machine)))
    return cores


def name_of(process: psutil.Process) -> str:
    """Return a name that no later process has."""
    return f"{process.pid}@{process.create_time():.2f}"


def _living(text: str) -> dict[str, Sequence[int]]:
    try:
        claims = dict(json.loads(text or "{}"))
    except ValueError:  # a worker died as it wrote
        return {}
    return {who: cores for who, cores in claims.items() if _lives(who)}


def _lives(who: str) -> bool:
    try:
        return name_of(psutil.Process(int(who.partition("@")[0]))) == who
    except (psutil.Error, ValueError):
        return False
