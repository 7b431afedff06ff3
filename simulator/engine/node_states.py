"""Which nodes of a run are up: some fail and are repaired, some sleep and wake. A node is up if neither holds."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from ...core.cluster import Cluster, Node
from ...core.placement import Placement
from ...policies.contract.round import Plan, Round
from .errors import BadAdvice
from .outages import Change, Failures


class PowerAdvice(Protocol):
    """What is done with machines after a round; names are those of `Node.machine_name`.

    again_s: when the adviser wants to be asked again, on the clock of `Round.now`; None: in the next round.
    """

    @property
    def wake(self) -> Sequence[str]: ...

    @property
    def sleep(self) -> Sequence[str]: ...

    @property
    def again_s(self) -> float | None: ...


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Power:
    """Nodes sleep and wake as `advise` says after each round. A node that wakes is there `boot_s` later.

    asleep: nodes that sleep from the beginning, by id.
    may_help: returns whether nodes may yet wake for jobs that wait, though none is on its way.
    """

    advise: Callable[[Round, Plan], PowerAdvice]
    boot_s: float = 300.0
    asleep: frozenset[str] = frozenset()
    may_help: Callable[[], bool] = _never

    def __post_init__(self) -> None:
        if not 0 <= self.boot_s < math.inf:
            raise ValueError(f"boot_s: {self.boot_s} must be 0 seconds or more, and finite")


class PowerEvent(StrEnum):
    """What happens to a node's power."""

    SLEEPS = "sleeps"
    WAKES = "wakes"  # it begins to boot
    IS_BACK = "is back"


@dataclass(frozen=True)
class PowerChange:
    """A change of a node's power; `time_s` of the trace."""

    time_s: float
    node_id: str
    event: PowerEvent


@dataclass
class NodeStates:
    """The nodes of a run, and all that changes them."""

    cluster: Cluster
    failures: Failures | None = None
    power: Power | None = None
    up: Cluster = field(init=False)
    log: list[PowerChange] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.up = self.cluster
        self._failed: set[str] = set()
        self._asleep: set[str] = set()  # those that wake are asleep until they are back
        self._waking: list[tuple[float, str]] = []  # a heap: when each is back
        self._failing: Iterator[Change] = iter(())
        if self.failures is not None:
            self._failing = self.failures.changes(self.cluster)
        self._failure = next(self._failing, None)
        self._names = {node.machine_name: node.id for node in self.cluster.nodes}

    @property
    def asleep(self) -> tuple[Node, ...]:
        """The nodes that sleep or are on their way back, and have not failed."""
        return tuple(n for n in self.cluster.nodes if n.id in self._asleep and n.id not in self._failed)

    @property
    def some_return(self) -> bool:
        """Whether a node comes back without an event of a job: it is repaired, it boots, or it may yet wake."""
        return bool(self._failed or self._waking) or (self.power is not None and self.power.may_help())

    def let_sleep(self, power: Power) -> None:
        """Let nodes sleep and wake as an adviser says, some of them from the beginning."""
        self.power = power
        for node in self.cluster.nodes:
            if node.id in power.asleep:
                self._asleep.add(node.id)
                self.log.append(PowerChange(-math.inf, node.id, PowerEvent.SLEEPS))
        self._count()

    def next_s(self) -> float:
        """Return when the next node changes by itself; inf: none does."""
        failure_s = math.inf if self._failure is None else self._failure.time_s
        return min(failure_s, self._waking[0][0] if self._waking else math.inf)

    def change(self) -> str | None:
        """Make the next change. Return the node that fails by it; None: one comes back."""
        back_s = self._waking[0][0] if self._waking else math.inf
        failure = self._failure
        if failure is None or back_s <= failure.time_s:
            time_s, node = heapq.heappop(self._waking)
            self._asleep.discard(node)
            self.log.append(PowerChange(time_s, node, PowerEvent.IS_BACK))
            self._count()
            return None
        self._failure = next(self._failing, None)
        (self._failed.add if failure.fails else self._failed.discard)(failure.node_id)
        self._count()
        return failure.node_id if failure.fails else None

    def follow(self, round: Round, plan: Plan, held: Iterable[Placement | None]) -> float:
        """Let nodes sleep and wake as the adviser says after a round. Return when it is to be asked again.

        held: what the jobs that run have. Nodes that sleep or wake already are left as they are.

        Raises:
            BadAdvice: in one sentence, for an unknown machine, and for sleep of a node on which a job runs.
        """
        assert self.power is not None
        advice, now_s = self.power.advise(round, plan), round.now
        coming = {node for _, node in self._waking}
        for node in self._known(advice.wake):
            if node in self._asleep and node not in coming:
                heapq.heappush(self._waking, (now_s + self.power.boot_s, node))
                self.log.append(PowerChange(now_s, node, PowerEvent.WAKES))
        busy = {node for placement in held if placement is not None for node in placement.by_node}
        for node in self._known(advice.sleep):
            if node in busy:
                raise BadAdvice(f"round at {now_s:g} s: node {node} may not sleep, as a job runs on it")
            if node not in self._asleep:
                self._asleep.add(node)
                self.log.append(PowerChange(now_s, node, PowerEvent.SLEEPS))
        if advice.sleep:
            self._count()
        return math.inf if advice.again_s is None else float(advice.again_s)

    def _known(self, machines: Sequence[str]) -> list[str]:
        unknown = [name for name in machines if name not in self._names]
        if unknown:
            raise BadAdvice(f"machine {unknown[0]!r} is none of this cluster")
        return [self._names[name] for name in machines]

    def _count(self) -> None:
        off = self._failed | self._asleep
        self.up = replace(self.cluster, nodes=tuple(n for n in self.cluster.nodes if n.id not in off))
