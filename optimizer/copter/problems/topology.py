"""Networks to route traffic through: a reader of Topology Zoo's GraphML, and random graphs of published sizes.

NCFlow, POP, Teal and COpter measure on Kdl (Kentucky Data Link, in the Topology Zoo) and ASN (autonomous systems).
Kdl has 754 nodes, 1,790 directed edges, diameter 58, and 22.7 hops between two nodes on average. ASN has 1,739
nodes, 8,558 edges, diameter 8, and 3.2 hops (Teal, SIGCOMM 2023). `kdl_like` and `asn_like` have the same numbers
of nodes and edges, and similar diameters and distances.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree, shortest_path
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist, squareform

NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"
BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
# How many of a town's nearest a ring may be closed with.
NEIGHBOURS = 6


@dataclass(frozen=True, eq=False)
class Topology:
    """A network of directed edges tail -> head.

    tail, head: (edges,) node numbers below `nodes`.
    capacity: (edges,) > 0.

    Raises:
        ValueError: for shapes that do not agree, unknown nodes, and capacities that are not positive and finite.
            Also for an edge from a node to itself, and an edge that is there twice.
    """

    nodes: int
    tail: np.ndarray
    head: np.ndarray
    capacity: np.ndarray

    def __post_init__(self) -> None:
        if not self.tail.shape == self.head.shape == self.capacity.shape or self.tail.ndim != 1:
            raise ValueError(
                f"tail, head, capacity: have shapes {self.tail.shape}, {self.head.shape}, {self.capacity.shape}; "
                "all must be (edges,)"
            )
        for name in ("tail", "head"):
            array = getattr(self, name)
            outside = (array < 0) | (array >= self.nodes)
            if outside.any():
                e = int(outside.argmax())
                raise ValueError(f"{name}[{e}]: is {array[e]}, not a node below {self.nodes}")
        loops = self.tail == self.head
        if loops.any():
            raise ValueError(f"tail[{int(loops.argmax())}]: is an edge from a node to itself")
        if len(np.unique(self.tail.astype(np.int64) * self.nodes + self.head)) != len(self.tail):
            raise ValueError("tail, head: have the same edge twice; one with the sum of capacities is accepted")
        wrong = ~(np.isfinite(self.capacity) & (self.capacity > 0))
        if wrong.any():
            e = int(wrong.argmax())
            raise ValueError(f"capacity[{e}]: is {self.capacity[e]}, not positive and finite")

    @property
    def edges(self) -> int:
        return len(self.tail)

    def hops(self) -> np.ndarray:
        """Return (nodes, nodes) the number of edges on a shortest path; inf if there is none."""
        ones = np.ones(self.edges)
        return shortest_path(
            sparse.csr_array((ones, (self.tail, self.head)), shape=(self.nodes, self.nodes)), unweighted=True
        )


def both_ways(nodes: int, pairs: np.ndarray, capacity: np.ndarray) -> Topology:
    """Make two directed edges of each undirected link (links, 2). Capacities of parallel links are added up."""
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    key, which = np.unique(low.astype(np.int64) * nodes + high, return_inverse=True)
    total = np.bincount(which, weights=capacity, minlength=len(key))
    low, high = (key // nodes).astype(np.int32), (key % nodes).astype(np.int32)
    return Topology(
        nodes, np.concatenate([low, high]), np.concatenate([high, low]), np.concatenate([total, total])
    )


def read_graphml(path: Path | str, capacity: float = 1000.0) -> Topology:
    """Read a Topology Zoo file. Every link gets the same capacity, as in the published evaluations of Kdl.

    Nodes are numbered in the order of the file. Links are undirected unless the graph or the link says otherwise.
    Links from a node to itself are left out, and parallel ones are added up.

    Raises:
        ValueError: for what is no GraphML, a graph without nodes or links, and nodes without an id of their own.
            Also for links without an end or to unknown nodes, and a `directed` that is no boolean.
    """
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the last two: of its encoding
        raise ValueError(f"{path}: is not XML ({error}); a GraphML file is accepted") from None
    graph = root.find(f"{NAMESPACE}graph")
    if root.tag != f"{NAMESPACE}graphml" or graph is None:
        raise ValueError(f"{path}: has no <graphml> with a <graph> in it; a GraphML file is accepted")
    ids = [node.get("id", "") for node in graph.iterfind(f"{NAMESPACE}node")]
    number = {name: i for i, name in enumerate(ids)}
    if not ids:
        raise ValueError(f"{path}: has no <node>; at least two are needed")
    if "" in number:
        raise ValueError(f"{path}: has a <node> without an id; each needs one")
    if len(number) != len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise ValueError(f"{path}: has node {twice!r} twice; ids must be distinct")
    links, one_way = [], []
    default = "true" if graph.get("edgedefault") == "directed" else "false"
    for edge in graph.iterfind(f"{NAMESPACE}edge"):
        ends = (edge.get("source", ""), edge.get("target", ""))
        if "" in ends:
            raise ValueError(
                f"{path}: has an <edge> from {ends[0]!r} to {ends[1]!r}; a source and a target are needed"
            )
        for end in ends:
            if end not in number:
                raise ValueError(f"{path}: has an <edge> to node {end!r}, which is not among its {len(ids)} nodes")
        directed = edge.get("directed", default)
        if directed not in BOOLEANS:
            raise ValueError(
                f"{path}: has an <edge> with directed={directed!r}; {', '.join(BOOLEANS)} are accepted"
            )
        if ends[0] != ends[1]:
            links.append((number[ends[0]], number[ends[1]]))
            one_way.append(BOOLEANS[directed])
    if not links:
        raise ValueError(f"{path}: has no <edge> between two nodes; at least one is needed")
    pairs = np.array(links)
    if not any(one_way):
        return both_ways(len(ids), pairs, np.full(len(pairs), capacity))
    arcs = np.concatenate([pairs, pairs[~np.array(one_way), ::-1]])
    key, count = np.unique(arcs[:, 0].astype(np.int64) * len(ids) + arcs[:, 1], return_counts=True)
    tail, head = (key // len(ids)).astype(np.int32), (key % len(ids)).astype(np.int32)
    return Topology(len(ids), tail, head, capacity * count.astype(float))


def kdl_like(seed: int = 0, nodes: int = 754, links: int = 895, capacity: float = 1000.0) -> Topology:
    """Draw a regional fibre network: towns on a square, joined by the shortest tree and then by short rings.

    Beyond the tree, links are preferred that are short on the ground and save many hops, as rings that protect a
    route do.

    Raises:
        ValueError: for fewer than 7 nodes, more links than there are such rings, or fewer than the tree has.
    """
    if nodes <= NEIGHBOURS:
        raise ValueError(f"nodes: is {nodes}; {NEIGHBOURS + 1} or more are accepted")
    rng = np.random.default_rng(seed)
    towns = rng.random((nodes, 2))
    tree = sparse.coo_array(minimum_spanning_tree(squareform(pdist(towns))))
    pairs = np.stack(tree.coords, axis=1)
    distance = shortest_path(sparse.csr_array(tree), directed=False, unweighted=True)
    _, near = cKDTree(towns).query(towns, k=NEIGHBOURS + 1)
    candidates = np.unique(
        np.sort(np.stack([np.repeat(near[:, 0], NEIGHBOURS), near[:, 1:].ravel()], axis=1), axis=1), axis=0
    )
    around = distance[candidates[:, 0], candidates[:, 1]]
    rings = candidates[around >= 10]
    if not 0 <= links - len(pairs) <= len(rings):
        most = len(pairs) + len(rings)
        raise ValueError(f"links: is {links}; of these {nodes} nodes, {len(pairs)} to {most} are accepted")
    extra = rng.choice(len(rings), links - len(pairs), replace=False)
    pairs = np.concatenate([pairs, rings[np.sort(extra)]])
    return both_ways(nodes, pairs, np.full(len(pairs), capacity))


def asn_like(seed: int = 0, nodes: int = 1739, links: int = 4279, capacity: float = 250.0) -> Topology:
    """Draw autonomous systems: newcomers buy transit from those that are already large (preferential attachment).

    Links of larger systems carry more: `capacity` times one more than the smaller of the two numbers of links.

    Raises:
        ValueError: for fewer than 2 nodes, fewer links than join them, or more than there are pairs of them.
    """
    if nodes < 2:
        raise ValueError(f"nodes: is {nodes}; 2 or more are accepted")
    most = nodes * (nodes - 1) // 2
    if not nodes - 1 <= links <= most:
        raise ValueError(f"links: is {links}; of {nodes} nodes, {nodes - 1} to {most} are accepted")
    rng = np.random.default_rng(seed)
    degree = np.zeros(nodes)
    chosen: set[tuple[int, int]] = {(0, 1)}
    degree[:2] = 1
    for node in range(2, nodes):
        left, newcomers = links - len(chosen), nodes - node
        # Transit from one provider is common. The mean is such that all links are used up.
        count = int(rng.geometric(1 / max(1.0, left / newcomers)))
        count = max(1, min(count, node, left - (newcomers - 1)))
        weight = degree[:node] ** 1.3
        for provider in rng.choice(node, count, replace=False, p=weight / weight.sum()):
            chosen.add((int(provider), node))
            degree[[provider, node]] += 1
    while len(chosen) < links:
        a, b = sorted(rng.choice(nodes, 2, replace=False, p=degree / degree.sum()))
        if (a, b) not in chosen:
            chosen.add((int(a), int(b)))
            degree[[a, b]] += 1
    pairs = np.array(sorted(chosen))
    return both_ways(nodes, pairs, capacity * (1 + np.minimum(degree[pairs[:, 0]], degree[pairs[:, 1]])))
