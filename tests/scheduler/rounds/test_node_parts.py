"""Jobs get their GPUs' part of CPUs and memory where their files leave that out."""

from __future__ import annotations

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import JobSpec, ResourceRequest
from coadapt.core.placement import NodeShare, Placement
from coadapt.scheduler.rounds.node_parts import alike, with_least, with_parts
from hypothesis import given
from hypothesis import strategies as st

NODE = Node("n", "a", 8, cpus=24.0, memory_gib=512.0)
WHERE = Cluster((NODE, Node("m", "a", 8)))
CHOSEN = JobSpec(name="j", script="t.py")


def asking(cpus: float | None, memory_gib: float | None = None) -> JobSpec:
    return CHOSEN.model_copy(
        update={"resources": ResourceRequest(cpus_per_gpu=cpus, memory_gib_per_gpu=memory_gib)}
    )


def on(gpus: int, cpus: float = 0.0, memory_gib: float = 0.0, node: str = "n", share: float = 1.0) -> Placement:
    return Placement("a", (NodeShare(node, gpus, cpus, memory_gib, share),))


def amounts(placement: Placement) -> tuple[float, float]:
    return placement.shares[0].cpus, placement.shares[0].memory_gib


def test_a_job_that_gives_no_number_has_its_gpus_part_of_the_node() -> None:
    found = with_parts({"j": on(2, 2.0)}, {"j": CHOSEN}, WHERE)
    assert amounts(found["j"]) == (6.0, 128.0)


def test_a_number_of_the_user_is_kept_and_the_other_amount_is_chosen() -> None:
    found = with_parts({"j": on(2, 2.0)}, {"j": asking(1.0)}, WHERE)
    assert amounts(found["j"]) == (2.0, 128.0)


def test_a_job_beside_one_that_asks_for_more_than_its_part_has_what_is_left() -> None:
    placements = {"heavy": on(2, 16.0, 128.0), "light": on(6, 6.0)}
    found = with_parts(placements, {"heavy": asking(8.0, 64.0), "light": CHOSEN}, WHERE)
    assert found["heavy"] is placements["heavy"]
    assert amounts(found["light"]) == (8.0, 384.0)


def test_two_jobs_on_the_same_gpus_have_half_of_the_part_each() -> None:
    found = with_parts({"a": on(4, share=0.5), "b": on(4, share=0.5)}, {"a": CHOSEN, "b": CHOSEN}, WHERE)
    assert amounts(found["a"]) == amounts(found["b"]) == (6.0, 128.0)


def test_a_node_that_states_no_cpus_and_no_memory_gives_none() -> None:
    placement = on(4, node="m")
    assert with_parts({"j": placement}, {"j": CHOSEN}, WHERE)["j"] is placement


def test_a_job_that_has_its_part_keeps_its_placement() -> None:
    placement = on(2, 6.0, 128.0)
    assert with_parts({"j": placement}, {"j": CHOSEN}, WHERE)["j"] is placement


def test_a_policy_sees_the_least_that_a_job_starts_with_as_the_same_object_each_time() -> None:
    placement = on(2, 6.0, 128.0)
    least = with_least(placement, CHOSEN, WHERE)
    assert amounts(least) == (2.0, 0.0)
    assert with_least(placement, CHOSEN, WHERE) is least
    assert with_least(placement, asking(3.0, 64.0), WHERE) is placement


def test_placements_are_alike_that_rounding_tells_apart() -> None:
    assert alike(on(2, 6.0), on(2, 6.0 + 1e-12))
    assert not alike(on(2, 6.0), on(2, 7.0))
    assert not alike(on(2, 6.0), None)


@given(st.lists(st.tuples(st.integers(1, 4), st.none() | st.floats(0.0, 6.0)), max_size=8))
def test_no_node_is_ever_given_out_twice(jobs: list[tuple[int, float | None]]) -> None:
    placements, specs, gpus, cpus = {}, {}, 0, 0.0
    for number, (size, asked) in enumerate(jobs):
        has = size * (1.0 if asked is None else asked)
        if gpus + size <= NODE.gpus and cpus + has <= NODE.cpus:
            gpus, cpus = gpus + size, cpus + has
            placements[str(number)], specs[str(number)] = on(size, has), asking(asked)
    found = with_parts(placements, specs, WHERE)
    assert sum(amounts(one)[0] for one in found.values()) <= NODE.cpus + 1e-6
    assert sum(amounts(one)[1] for one in found.values()) <= NODE.memory_gib + 1e-6
    for job, before in placements.items():
        part = NODE.cpus / NODE.gpus * before.gpus
        cpus = amounts(found[job])[0]
        if specs[job].resources.cpus_per_gpu is None:
            assert amounts(before)[0] - 1e-6 <= cpus <= part + 1e-6
        else:
            assert cpus == pytest.approx(amounts(before)[0])
