"""The GPUs of one type and the teams that hold guarantees of them, as a decision fills them in. Pure.

The words are those of a pool in "Anticipatory Resource Allocation for ML Training": a team's *quota* is its
guarantee. A *dedicated* job runs on it; a *borrower* runs on what others leave idle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)  # thousands are made in each decision, and frozen ones take three times as long
class Waiting:
    """A job that has no GPUs. It takes `least_s` to `most_s` from now on; the second may be inf.

    at: its position in the round, which is by submission. stoppable: it may borrow and be stopped.
    """

    at: int
    gpus: int
    least_s: float = 0.0
    most_s: float = math.inf
    stoppable: bool = False

    @property
    def service(self) -> float:
        """GPU-seconds that it takes at most."""
        return self.gpus * self.most_s


@dataclass(slots=True)
class Running:
    """A job that has GPUs, and will have them for `least_s` to `most_s` from now on."""

    at: int
    gpus: int
    least_s: float = 0.0
    most_s: float = math.inf
    stoppable: bool = False


Turn = Waiting | Running


@dataclass
class Pool:
    """A team in the decision: what it was promised, what runs for it, and its queue by submission."""

    name: str
    quota: int
    waiting: list[Waiting] = field(default_factory=list)
    dedicated: list[Running] = field(default_factory=list)
    borrowing: list[Running] = field(default_factory=list)
    used: int = field(init=False)  # GPUs of its quota that its own jobs have
    held: int = field(init=False)  # all GPUs that its jobs have

    def __post_init__(self) -> None:
        self.used = sum(job.gpus for job in self.dedicated)
        self.held = self.used + sum(job.gpus for job in self.borrowing)

    def runs(self, job: Running, *, borrows: bool) -> None:
        """Note that a job has GPUs: those of the quota, or what others leave idle."""
        (self.borrowing if borrows else self.dedicated).append(job)
        self.used += 0 if borrows else job.gpus
        self.held += job.gpus

    def gives_back(self, job: Running) -> None:
        """Note that a borrower has no GPUs any more."""
        self.borrowing.remove(job)
        self.held -= job.gpus

    @property
    def unused(self) -> int:
        return max(self.quota - self.used, 0)

    @property
    def turns(self) -> Sequence[Turn]:
        """Whose turn on the quota comes, in order: those that wait, and borrowers that may be stopped."""
        borrowers = [job for job in self.borrowing if job.stoppable]
        if not borrowers:
            return self.waiting
        return sorted([*self.waiting, *borrowers], key=lambda job: job.at)

    @property
    def standing(self) -> float:
        """All GPUs that its jobs have, over its quota; a team without one comes last."""
        return self.held / self.quota if self.quota else math.inf


@dataclass(frozen=True)
class Start:
    """A job that gets GPUs now, on its own team's quota or on what others leave idle.

    on: (node, GPUs) of each node that it is on; (): anywhere.
    """

    at: int
    borrows: bool
    on: tuple[tuple[str, int], ...] = ()


@dataclass
class Book:
    """The pools of one GPU type, and how many GPUs of it are idle."""

    pools: list[Pool]
    idle: int

    @classmethod
    def of(cls, pools: Iterable[Pool], gpus: int) -> Book:
        """Return the book of `gpus` GPUs in all, less what runs."""
        listed = list(pools)
        return cls(listed, gpus - sum(pool.held for pool in listed))

    @property
    def recoverable(self) -> int:
        """GPUs that are idle, or had by borrowers that may be stopped."""
        return self.idle + sum(job.gpus for job in self.borrowers if job.stoppable)

    @property
    def borrowers(self) -> Iterator[Running]:
        for pool in self.pools:
            yield from pool.borrowing

    def ordered(self) -> list[Pool]:
        """Return the pools by what they hold over their quota, those with least first; ties go by their order."""
        return sorted(self.pools, key=lambda pool: pool.standing)

    def start(self, pool: Pool, job: Waiting, *, borrows: bool, on: tuple[tuple[str, int], ...] = ()) -> Start:
        """Give a waiting job idle GPUs."""
        pool.waiting.remove(job)
        pool.runs(Running(job.at, job.gpus, job.least_s, job.most_s, job.stoppable), borrows=borrows)
        self.idle -= job.gpus
        return Start(job.at, borrows, on)
