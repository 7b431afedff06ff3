"""Which of Ray's nodes a job may use, and as what."""

from typing import Any

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec, ResourceRequest
from coadapt.scheduler.jobs.fitting_types import allowed_types, waiting_reason
from coadapt.scheduler.nodes.node_view import GIB, homes_of, node_of


def row(labels: dict[str, str], alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"NodeID": "abc", "Alive": alive, "Labels": labels, "Resources": resources}


def test_our_label_names_the_gpu_type() -> None:
    found = node_of(
        row({"coadapt.io/gpu-type": "a100", "ray.io/accelerator-type": "X"}, GPU=4, CPU=8, memory=2 * GIB)
    )
    assert found == Node("abc", "a100", 4, 8.0, 2.0, emulated=False)


def test_rays_own_label_will_do() -> None:
    found = node_of(row({"ray.io/accelerator-type": "A100"}, GPU=1))
    assert found is not None
    assert found.gpu_type == "a100"


def test_an_emulated_node_is_labelled_as_such() -> None:
    found = node_of(row({"coadapt.io/gpu-type": "t4", "coadapt.io/emulated": "true"}, GPU=1))
    assert found is not None
    assert found.emulated


@pytest.mark.parametrize(
    "node",
    [
        row({"coadapt.io/gpu-type": "t4"}, CPU=4),
        row({}, GPU=4),
        row({"coadapt.io/gpu-type": "t4"}, alive=False, GPU=4),
    ],
    ids=["no GPUs", "no GPU type", "dead"],
)
def test_other_nodes_are_left_alone(node: dict[str, Any]) -> None:
    assert node_of(node) is None


CLUSTER = Cluster((Node("1", "a100", 4), Node("2", "t4", 2)))


def spec(**resources: Any) -> JobSpec:
    return JobSpec(name="j", script="t.py", resources=ResourceRequest(**resources))


def test_a_job_for_absent_gpus_waits_and_says_for_what() -> None:
    job = spec(gpu_types=["h100", "rtx"])
    assert allowed_types(job, CLUSTER) == ()
    assert waiting_reason(job, CLUSTER) == "waiting for GPU type h100 or rtx; the cluster has a100, t4"
    assert waiting_reason(job, Cluster(())) == "waiting for GPU type h100 or rtx; the cluster has no GPUs"


def test_a_type_whose_nodes_hold_no_replica_is_not_used() -> None:
    assert allowed_types(spec(gpus_per_replica=4), CLUSTER) == ("a100",)
    assert "enough GPUs for one replica" in waiting_reason(spec(gpus_per_replica=8), CLUSTER)


def test_what_a_pool_lacks_is_said_of_the_pool_and_not_of_the_cluster() -> None:
    nodes = Cluster((Node("n", "a100", 8), Node("m", "t4", 4, pool="lab")))
    for pool, wanted, said in (
        ("lab", "a100", "waiting for GPU type a100; pool lab has t4"),
        (None, "t4", "waiting for GPU type t4; what belongs to no pool has a100"),
    ):
        spec = JobSpec(name="j", script="t.py", pool=pool, resources=ResourceRequest(gpu_types=[wanted]))
        assert waiting_reason(spec, nodes) == said


def test_the_machine_name_is_the_label_or_else_the_host_name() -> None:
    labelled = row({"coadapt.io/gpu-type": "t4", "coadapt.io/machine": "rack-7"}, GPU=1)
    for named, expected in (
        (labelled, "rack-7"),
        (labelled | {"NodeManagerHostname": "host"}, "rack-7"),
        (row({"coadapt.io/gpu-type": "t4"}, GPU=1) | {"NodeManagerHostname": "host"}, "host"),
        (row({"coadapt.io/gpu-type": "t4"}, GPU=1), "abc"),
    ):
        found = node_of(named)
        assert found is not None
        assert found.machine_name == expected


def test_nodes_on_the_machines_of_the_head_and_of_the_service_are_known_and_emulated_ones_are_machines() -> None:
    def there(id: str, address: str, **more: Any) -> dict[str, Any]:
        labels = {"coadapt.io/emulated": "true"} if more.pop("emulated", False) else {}
        return {"NodeID": id, "NodeManagerAddress": address, "Labels": labels, "Resources": more}

    rows = [
        there("head", "1.1.1.1", **{"node:__internal_head__": 1.0}),
        there("beside", "1.1.1.1", GPU=1),
        there("pretended", "1.1.1.1", GPU=1, emulated=True),
        there("service", "2.2.2.2", GPU=1),
        there("other", "3.3.3.3", GPU=1),
    ]
    assert homes_of(rows, "service") == {"head", "beside", "service"}
