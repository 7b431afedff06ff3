"""A cluster whose nodes are bought and given up, without Ray: rounds of a real policy, and nodes that come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import Placement
from coadapt.core.scaling_settings import ScalingSettings
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.scheduler.scaling.control import ScalingControl, SeenNode
from coadapt.scheduler.scaling.state import ScalingState

ROUND_S = 60.0


def types(**given: str) -> dict[str, dict[str, Any]]:
    """Return node types: types(t4="t4:4 2.0 0-3", cheap="t4:4 0.6 0-3 spot")."""
    found = {}
    for name, text in given.items():
        kind, price, limits, *spot = text.split()
        gpu_type, gpus = kind.split(":")
        least, most = limits.split("-")
        found[name.replace("_", "-")] = {
            "gpu_type": gpu_type,
            "gpus": int(gpus),
            "price_per_h": float(price),
            "min": int(least),
            "max": int(most),
            "spot": bool(spot),
        }
    return found


def settings(budget: float = 100.0, rounds: int = 3, **given: Any) -> ScalingSettings:
    """Return settings; keywords that are texts are node types."""
    kinds = types(**{name: text for name, text in given.items() if isinstance(text, str) and ":" in text})
    rest = {name: value for name, value in given.items() if name.replace("_", "-") not in kinds}
    base = {"idle_s": 120.0, "keep_s": 0.0, "request_limit_s": 600.0, "leave_out_s": 1800.0}
    return ScalingSettings.model_validate(
        {"budget_per_h": budget, "rounds": rounds, "types": kinds, **base, **rest}
    )


@dataclass
class ScalingWorld:
    """Rounds of a minute over nodes that come `boot_rounds` after they were asked for.

    refuses: types of which no node ever comes.
    """

    settings: ScalingSettings
    policy: str = "fifo"
    boot_rounds: int = 2
    jobs: list[JobView] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    noticed: set[str] = field(default_factory=set)
    options: dict[str, Any] = field(default_factory=dict)
    state: ScalingState = field(default_factory=ScalingState)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.nodes: dict[str, tuple[str, Node]] = {}
        self.told: list[str] = []
        self.plan = Plan({})
        self.most_cost = 0.0
        self._made: Counter[str] = Counter()
        self._coming: list[tuple[float, str]] = []
        self._planner = make_policy(self.policy, **self.options)
        self.control = ScalingControl(self.settings)

    def restart(self) -> None:
        """Begin anew with what is stored, as after a kill."""
        self.state = ScalingState.from_json(self.state.to_json())
        self.control = ScalingControl(self.settings)

    def add(self, name: str, count: int = 1) -> None:
        """Let nodes of a type come."""
        type = self.settings.types[name]
        for _ in range(count):
            self._made[name] += 1
            id = f"{name}-{self._made[name]:03d}"
            self.nodes[id] = name, Node(id, type.gpu_type, type.gpus, machine=f"m-{id}")

    def round(self, count: int = 1) -> None:
        """Let rounds pass; nodes come and go between them."""
        for _ in range(count):
            self.now += ROUND_S
            for due, name in [one for one in self._coming if one[0] <= self.now]:
                self._coming.remove((due, name))
                self.add(name)
            leaving = self.state.leaving
            here = Cluster(tuple(node for id, (_, node) in self.nodes.items() if id not in leaving))
            views = [replace(job, placement=self._kept(job.id, here)) for job in self.jobs]
            round = Round(self.now, ROUND_S, here, views)
            self.plan = self._planner.plan(round)
            self.control.take(round, self.plan)
            self.turn()

    def turn(self) -> None:
        """Let one turn follow, and the autoscaler do what it is asked."""
        busy = {share.node_id: job for job, held in self.plan.placements.items() for share in held.shares}
        seen = {
            id: SeenNode(id, node.machine, name, busy.get(id, ""), noticed=id in self.noticed)
            for id, (name, node) in self.nodes.items()
        }
        turn = self.control.turn(self.state, seen, self.now)
        self.state = turn.state
        self.told += turn.told
        self.most_cost = max(self.most_cost, self.settings.cost_per_h(self.state.all))
        for id, one in self.state.leaving.items():
            if one.dropped:
                self.nodes.pop(id, None)
        wish, there = self.state.wish(), Counter(name for name, _ in self.nodes.values())
        coming = Counter(name for _, name in self._coming)
        for name, count in wish.items():
            for _ in range(count - there[name] - coming[name]):
                if name not in self.refuses:
                    self._coming.append((self.now + self.boot_rounds * ROUND_S, name))

    def here(self) -> dict[str, int]:
        """Return how many nodes of each type are there."""
        return dict(sorted(Counter(name for name, _ in self.nodes.values()).items()))

    def end(self, *jobs: str) -> None:
        """Let jobs end."""
        self.jobs = [job for job in self.jobs if job.id not in jobs]

    def submit(self, *jobs: JobView) -> None:
        self.jobs += jobs

    def _kept(self, job: str, here: Cluster) -> Placement | None:
        held = self.plan.placements.get(job)
        return held if held is not None and all(node in here.by_id for node in held.by_node) else None


def asked(world: ScalingWorld) -> dict[str, int]:
    """Return what is asked for."""
    return dict(sorted(world.state.asked.items()))


def last(told: Sequence[str], word: str) -> str:
    """Return the last line with a word; "": there is none."""
    return next((line for line in reversed(told) if word in line), "")
