"""One emulated GPU of a machine: a small locked file in shared memory, with its tenants and what they use.

Workers enter when they have the GPU, and leave with their processes. As on a real GPU, sharing is found out by
being there: each look at the file tells a tenant how fast it is beside the others. A tenant whose process is gone,
by its id and start time, counts no more. A file that is torn, or in which nobody lives, is made anew.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..core.process_start import started_of
from .usage.gauge import Reading

_SHARED_MEMORY = Path("/dev/shm")
_BELOW = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else Path(tempfile.gettempdir())
FOLDER = _BELOW / f"coadapt-emulated-{os.getuid()}"
MOST_BYTES = 1 << 20


class TornState(ValueError):
    """The file is no state of an emulated GPU; one sentence."""


class NoRoom(RuntimeError):
    """A tenant needs more memory than the GPU has free. The sentence is worded as CUDA's."""


@dataclass(frozen=True)
class TenantProfile:
    """What a job uses of an emulated GPU while it is alone there.

    kind: its model in core/pace_profiles.json, by which measured pairs are found.
    gpu_util, memory_util: parts of the time, 0..1; memory_gib: per GPU. None: not known.
    beside: measured pairs: kind beside it -> its own speed and the other's, over those alone.
    source: where these were measured; "": there are none.
    """

    kind: str = ""
    gpu_util: float | None = None
    memory_util: float | None = None
    memory_gib: float | None = None
    beside: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    source: str = ""

    def reading(self, part: float) -> Reading:
        """Return what the GPU does for a job that works for a part of the time."""
        gpu, memory = self.gpu_util, self.memory_util
        return Reading(
            None if gpu is None else gpu * part, None if memory is None else memory * part, self.memory_gib
        )


UNKNOWN_PROFILE = TenantProfile()


@dataclass(frozen=True)
class Tenant:
    """A worker on an emulated GPU.

    pid, started: the process that keeps it there, and when that began, in ticks since the machine did.
    speed: over that alone, as it is now. since_s: since when, on the monotonic clock of the machine.
    source: where the speed comes from; "": it is alone.
    """

    id: str
    job: str
    pid: int
    started: int
    profile: TenantProfile
    speed: float = 1.0
    since_s: float = 0.0
    source: str = ""

    @property
    def lives(self) -> bool:
        return started_of(self.pid) == self.started


# Of the first beside the second, and its source.
Speeds = Callable[[TenantProfile, TenantProfile], tuple[float, str]]


class EmulatedGpu:
    """What its tenants share of one GPU. Every method opens the file, so that nothing is kept that may be stale.

    Args:
        name: tells it from all other GPUs of the machine.
        device: its position on the node, for sentences.
        memory_gib: of the GPU; None: nobody knows, so it never runs out.
        speeds: how fast one job is beside another one.
        told: is given a sentence where the state had to be made anew.
    """

    def __init__(
        self,
        name: str,
        device: int,
        memory_gib: float | None,
        speeds: Speeds,
        told: Callable[[str], None],
        folder: Path = FOLDER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / name.replace("/", "_")
        self._device, self._memory_gib, self._speeds, self._told = device, memory_gib, speeds, told
        self._clock = clock
        self._seen: tuple[bytes, Tenant, Sequence[Tenant]] | None = None  # at the last look: bytes, itself, others

    def enter(self, tenant: Tenant) -> Tenant:
        """Be on this GPU from now on. Return the tenant with its speed.

        Raises: NoRoom where its memory and that of the others are more than the GPU has; it is not on it then.
        """
        _sweep(self._path)
        with self._opened() as file:
            before = self._read(file, entering=True)
            others = [one for one in before if one.lives and one.id != tenant.id]
            self._check_memory(tenant, others)
            return self._write(file, [*others, tenant], before, tenant.id)

    def look(self, tenant: Tenant) -> tuple[Tenant, Sequence[Tenant]]:
        """Return a tenant with its speed of now, and who is beside it. It enters again if the state was lost."""
        if self._seen is not None and self._seen[1].id == tenant.id:
            data, own, others = self._seen
            if data == self._bytes() and all(other.lives for other in others):
                return own, others
        with self._opened() as file:
            before = self._read(file)
            there = [one for one in before if one.id == tenant.id or one.lives]
            if all(one.id != tenant.id for one in there):
                there.append(tenant)
            own = self._write(file, there, before, tenant.id)
            assert self._seen is not None
            return own, self._seen[2]

    def leave(self, id: str) -> None:
        """Be on this GPU no more; the others are faster from this moment. The last one takes the file along."""
        self._seen = None
        with self._opened() as file:
            before = self._read(file)
            self._write(file, [one for one in before if one.id != id and one.lives], before, id)

    # --- inside -----------------------------------------------------------------------------------------------

    def _check_memory(self, tenant: Tenant, others: Sequence[Tenant]) -> None:
        wanted, total = tenant.profile.memory_gib, self._memory_gib
        others = [one for one in others if one.job != tenant.job]  # its own last worker is about to end
        used = sum(one.profile.memory_gib or 0.0 for one in others)
        if wanted is None or total is None or wanted <= total - used:
            return
        there = "".join(
            f" Process {one.pid} ({one.job}) has {one.profile.memory_gib:.2f} GiB memory in use."
            for one in others
            if one.profile.memory_gib
        )
        raise NoRoom(
            f"CUDA out of memory. Tried to allocate {wanted:.2f} GiB. GPU {self._device} has a total capacity of "
            f"{total:.2f} GiB of which {max(total - used, 0.0):.2f} GiB is free.{there}"
        )

    def _with_speeds(self, tenants: Sequence[Tenant], before: Sequence[Tenant]) -> list[Tenant]:
        now, known = self._clock(), {one.id: one for one in before}
        found = []
        for tenant in tenants:
            speed, sources = 1.0, dict[str, None]()
            for other in tenants:
                if other.job != tenant.job:
                    part, source = self._speeds(tenant.profile, other.profile)
                    speed *= part
                    sources[source] = None
            old = known.get(tenant.id)
            same = old is not None and old.speed == speed
            since_s = old.since_s if old is not None and same else now
            found.append(replace(tenant, speed=speed, since_s=since_s, source=", ".join(sources)))
        return found

    def _write(self, file: int, tenants: Sequence[Tenant], before: Sequence[Tenant], mine: str) -> Tenant:
        """Write who is there, if that is new; return the tenant of an id, or any other."""
        if [one.id for one in tenants] != [one.id for one in before]:
            tenants = self._with_speeds(tenants, before)
            data = encoded(tenants)
            os.pwrite(file, data, 0)
            os.ftruncate(file, len(data))
        else:
            tenants, data = before, encoded(before)
        if not tenants:
            with suppress(FileNotFoundError):
                self._path.unlink()
            return Tenant(mine, "", 0, 0, TenantProfile())
        own = next((one for one in tenants if one.id == mine), None)
        if own is None:
            return tenants[0]
        self._seen = data, own, [one for one in tenants if one.id != mine]
        return own

    def _read(self, file: int, entering: bool = False) -> list[Tenant]:
        """Return who is there, also those that are gone. What is torn, or left behind, is told."""
        data = os.pread(file, MOST_BYTES, 0)
        if not data:
            return []
        try:
            found = decoded(data)
        except TornState as error:
            self._told(f"the shared state of emulated GPU {self._device} {error}; it is made anew")
            os.ftruncate(file, 0)
            return []
        if entering and found and not any(one.lives for one in found):
            whom = ", ".join(dict.fromkeys(one.job for one in found))
            self._told(
                f"the shared state of emulated GPU {self._device} was left by a process of {whom} that is gone; "
                "it is made anew"
            )
            os.ftruncate(file, 0)
            return []
        return found

    def _bytes(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""

    @contextmanager
    def _opened(self) -> Iterator[int]:
        with _locked(self._path) as file:
            yield file


@contextmanager
def _locked(path: Path, wait: bool = True) -> Iterator[int]:
    """Open a file of the folder and hold its lock. Raises: BlockingIOError where that is held and not to wait."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.parent.stat().st_uid != os.getuid():
        raise PermissionError(f"{path.parent} belongs to another user")
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_nlink:  # else its last tenant has taken it along meanwhile
                yield file
                return
        finally:
            os.close(file)


def _sweep(but: Path) -> None:
    """Remove what processes that are gone have left of other GPUs, such as of a cluster that was killed."""
    with suppress(OSError):
        for path in but.parent.iterdir():
            if path == but:
                continue
            with suppress(OSError), _locked(path, wait=False) as file:
                data = os.pread(file, MOST_BYTES, 0)
                try:
                    found = decoded(data) if data else []
                except TornState:
                    continue  # who enters there next tells of it
                if not any(one.lives for one in found):
                    path.unlink()


def encoded(tenants: Sequence[Tenant]) -> bytes:
    """Return a state as bytes: a check sum, and one object of JSON."""
    text = json.dumps({"tenants": [asdict(one) for one in tenants]}).encode()
    return b"%08x\n%s" % (zlib.crc32(text), text)


def decoded(data: bytes) -> list[Tenant]:
    """Return the tenants in a state. Raises: TornState."""
    head, _, text = data.partition(b"\n")
    if head != b"%08x" % zlib.crc32(text):
        raise TornState("was torn")
    try:
        return [_tenant(one) for one in json.loads(text)["tenants"]]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise TornState("was of another form") from None


def _tenant(row: Mapping[str, Any]) -> Tenant:
    profile = dict(row["profile"])
    beside = {kind: (float(own), float(other)) for kind, (own, other) in profile.pop("beside").items()}
    return Tenant(**{**row, "profile": TenantProfile(**profile, beside=beside)})
