"""A cluster file says which nodes there are and whose they are; what it cannot mean is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.simulator.traces.cluster_file import read_cluster


@pytest.mark.parametrize("field", ["pools", "virtual_clusters"])
def test_each_pool_has_the_nodes_that_its_words_say(field: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f'{field}: {{a: "2x t4:4", b: "1x t4:4@b"}}\n')
    found = read_cluster(str(path))
    assert found.pools == ("a", "b")
    assert {pool: [(n.id, n.pool) for n in part.nodes] for pool, part in found.parts.items()} == {
        "a": [("a-t4-0000", "a"), ("a-t4-0001", "a")],
        "b": [("b-t4-0000", "b")],
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('pools: {a: ""}', "pool 'a' has no nodes; write for example '2x t4:4'"),
        ('pools: {a: "1x t4:4", b: " , "}', "pool 'b' has no nodes; write for example '2x t4:4'"),
        ('pools: {a: "1x t4:4@b"}', "pool 'a': '1x t4:4@b' names pool 'b'; leave out '@b'"),
        ("pools: {}", "needs `nodes: "),
        ("pools: {a: 3}", "needs `nodes: "),
        ('nodes: "1x t4:4"\npools: {a: "1x t4:4"}', "needs `nodes: "),
    ],
)
def test_a_file_that_no_cluster_follows_from_is_refused_in_a_sentence(
    text: str, told: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^cluster: ") as error:
        read_cluster(str(path))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


def test_a_table_of_pools_has_one_row_for_each(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text("vc,num\na,1\nb,2\n")
    assert {pool: len(part.nodes) for pool, part in read_cluster(str(path)).parts.items()} == {"a": 1, "b": 2}
    path.write_text("vc,num\na,1\nb,2\na,3\n")
    with pytest.raises(ValueError, match="pool 'a' has two rows; each pool is accepted once"):
        read_cluster(str(path))
