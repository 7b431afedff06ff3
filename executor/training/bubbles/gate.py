"""The gate of a GPU: a lock that whoever runs kernels holds, and what owner and guest tell each other.

Both are processes of one machine. The lock is the kernel's, so that it ends with the process that holds it. All
else is a page of shared memory with one number of 64 bits for each thing told, which is read and written at once.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import re
import tempfile
from enum import IntEnum
from pathlib import Path

import numpy as np

from ....core.process_start import started_of

_SHARED_MEMORY = Path("/dev/shm")
_BELOW = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
FOLDER = _BELOW / f"coadapt-bubbles-{os.getuid()}"
_BYTES = 4096
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_NOBODY = "bubbles: nobody lends bubbles of {name}; start the owner first"


class _Field(IntEnum):
    OWNER = 0
    OWNER_STARTED = 1
    GUEST = 2
    GUEST_STARTED = 3
    CLOSES_S = 4
    LONGEST_S = 5
    FREE_GIB = 6


class GateError(RuntimeError):
    """Why a process cannot own a gate, or be the guest there; one sentence."""


class Gate:
    """One process' side of a gate.

    Args:
        name: of the GPU, the same for both.
        make: whether it may be new. A guest comes to one that is there.

    Raises: GateError, where it is not there, or not this user's.
    """

    def __init__(self, name: str, folder: Path | None = None, make: bool = True) -> None:
        if not _NAME.fullmatch(name):
            raise GateError(
                f"bubbles: {name!r} is no name of a gate; letters, digits, '.', '_' and '-' are accepted"
            )
        self.name = name
        folder = folder or FOLDER
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise GateError(f"bubbles: {folder} belongs to another user")
        self.path = folder / name
        if not make and not self.path.exists():
            raise GateError(_NOBODY.format(name=name))
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if os.fstat(self._file).st_size < _BYTES:
            os.ftruncate(self._file, _BYTES)
        self._page = np.frombuffer(mmap.mmap(self._file, _BYTES), dtype=np.float64)

    # --- the lock -------------------------------------------------------------------------------------------

    def take(self, wait: bool = True) -> bool:
        """Have the lock, and return whether that is so. Without `wait` it is tried once."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Let the other side have the lock."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    # --- what is told ---------------------------------------------------------------------------------------

    @property
    def closes_s(self) -> float:
        """When the bubble that is open is expected to end, on the machine's monotonic clock; 0: none is open."""
        return float(self._page[_Field.CLOSES_S])

    @closes_s.setter
    def closes_s(self, value: float) -> None:
        self._page[_Field.CLOSES_S] = value

    @property
    def longest_s(self) -> float:
        """How long the longest bubble of an iteration is; 0: not known yet."""
        return float(self._page[_Field.LONGEST_S])

    @longest_s.setter
    def longest_s(self, value: float) -> None:
        self._page[_Field.LONGEST_S] = value

    @property
    def free_gib(self) -> float | None:
        """What the owner leaves of the GPU's memory; None: it did not say."""
        value = float(self._page[_Field.FREE_GIB])
        return value if value >= 0 else None

    def own(self, free_gib: float | None) -> None:
        """Be the owner from now on, with the gate shut.

        Raises: GateError, where another process owns it, or the memory is no number of 0 or more.
        """
        if free_gib is not None and not 0 <= free_gib < math.inf:
            raise GateError(f"bubbles: free_gib is {free_gib:g}; 0 GiB or more are accepted")
        self._enter(_Field.OWNER, "owner")
        self._page[_Field.FREE_GIB] = -1.0 if free_gib is None else free_gib
        self.closes_s = self.longest_s = 0.0

    def visit(self) -> None:
        """Be the guest from now on. Raises: GateError, where nobody owns the gate, or there is a guest."""
        if self.owner is None:
            raise GateError(_NOBODY.format(name=self.name))
        self._enter(_Field.GUEST, "guest")

    @property
    def owner(self) -> int | None:
        """The process that owns the gate; None: there is none any more."""
        return self._living(_Field.OWNER)

    @property
    def guest(self) -> int | None:
        """The process that is the guest; None: there is none."""
        return self._living(_Field.GUEST)

    def _enter(self, field: _Field, what: str) -> None:
        there = self._living(field)
        if there is not None and there != os.getpid():
            raise GateError(f"bubbles: {self.name} has process {there} as its {what}; it has one at a time")
        self._page[field + 1] = started_of(os.getpid()) or 0
        self._page[field] = os.getpid()

    def _living(self, field: _Field) -> int | None:
        pid = int(self._page[field])
        return pid if pid and started_of(pid) == int(self._page[field + 1]) else None
