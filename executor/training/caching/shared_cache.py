"""A cache in shared memory for all processes of a job on a node: it keeps what came first, and never evicts.

So a pass over the data has as many hits as there are samples in it, in whatever order they come, and the speed
that a budget gives is known beforehand (MinIO, as in Synergy, OSDI'22, section 4.1).

A folder holds four files. `state` says how much is there, `table-N` where each sample is, and `data` is a log of
samples. Only who holds the lock writes. Readers take no lock: a record carries its own digest, and whoever drops
records counts up `generation`, by which a reader knows that what it has read may be another one's.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

DIGEST_BYTES = 16
FIRST_PLACES = 1 << 12  # of the table; it doubles when it is half full
_STATE = struct.Struct("=8Q")
_GENERATION, _TABLE, _COUNT, _END, _CHARGED, _BUDGET, _CHECKS, _READ_NS = range(8)
_WORD = struct.Struct("=Q")
_FIELDS = ("first", "second", "offset", "size", "charge", "order")  # two halves of the digest come first
_PLACE = np.dtype([(name, "<u8") for name in _FIELDS])
_EMPTY = bytes(DIGEST_BYTES)


class SharedCache:
    """Samples by digest. Any process of the job may open the same folder; a forked one has to open it anew.

    Args:
        folder: made where it is not there.
        budget: bytes that samples may take in all, where nobody has said yet; `resize` changes it for everybody.
    """

    def __init__(self, folder: Path, budget: int = 0) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._number = -1
        self._table: mmap.mmap | None = None
        self._full = False  # the machine has no more shared memory
        self._lock_file, self._threads = self._open("lock"), threading.Lock()
        self._data = self._open("data")
        with self._locked():
            state = self._open("state")
            if os.fstat(state).st_size < _STATE.size:
                os.ftruncate(state, _STATE.size)
            self._state = mmap.mmap(state, _STATE.size)
            os.close(state)
            if not self._get(_TABLE):
                self._publish(1, self._new_table(1, FIRST_PLACES))
                self._put(_BUDGET, budget)

    # --- questions ------------------------------------------------------------------------------------------

    @property
    def budget(self) -> int:
        return self._get(_BUDGET)

    @property
    def count(self) -> int:
        """How many samples are there."""
        return self._get(_COUNT)

    @property
    def charged(self) -> int:
        """The bytes that they count for."""
        return self._get(_CHARGED)

    def get(self, digest: bytes) -> memoryview | None:
        """Return a sample; None: it is not there."""
        generation = self._get(_GENERATION)
        place = self._find(digest)
        if place is None:
            return None
        offset, size = place
        record = os.pread(self._data, DIGEST_BYTES + size, offset)
        if len(record) < DIGEST_BYTES + size or record[:DIGEST_BYTES] != digest:
            return None
        return memoryview(record)[DIGEST_BYTES:] if self._get(_GENERATION) == generation else None

    def check(self, most: int) -> bool:
        """Return whether one more answer is to be checked, of so many in all processes."""
        checks = self._get(_CHECKS)
        self._put(_CHECKS, checks + 1)
        return checks < most

    def reserve(self, seconds: float) -> float:
        """Return when an emulated storage has read for so long, on the monotonic clock of this machine."""
        with self._locked():
            until_ns = max(time.monotonic_ns(), self._get(_READ_NS)) + int(seconds * 1e9)
            self._put(_READ_NS, until_ns)
        return until_ns / 1e9

    # --- changes --------------------------------------------------------------------------------------------

    def put(self, digest: bytes, sample: bytes, charge: int = 0) -> bool:
        """Keep a sample if the budget has room for it; return whether it is there now.

        `charge`: bytes that it counts for, where that is more than it takes.
        """
        takes = max(DIGEST_BYTES + len(sample), charge)
        if self._full or self._get(_CHARGED) + takes > self._get(_BUDGET):
            return False
        with self._locked():
            if self._find(digest) is not None:
                return True
            charged, end = self._get(_CHARGED), self._get(_END)
            if charged + takes > self._get(_BUDGET):
                return False
            try:
                _write(self._data, digest + sample, end)
                if 2 * (self._get(_COUNT) + 1) > _places(self._current()):
                    self._rebuild(2 * _places(self._current()), self._all())
            except OSError:  # shared memory is full, whatever the budget says
                self._full = True
                return False
            order = self._get(_COUNT)
            # Who dies here has taken room for nothing, and nobody finds what is not there.
            self._put(_END, end + DIGEST_BYTES + len(sample))
            self._put(_CHARGED, charged + takes)
            self._put(_COUNT, order + 1)
            _insert(self._current(), digest, (end, len(sample), takes, order))
            return True

    def resize(self, budget: int) -> None:
        """Have another budget. Where it is less than what is there, the newest samples go."""
        with self._locked():
            self._put(_BUDGET, budget)
            self._full = False
            if self._get(_CHARGED) <= budget:
                return
            places = self._all()
            places = places[np.argsort(places["order"])]
            kept = places[np.cumsum(places["charge"]) <= budget]
            end = int(kept["offset"][-1] + kept["size"][-1]) + DIGEST_BYTES if len(kept) else 0
            self._put(_GENERATION, self._get(_GENERATION) + 1)
            self._rebuild(_places(self._current()), kept)
            self._put(_COUNT, len(kept))
            self._put(_CHARGED, int(kept["charge"].sum()))
            self._put(_END, end)
            os.ftruncate(self._data, end)
            self._put(_GENERATION, self._get(_GENERATION) + 1)

    # --- the table ------------------------------------------------------------------------------------------

    def _find(self, digest: bytes) -> tuple[int, int] | None:
        table = self._current()
        start = _place_of(table, digest)
        if table[start : start + DIGEST_BYTES] != digest:
            return None
        offset, size = struct.unpack_from("<2Q", table, start + DIGEST_BYTES)
        return offset, size

    def _rebuild(self, places: int, kept: np.ndarray) -> None:
        """Make another table, of these samples."""
        number = self._get(_TABLE) + 1
        table = self._new_table(number, places)
        for first, second, *place in kept.tolist():
            _insert(table, struct.pack("<2Q", first, second), place)
        self._publish(number, table)

    def _publish(self, number: int, table: mmap.mmap) -> None:
        self._put(_TABLE, number)
        self._number, self._table = number, table
        with suppress(FileNotFoundError):
            (self.folder / f"table-{number - 1}").unlink()

    def _new_table(self, number: int, places: int) -> mmap.mmap:
        """Raises: OSError where the machine has no memory for it."""
        file = self._open(f"table-{number}")
        try:
            os.ftruncate(file, 0)
            os.posix_fallocate(file, 0, places * _PLACE.itemsize)
            return mmap.mmap(file, 0)
        finally:
            os.close(file)

    def _all(self) -> np.ndarray:
        places = np.frombuffer(bytes(self._current()), _PLACE)
        return places[(places["first"] != 0) | (places["second"] != 0)]

    def _current(self) -> mmap.mmap:
        """Return the newest table. One that was replaced meanwhile is opened anew."""
        while self._table is None or self._number != self._get(_TABLE):
            number = self._get(_TABLE)
            try:
                file = os.open(self.folder / f"table-{number}", os.O_RDWR)
            except FileNotFoundError:
                if number == self._get(_TABLE):
                    raise
                continue
            try:
                self._table = mmap.mmap(file, 0)
            finally:
                os.close(file)
            self._number = number
        return self._table

    # --- small parts ----------------------------------------------------------------------------------------

    def _get(self, word: int) -> int:
        return int(_WORD.unpack_from(self._state, 8 * word)[0])

    def _put(self, word: int, value: int) -> None:
        _WORD.pack_into(self._state, 8 * word, value)

    def _open(self, name: str) -> int:
        return os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Be the only one that writes. The kernel gives the lock back where its holder dies."""
        with self._threads:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._lock_file, fcntl.LOCK_UN)


def _places(table: mmap.mmap) -> int:
    return len(table) // _PLACE.itemsize


def _place_of(table: mmap.mmap, digest: bytes) -> int:
    """Return where in a table a digest is, or else would be."""
    mask = _places(table) - 1
    at = int.from_bytes(digest[:8], "little") & mask
    while True:
        start = at * _PLACE.itemsize
        found = table[start : start + DIGEST_BYTES]
        if found in (digest, _EMPTY):
            return start
        at = (at + 1) & mask


def _insert(table: mmap.mmap, digest: bytes, place: Sequence[int]) -> None:
    start = _place_of(table, digest)
    struct.pack_into("<4Q", table, start + DIGEST_BYTES, *place)
    table[start : start + DIGEST_BYTES] = digest  # last, as it is what readers look for


def _write(file: int, data: bytes, at: int) -> None:
    while data:
        written = os.pwrite(file, data, at)
        data, at = data[written:], at + written
