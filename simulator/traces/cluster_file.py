"""The cluster of a simulation, from words or a file. It is one, or one per pool (virtual cluster)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...core import safe_yaml
from ...core.cluster import Cluster, Node
from ...core.emulated_nodes import parse
from .tables import Row, numbers, read_rows

MOST_NODES = 100_000
FILES = (".yaml", ".yml", ".csv")
POOLS = ("pools", "virtual_clusters")
WHOLE = ""  # the name of a cluster that is not divided


@dataclass(frozen=True)
class SimulatedCluster:
    """Pools that share nothing, by name. A single part `WHOLE` takes every job."""

    parts: Mapping[str, Cluster]

    @property
    def pools(self) -> tuple[str, ...]:
        """The names of the pools; none if the cluster is a whole."""
        return tuple(sorted(name for name in self.parts if name != WHOLE))

    @property
    def joined(self) -> Cluster:
        """All nodes as one cluster; each node keeps the name of its pool."""
        return Cluster(tuple(replace(node, pool=name) for name, part in self.parts.items() for node in part.nodes))

    @property
    def gpu_types(self) -> tuple[str, ...]:
        return tuple(sorted({t for part in self.parts.values() for t in part.gpu_types}))


def cluster_of(words: str, prefix: str = "", pool: str = "") -> Cluster:
    """Return `"6x t4:4, 2x a100:8/24/500"` as nodes with ids in that order.

    Raise ValueError as `coadapt up --emulate` does.
    """
    found: list[Node] = []
    for node in parse(words, known=(), most_nodes=MOST_NODES, field="cluster"):
        name = f"{prefix}{node.gpu_type}-{len(found):04d}"
        found.append(Node(name, node.gpu_type, node.gpus, node.cpus, node.memory_gib, pool=node.pool or pool))
    return Cluster(tuple(found))


def _by_pool(cluster: Cluster) -> SimulatedCluster:
    """Divide a cluster whose nodes name pools; a cluster whose nodes name none is a whole."""
    return SimulatedCluster(dict(cluster.pools) if any(cluster.pools) else {WHOLE: cluster})


def _pool(name: str, words: str) -> Cluster:
    """Read the nodes of a pool, whose ids begin with its name."""
    if not words.strip(" ,"):
        raise ValueError(f"cluster: pool {name!r} has no nodes; write for example '2x t4:4'")
    found = cluster_of(words, f"{name}-", name)
    if strange := next((node.pool for node in found.nodes if node.pool != name), None):
        raise ValueError(f"cluster: pool {name!r}: {words!r} names pool {strange!r}; leave out '@{strange}'")
    return replace(found, pool=name)


def read_cluster(given: str) -> SimulatedCluster:
    """Return a cluster from words, or from the path of a file that describes one.

    A YAML file holds `nodes: "6x t4:4, 2x a100:8"`, or `pools:` (or `virtual_clusters:`) with such words for
    each name. A CSV file holds the number of nodes of 8 GPUs of each pool, in its columns `vc` (or a nameless
    one) and `num` (or `node_num`).

    Raise ValueError, in one sentence, for a cluster that is not accepted.
    """
    path = Path(given)
    if path.suffix == ".csv":
        return _virtual_clusters(path)
    if path.suffix not in FILES:
        return _by_pool(cluster_of(given))
    try:
        with path.open("rb") as file:
            content = safe_yaml.read(file.read(safe_yaml.MAX_BYTES + 1))
    except OSError as error:
        raise ValueError(f"cluster: {path} cannot be read: {error.strerror or error}") from None
    except safe_yaml.YamlProblem as error:
        raise ValueError(f"cluster: {path}: {safe_yaml.told(error, 'cluster file')}") from None
    if isinstance(content, dict) and isinstance(content.get("nodes"), str) and len(content) == 1:
        return _by_pool(cluster_of(content["nodes"]))
    alone = isinstance(content, dict) and len(content) == 1
    parts = next((content.get(field) for field in POOLS if field in content), None) if alone else None
    if not isinstance(parts, dict) or not parts or not all(isinstance(words, str) for words in parts.values()):
        raise ValueError(f'cluster: {path} needs `nodes: "6x t4:4"`, or `pools:` with such words by name, alone')
    return SimulatedCluster({str(name): _pool(str(name), words) for name, words in parts.items()})


def _virtual_clusters(path: Path) -> SimulatedCluster:
    rows, count = _with_counts(path)
    name = next((column for column in rows[0] if column in ("vc", "")), None)
    if name is None:
        raise ValueError(f"cluster: {path}: column 'vc' is missing")
    nodes = numbers(path, rows, count, least=1, whole=True)
    names = [row[name] for row in rows]
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise ValueError(f"cluster: {path}: pool {twice!r} has two rows; each pool is accepted once")
    return SimulatedCluster(
        {pool: _pool(pool, f"{int(count)}x gpu:8") for pool, count in zip(names, nodes, strict=True)}
    )


def _with_counts(path: Path) -> tuple[list[Row], str]:
    """Return the rows, and the name of the column with the number of nodes."""
    try:
        return read_rows(path, ("num",), ("vc",)), "num"
    except ValueError as error:
        try:
            return read_rows(path, ("node_num",), ("vc",)), "node_num"
        except ValueError:
            raise error from None
