"""One generation of a job's process group: it is formed, talks, and can be broken at once.

Groups of a job share the executor's one `TCPStore` under a prefix per generation. Only the executor counts
generations.
When a member dies, the others' collectives fail one after the other, each after waiting for the last. So the
first to notice shuts the group's sockets down, and everyone notices.
"""

from __future__ import annotations

import json
import os
import pickle
import socket
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ...protocol.messages import Join
from ...protocol.script_errors import MIXED_UP, SHARE_DECISIONS, different_ways
from ..sharding.shards import Shards

# How long to wait for the executor's store, and for connections between members that all said they are here.
FORM_TIMEOUT = timedelta(seconds=30)
# The executor, not a timer, decides when a rank hangs: long evaluations and slow checkpoints are no failures.
COLLECTIVE_TIMEOUT = timedelta(hours=2)
_POLL = timedelta(milliseconds=100)
LEAVE_S = 0.5  # an unbroken group ends within milliseconds
REMEMBERED = 8  # collectives whose places are kept
COMPARE_S = 1.0  # a wait as long as this is compared with what others wait for


class GroupBroken(Exception):
    """Raised where a member is gone: this group will complete no further collective."""


class Disagreement(RuntimeError):
    """Raised where replicas differ that should do the same; one sentence for the script's owner."""


class Abandoned(BaseException):
    """Raised where rank 0 has left the training loop: what it decided holds for all."""


class Superseded(Exception):
    """Raised where a newer generation was announced before this one was complete."""


class Stores:
    """Connections to executors' stores, one per address, because a new one would cost a round of back-offs."""

    def __init__(self) -> None:
        self._stores: dict[tuple[str, int], dist.TCPStore] = {}

    def get(self, host: str, port: int) -> dist.TCPStore:
        if (host, port) not in self._stores:
            self._stores[host, port] = dist.TCPStore(host, port, is_master=False, timeout=FORM_TIMEOUT)
        return self._stores[host, port]


class Group:
    """A formed process group, which is torch's default one while it lives."""

    def __init__(
        self, join: Join, device: torch.device, sockets: dict[int, int], store: dist.Store | None = None
    ) -> None:
        self.place: tuple[Any, ...] = ("start",)  # where the script is, for `Whereabouts`
        self.disagreement = ""  # how replicas were found to differ
        self._entered = 0  # collectives so far
        self._places: deque[tuple[int, tuple[Any, ...]]] = deque(
            maxlen=REMEMBERED
        )  # where the last ones were made
        self._whereabouts = Whereabouts(store, join.rank, join.world_size) if store is not None else None
        self.generation = join.generation
        self.rank = join.rank
        self.world_size = join.world_size
        self.nodes = join.nodes
        self.local_rank = join.local_rank
        self.local_world_size = join.local_world_size
        self.device = device
        self.shards: Shards | None = None  # the processes of this replica, where it is several
        self.broken = False
        self._sockets = sockets
        self._lock = threading.Lock()

    @classmethod
    def form(
        cls,
        join: Join,
        device: torch.device,
        store: dist.Store,
        given_up: Callable[[], bool] = lambda: False,
        several_gpus: bool = False,
    ) -> Group:
        """Meet the other members of `join.generation` and connect to them.

        `several_gpus`: a member's tensors lie on other GPUs than `device`, too, so NCCL connects when first
        used.
        Raises `Superseded` when `given_up` becomes true while some are still missing. Raises `GroupBroken` when
        a member disappears while the connections are made.
        """
        leave_group()
        try:
            prefixed = dist.PrefixStore(f"g{join.generation}/", store)
            wait_for_members(prefixed, join, given_up)
            if device.type == "cuda":
                # The executor reports a lost peer; torch's watchdog would end this process instead.
                os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")
            before = open_sockets()
            dist.init_process_group(
                backend_for(device),
                store=prefixed,
                rank=join.rank,
                world_size=join.world_size,
                timeout=FORM_TIMEOUT,
                device_id=device if device.type == "cuda" and not several_gpus else None,
            )
            opened = {fd: inode for fd, inode in open_sockets().items() if before.get(fd) != inode}
            group = cls(join, device, opened, prefixed)
            for kind in {"cpu", device.type}:
                _backend_of(kind)._set_default_timeout(COLLECTIVE_TIMEOUT)
            return group
        except (RuntimeError, OSError) as error:
            with suppress(RuntimeError):
                leave_group()
            raise GroupBroken(str(error)) from None

    def fail(self) -> None:
        """Make every pending and coming collective of this group fail, here and at the other members.

        Any thread may call this, more than once.
        """
        with self._lock:
            if self._failed:
                return
            self._failed = True
        for fd, inode in self._sockets.items():
            _shut_down(fd, inode)
        if self.device.type == "cuda" and self.world_size > 1:
            with suppress(Exception):
                _backend_of("cuda").abort()

    @contextmanager
    def collective(self) -> Iterator[None]:
        """Turn what torch raises for a failed collective into `GroupBroken`, and break the group for all."""
        if self._failed:
            raise GroupBroken
        self._entered += 1
        self._places.append((self._entered, self.place))
        try:
            yield
        except Disagreement:
            raise
        except (RuntimeError, OSError) as error:
            mixed_up = MIXED_UP in str(error)
            if self._whereabouts is not None and not self._failed:
                self._whereabouts.tell(self._places)
            self.fail()
            if mixed_up and self._whereabouts is not None:
                self.differ(self._whereabouts.look_around(self._places))
            raise GroupBroken(str(error)) from None
        if self._failed:
            raise GroupBroken

    def wait(self, work: Any, tensor: Tensor) -> None:
        """Wait for the collective of a tensor; for use inside `collective`.

        gloo never tells a send that meets a connection lost a moment ago, which then waits for its time-out. So
        this looks up now and then whether the group is broken.
        """
        if tensor.is_cuda:
            work.wait()  # this waits for the stream, not for the device; `fail` aborts what runs on it
            return
        since_s = time.monotonic()
        while True:
            try:
                work.wait(_POLL)
                return
            except RuntimeError:
                if self._failed:
                    raise
                if work.is_completed():
                    work.wait()  # raises what it failed with, unless it ended just after the time-out
                    return
                self.look_up(time.monotonic() - since_s)

    def look_up(self, waited_s: float = 0.0) -> None:
        """Look at the group while a collective is waited for. Raises what the others' whereabouts show."""
        if self._failed:
            raise GroupBroken
        if self._whereabouts is not None:
            told = self._whereabouts.compare(self._places, waited_s)
            if told:
                self.differ(told)

    def differ(self, sentence: str) -> None:
        """Raise `Disagreement`: replicas are not alike, and nothing that they make together counts any more."""
        self.disagreement = self.disagreement or sentence
        raise Disagreement(self.disagreement)

    @property
    def _failed(self) -> bool:
        """Whether a collective failed here, or the executor has given the group up. Any thread may set this."""
        return self.broken

    @_failed.setter
    def _failed(self, failed: bool) -> None:
        self.broken = failed

    @property
    def column(self) -> Group:
        """The group of those that hold the same part of the model: all of it, where a replica is one process."""
        return self

    @property
    def replicas(self) -> int:
        """The number of replicas."""
        return self.world_size // self.processes

    @property
    def processes(self) -> int:
        """The number of processes of a replica."""
        return self.shards.count if self.shards is not None else 1

    @property
    def copies(self) -> int:
        """The number of processes of a replica that compute the same samples together."""
        return self.shards.copies if self.shards is not None else 1

    @property
    def data_width(self) -> int:
        """The number of parts that a batch is divided into in each pass."""
        return self.world_size // self.copies

    @property
    def data_rank(self) -> int:
        """This rank's place among the parts of a batch; copies of all parts come after them.

        A replica of several processes has the samples of one that is a single process.
        """
        if self.shards is None:
            return self.rank
        replica = self.rank // self.processes
        return (self.shards.copy * (self.processes // self.copies) + self.shards.part) * self.replicas + replica

    def over_replica(self, values: Tensor) -> Tensor:
        """Add up values over the processes of this replica, in place; all of them call this."""
        return self.shards.total(values) if self.shards is not None else values

    def all_reduce(self, tensor: Tensor) -> Any:
        """Begin to add a tensor up over all ranks, in place; for use inside `collective`."""
        return dist.all_reduce(tensor, async_op=True)

    def _broadcast(self, tensor: Tensor, source: int) -> Any:
        return dist.broadcast(tensor, source, async_op=True)

    def _all_gather(self, everyone: list[Tensor], mine: Tensor) -> Any:
        return dist.all_gather(everyone, mine, async_op=True)

    @property
    def abandoned(self) -> bool:
        """Whether rank 0 has left the loop, and so the group."""
        return self.rank != 0 and self._whereabouts is not None and self._whereabouts.has_left(0)

    def leave_loop(self, where: str) -> None:
        """Tell the others that this rank combines nothing any more, because its script has left the loop."""
        if self._whereabouts is not None and self.world_size > 1:
            self._whereabouts.leave(where)

    def broadcast_ints(self, values: Sequence[int], source: int = 0) -> list[int]:
        """Return `values` of rank `source`, on every rank."""
        if self.world_size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.int64)
        with self.collective():
            self.wait(self._broadcast(tensor, source), tensor)
        return tensor.tolist()

    def gather_ints(self, values: Sequence[int]) -> list[list[int]]:
        """Return every rank's `values`, by rank."""
        if self.world_size == 1:
            return [list(values)]
        mine = torch.tensor(values, dtype=torch.int64)
        everyone = [torch.empty_like(mine) for _ in range(self.world_size)]
        with self.collective():
            self.wait(self._all_gather(everyone, mine), mine)
        return [tensor.tolist() for tensor in everyone]

    def gather_objects(self, mine: Any) -> list[Any]:
        """Return every rank's plain object, by rank."""
        if self.world_size == 1:
            return [mine]
        data = torch.frombuffer(bytearray(pickle.dumps(mine)), dtype=torch.uint8)
        sizes = [size for (size,) in self.gather_ints([len(data)])]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(data)] = data
        everyone = [torch.empty_like(padded) for _ in sizes]
        with self.collective():
            self.wait(self._all_gather(everyone, padded), padded)
        return [pickle.loads(found[:size].numpy().tobytes()) for found, size in zip(everyone, sizes, strict=True)]

    def broadcast_tensors(self, tensors: Sequence[Tensor], source: int) -> None:
        """Overwrite `tensors`, alike in shape and type on all ranks, by those of rank `source`.

        Tensors of one type and device travel together, at most 64 MiB at a time.
        """
        if self.world_size == 1:
            return
        with self.collective(), torch.no_grad():
            for bundle in _bundles(tensors):
                flat = torch.cat([tensor.detach().reshape(-1) for tensor in bundle])
                self.wait(self._broadcast(flat, source), flat)
                if self.rank != source:
                    parts = flat.split([tensor.numel() for tensor in bundle])
                    for tensor, part in zip(bundle, parts, strict=True):
                        tensor.detach().copy_(part.view(tensor.shape))


# Numbers of collectives, in order, and the place in which each was made.
Places = Sequence[tuple[int, tuple[Any, ...]]]


class Whereabouts:
    """Tells a rank that waits long what the others wait for, through the group's store.

    Ranks that make different collectives would wait for each other for ever: their scripts have gone different
    ways.
    Ranks are compared by where each made the same collective, by its number. A rank may be ahead of those that
    wait for a third one.
    """

    def __init__(self, store: dist.Store, rank: int, world_size: int) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._beat = 0
        self._next_s = 0.0
        self._beats: dict[int, int] = {}
        self._suspects = 0

    def leave(self, where: str) -> None:
        with suppress(RuntimeError):
            self._store.set(f"left/{self._rank}", where)

    def has_left(self, rank: int) -> bool:
        with suppress(RuntimeError, OSError):
            return self._store.check([f"left/{rank}"])
        return False

    def compare(self, places: Places, waited_s: float) -> str:
        """Return how another rank differs, empty where none is known to. This looks every second of a wait.

        `places`: where this rank made its last collectives, by number.
        Raises `Abandoned` where rank 0 has left.
        """
        if waited_s < COMPARE_S:
            self._next_s, self._suspects = COMPARE_S, 0
            return ""
        if waited_s < self._next_s:
            return ""
        self._next_s = waited_s + COMPARE_S
        try:
            self.tell(places)
            differs = [self._differs(rank, places) for rank in range(self._world_size) if rank != self._rank]
        except (RuntimeError, OSError):
            return ""  # the executor's store is away for a moment
        told = next((text for text in differs if text), "")
        self._suspects = self._suspects + 1 if told else 0
        return told if self._suspects >= 2 else ""

    def tell(self, places: Places) -> None:
        """Tell the others where this rank is."""
        self._beat += 1
        told = {number: describe_place(place) for number, place in places}
        with suppress(RuntimeError, OSError):
            self._store.set(f"at/{self._rank}", json.dumps([self._beat, list(told.items())]))

    def look_around(self, mine: Places) -> str:
        """Return where all ranks are that say so within a moment. This rank received what was not meant for it."""
        places = [(self._rank, describe_place(mine[-1][1]))]
        for rank in (rank for rank in range(self._world_size) if rank != self._rank):
            with suppress(RuntimeError):
                self._store.wait([f"at/{rank}"], timedelta(seconds=COMPARE_S))
                places.append((rank, json.loads(self._store.get(f"at/{rank}"))[1][-1][1]))
        return _parted(places)

    def _differs(self, rank: int, places: Places) -> str:
        """Return how a rank's last collectives differ from this one's; empty where that cannot be said."""
        mine = describe_place(places[-1][1])
        if self._store.check([f"left/{rank}"]):
            if mine == LEAVES:
                return ""
            where = self._store.get(f"left/{rank}").decode()
            if rank == 0:
                raise Abandoned(where)
            return f"replica {rank} has left {where}, replica {self._rank} {mine}; {SHARE_DECISIONS}"
        if not self._store.check([f"at/{rank}"]):
            return ""
        beat, told = json.loads(self._store.get(f"at/{rank}"))
        waits_now = self._beats.get(rank) not in (None, beat)
        self._beats[rank] = beat
        theirs, ours = dict(map(tuple, told)), {number: describe_place(place) for number, place in places}
        number = min(max(theirs), max(ours))
        here, there = ours.get(number), theirs.get(number)
        if not waits_now or None in (here, there) or here == there or told[-1][1] == LEAVES:
            return ""
        return _parted([(self._rank, str(here)), (rank, str(there))])


LEAVES = "leaves its loop"


def _parted(places: Sequence[tuple[int, str]]) -> str:
    told = ", ".join(f"replica {rank} {where}" for rank, where in sorted(places))
    return different_ways(told)


def describe_place(place: tuple[Any, ...]) -> str:
    match place:
        case ("leaves",):
            return LEAVES
        case ("backward", number, batch, epoch):
            return f"waits to combine gradients of backward {number + 1} of batch {batch} in epoch {epoch}"
        case ("batch", batch, epoch):
            return f"waits before batch {batch} in epoch {epoch}"
        case (text,):
            return f"waits at the {text}"
    return "waits at " + " ".join(map(str, place))


def leave_group() -> None:
    """End torch's default group, where there is one. The other members must not expect anything of this one.

    The last reference to it goes in a thread of its own. That thread joins gloo's threads, and one of a broken
    group may wait for its time-out (see `Group.wait`).
    """
    if not dist.is_initialized():
        return
    last_reference = [dist.group.WORLD]
    with suppress(RuntimeError):
        dist.destroy_process_group()
    end = threading.Thread(target=last_reference.clear, name="coadapt-leave-group", daemon=True)
    end.start()
    end.join(LEAVE_S)


def backend_for(device: torch.device) -> str:
    """Return torch's backend: control always travels over the CPU, gradients travel where they are."""
    return "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"


def _backend_of(kind: str):  # type: ignore[no-untyped-def]  # noqa: ANN202 (a private class of torch)
    return dist.group.WORLD._get_backend(torch.device(kind))  # type: ignore[union-attr]


def wait_for_members(store: dist.Store, join: Join, given_up: Callable[[], bool]) -> None:
    """Wait for all members in a way that can be given up: connecting would block until all are there."""
    store.set(f"here/{join.rank}", "")
    everyone = [f"here/{rank}" for rank in range(join.world_size)]
    while True:
        if given_up():
            raise Superseded
        try:
            store.wait(everyone, _POLL)
            return
        except dist.DistStoreError:
            continue


def open_sockets() -> dict[int, int]:
    """Return open internet sockets of this process: file descriptor -> inode."""
    found: dict[int, int] = {}
    try:
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return found
    for fd in descriptors:
        with suppress(OSError):
            status = os.fstat(fd)
            if stat.S_ISSOCK(status.st_mode):
                found[fd] = status.st_ino
    return found


def _shut_down(fd: int, inode: int) -> None:
    """Shut a connection down without closing it, so that the descriptor stays its owner's."""
    with suppress(OSError):
        copy = os.dup(fd)
        if os.fstat(copy).st_ino != inode:  # it was closed since, and its number given to something else
            os.close(copy)
            return
        with socket.socket(fileno=copy) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.getpeername()  # fails for a listener, which must not be shut down
                connection.shutdown(socket.SHUT_RDWR)


def _bundles(tensors: Sequence[Tensor], limit_bytes: int = 64 * 2**20) -> Iterator[list[Tensor]]:
    kinds: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        if tensor.numel():
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for alike in kinds.values():
        bundle: list[Tensor] = []
        size = 0
        for tensor in alike:
            nbytes = tensor.numel() * tensor.element_size()
            if bundle and size + nbytes > limit_bytes:
                yield bundle
                bundle, size = [], 0
            bundle.append(tensor)
            size += nbytes
        yield bundle
