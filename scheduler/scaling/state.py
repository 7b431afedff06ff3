"""What is stored of nodes that were asked for and of those that are given up. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """One node that Ray's autoscaler was asked for. `since_s`: seconds since 1970, steady."""

    id: int
    type: str
    since_s: float
    reason: str


@dataclass(frozen=True)
class Known:
    """A node that is there. `used`: whether a job was ever seen on it. `bought`: whether it was asked for."""

    type: str
    since_s: float
    used: bool = False
    bought: bool = False


@dataclass(frozen=True)
class Leaving:
    """A node that is given up. `dropped`: its lease is gone, so that the autoscaler may end it."""

    machine: str
    type: str
    since_s: float
    reason: str
    dropped: bool = False


@dataclass(frozen=True)
class LeftOut:
    """A type of which no node is asked for until a moment."""

    until_s: float
    reason: str


@dataclass(frozen=True)
class ScalingState:
    """Everything that is stored.

    requests: nodes that were asked for and have not come, oldest first.
    nodes, leaving: by the id of the node.
    left_out: by type.
    notices, node_hours: of each type, what notices of its cloud there were and in how many hours of its nodes.
    noticed: ids of nodes whose notice is counted.
    had: types of which a node was ever there.
    spent: dollars, by prices of now.
    numbered, unmet: requests so far, and those of them that were given up.
    """

    requests: tuple[Request, ...] = ()
    nodes: Mapping[str, Known] = field(default_factory=dict)
    leaving: Mapping[str, Leaving] = field(default_factory=dict)
    left_out: Mapping[str, LeftOut] = field(default_factory=dict)
    notices: Mapping[str, int] = field(default_factory=dict)
    node_hours: Mapping[str, float] = field(default_factory=dict)
    noticed: tuple[str, ...] = ()
    had: frozenset[str] = frozenset()
    spent: float = 0.0
    numbered: int = 0
    unmet: int = 0

    @property
    def here(self) -> Mapping[str, int]:
        """Return how many nodes of each type are there, also those that leave."""
        return Counter(known.type for known in self.nodes.values())

    @property
    def asked(self) -> Mapping[str, int]:
        """Return how many nodes of each type are asked for."""
        return Counter(request.type for request in self.requests)

    @property
    def staying(self) -> Mapping[str, int]:
        """Return how many nodes of each type are there and do not leave."""
        return Counter(known.type for id, known in self.nodes.items() if id not in self.leaving)

    @property
    def all(self) -> Mapping[str, int]:
        """Return how many nodes of each type are there or asked for."""
        return Counter(self.here) + Counter(self.asked)

    def notices_per_h(self, type: str) -> float:
        """Return how often a node of a type has had a notice of its cloud, an hour."""
        hours = self.node_hours.get(type, 0.0)
        return self.notices.get(type, 0) / max(hours, 1.0)  # the first hour tells little

    def wish(self) -> Mapping[str, int]:
        """Return the nodes of each type that Ray's autoscaler is to see to.

        It may take an idle node for one that it is asked to keep. So nothing is asked of a type of which a node
        leaves. Its other nodes have leases, and are not idle for Ray.
        """
        leaves = {one.type for one in self.leaving.values() if one.dropped}
        found = Counter(self.staying) + Counter(self.asked)
        return {type: count for type, count in sorted(found.items()) if type not in leaves}

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self) | {"had": sorted(self.had)})

    @classmethod
    def from_json(cls, text: str) -> ScalingState:
        """Return what `to_json` wrote. Raises: ValueError, KeyError or TypeError for any other text."""
        row: dict[str, Any] = json.loads(text)
        return cls(
            **row
            | {
                "requests": tuple(Request(**one) for one in row["requests"]),
                "nodes": {id: Known(**one) for id, one in row["nodes"].items()},
                "leaving": {id: Leaving(**one) for id, one in row["leaving"].items()},
                "left_out": {name: LeftOut(**one) for name, one in row["left_out"].items()},
                "noticed": tuple(row["noticed"]),
                "had": frozenset(row["had"]),
            }
        )
