"""The file of `coadapt up --scaling`, and whether Ray's autoscaler knows what it names."""

from __future__ import annotations

from pathlib import Path

import pytest
from coadapt.deploy.scaling_file import ScalingFileError, load

TYPES = """
budget_per_h: 40
cluster: cluster.yaml
types:
  t4-spot: {gpu_type: t4, gpus: 4, price_per_h: 1.2, max: 4, spot: true}
  a100: {gpu_type: a100, gpus: 8, price_per_h: 30, min: 1, max: 1}
"""
CLUSTER = """
available_node_types:
  head: {node_config: {}, resources: {CPU: 8}, max_workers: 0}
  spot:
    resources: {CPU: 48, GPU: 4}
    max_workers: 4
    labels: {coadapt.io/node-type: t4-spot, coadapt.io/gpu-type: t4}
  a100:
    resources: {CPU: 96, GPU: 8}
    max_workers: 2
    labels: {coadapt.io/node-type: a100, coadapt.io/gpu-type: a100}
"""


def written(folder: Path, types: str = TYPES, cluster: str = CLUSTER) -> Path:
    (folder / "cluster.yaml").write_text(cluster)
    path = folder / "scaling.yaml"
    path.write_text(types)
    return path


def test_a_good_file_is_read_and_compared_with_that_of_the_autoscaler(tmp_path: Path) -> None:
    found = load(written(tmp_path))
    assert (found.mode, found.budget_per_h, found.types["t4-spot"].spot, found.types["a100"].min) == (
        "act",
        40.0,
        True,
        1,
    )
    assert found.cost_per_h({"t4-spot": 2, "a100": 1, "other": 5}) == pytest.approx(32.4)


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        (
            CLUSTER.replace("coadapt.io/node-type: t4-spot, ", ""),
            "types.t4-spot: {dir}/cluster.yaml: no node type there has the label coadapt.io/node-type: t4-spot; "
            "known: a100",
        ),
        (
            CLUSTER.replace("GPU: 8", "GPU: 4"),
            "types.a100: {dir}/cluster.yaml: its nodes have 4 GPUs there, and 8 here",
        ),
        (
            CLUSTER.replace("max_workers: 4", "max_workers: 2"),
            "types.t4-spot: {dir}/cluster.yaml: max is 4 here, and max_workers 2 there",
        ),
        ("- nothing", "{dir}/cluster.yaml: is not a mapping of fields, such as available_node_types"),
        ("available_node_types: 5", "types.t4-spot: {dir}/cluster.yaml: no node type there has the label "
         "coadapt.io/node-type: t4-spot; known: none"),
    ],
    ids=["unknown type", "other GPUs", "fewer nodes", "no mapping", "no types"],
)  # fmt: skip
def test_a_type_that_the_autoscaler_cannot_start_is_refused(tmp_path: Path, cluster: str, told: str) -> None:
    path = written(tmp_path, cluster=cluster)
    with pytest.raises(ScalingFileError) as error:
        load(path)
    assert str(error.value).removeprefix(f"{path}: ") == told.replace("{dir}", str(tmp_path))


def test_a_cluster_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "cluster.yaml").unlink()
    with pytest.raises(ScalingFileError, match=r"cluster.yaml: cannot be read: No such file"):
        load(path)
