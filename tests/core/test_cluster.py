"""A cluster is its nodes: in one order, comparable, and cheap to keep things by."""

import os
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from hypothesis import given
from hypothesis import strategies as st

NODES = tuple(Node(f"n{i}", "a" if i % 2 else "b", 4, 16.0) for i in range(6))


def test_equal_nodes_make_equal_clusters_in_whatever_order() -> None:
    one, two = Cluster(NODES), Cluster(NODES[::-1])
    assert one == two
    assert hash(one) == hash(two)
    assert {one: "kept"}[two] == "kept"
    assert one != Cluster(NODES[1:])
    assert one != Cluster((replace(NODES[0], gpus=8), *NODES[1:]))
    assert one != NODES


def test_nodes_are_sorted_by_id_and_an_id_twice_is_refused() -> None:
    assert [node.id for node in Cluster(NODES[::-1]).nodes] == [f"n{i}" for i in range(6)]
    with pytest.raises(ValueError, match="duplicate"):
        Cluster((NODES[0], replace(NODES[0], gpus=8)))


def test_a_cluster_from_another_process_is_found_by_its_equal() -> None:
    """A string's hash differs between processes, so none may travel along."""
    code = (
        "import pickle, sys; from coadapt.core.cluster import Cluster, Node; "
        "c = Cluster((Node('n0', 'b', 4),)); hash(c); sys.stdout.buffer.write(pickle.dumps(c))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "1"}
    there = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=env).stdout
    found = pickle.loads(there)
    assert {Cluster((Node("n0", "b", 4),)): "kept"}[found] == "kept"


@given(st.lists(st.tuples(st.sampled_from(["n1", "n2", "n10"]), st.integers(1, 8)), max_size=4))
def test_shares_are_in_one_order_however_they_are_given(held: list[tuple[str, int]]) -> None:
    shares = tuple(NodeShare(node, gpus) for node, gpus in held)
    placement = Placement("a", shares)
    assert placement == Placement("a", shares[::-1])
    assert list(placement.shares) == sorted(shares)
    assert pickle.loads(pickle.dumps(placement)) == placement
