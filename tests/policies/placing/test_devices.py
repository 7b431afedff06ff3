"""Each job's GPUs have names: who stays keeps them, nobody shares one unasked, equal calls give equal names."""

from collections.abc import Mapping, Sequence

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.placing.devices import name_devices
from hypothesis import given, settings
from hypothesis import strategies as st

CLUSTER = Cluster((Node("n", "t4", 4, 8.0, 32.0), Node("m", "t4", 2), Node("k", "a100", 8, 16.0)))


def on(gpu_type: str = "t4", **gpus: int) -> Placement:
    return Placement(gpu_type, tuple(NodeShare(node, count, float(count)) for node, count in gpus.items()))


def on_devices(node: str, *devices: int, share: float = 1.0) -> Placement:
    return Placement(CLUSTER.by_id[node].gpu_type, (NodeShare(node, len(devices), 0.0, 0.0, share, devices),))


def names(
    placements: Mapping[str, Placement],
    held: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    tenants: int = 1,
) -> dict[str, dict[str, tuple[int, ...]]]:
    found = name_devices(placements, held or {}, CLUSTER, tenants)
    assert not found.refused
    return {
        job: {share.node_id: share.devices for share in placement.shares}
        for job, placement in found.placements.items()
    }


def test_the_lowest_free_gpus_are_named_in_order_of_jobs() -> None:
    assert names({"b": on(n=2), "a": on(n=1, m=2)}) == {"a": {"n": (0,), "m": (0, 1)}, "b": {"n": (1, 2)}}


def test_a_job_that_stays_on_a_node_keeps_its_gpus_there_whatever_comes_before_it() -> None:
    held = {"z": {"n": (2, 0)}, "y": {"n": (1,)}}
    assert names({"a": on(n=1), "z": on(n=2), "y": on(n=1)}, held) == {
        "a": {"n": (3,)},
        "z": {"n": (0, 2)},
        "y": {"n": (1,)},
    }


def test_a_job_that_shrinks_keeps_those_that_it_keeps_longest_and_one_that_grows_adds_to_them() -> None:
    assert names({"a": on(n=1)}, {"a": {"n": (2, 0)}}) == {"a": {"n": (2,)}}
    assert names({"a": on(n=3)}, {"a": {"n": (2,)}}) == {"a": {"n": (0, 1, 2)}}


def test_gpus_that_nobody_is_on_come_before_those_that_others_are_to_leave() -> None:
    held = {"old": {"n": (0, 1)}, "measured/profile/t4": {"n": (2,)}}
    assert names({"a": on(n=1)}, held) == {"a": {"n": (3,)}}
    assert names({"a": on(n=2)}, held) == {"a": {"n": (0, 3)}}


def test_names_that_a_placement_has_stay_and_are_given_to_nobody_else() -> None:
    named = on_devices("n", 0, 2)
    found = name_devices({"a": on(n=2), "z": named}, {"a": {"n": (0, 2)}}, CLUSTER)
    assert found.placements["z"] is named
    assert found.placements["a"].shares[0].devices == (1, 3)


def test_two_jobs_may_have_parts_of_one_gpu_and_a_third_job_gets_a_whole_one() -> None:
    half = on_devices("n", 0, share=0.5)
    assert names({"a": half, "b": half, "c": on(n=3)}, tenants=2)["c"] == {"n": (1, 2, 3)}


def test_cpus_and_memory_of_a_placement_stay_as_they_are() -> None:
    (share,) = name_devices({"a": on(n=2)}, {}, CLUSTER).placements["a"].shares
    assert share == NodeShare("n", 2, 2.0, devices=(0, 1))


@pytest.mark.parametrize(
    ("placements", "tenants", "sentence"),
    [
        ({"a": on(n=3), "b": on(n=3)}, 1, "job b asks node n for 3 GPUs, of which 1 are free"),
        ({"a": on(n=4), "b": on(n=1)}, 1, "job b asks node n for 1 GPU, of which 0 are free"),
        ({"a": on_devices("n", 1, 4)}, 1, "job a: devices: 4 on node n; 0 to 3 are accepted"),
        ({"a": on_devices("n", 1, 1)}, 1, "job a: devices: 1 twice on node n; each GPU is accepted once"),
        (
            {"a": on_devices("n", 0, share=1.5)},
            2,
            "job a: share: 1.5 of each GPU on node n; more than 0 and at most 1 is accepted",
        ),
        (
            {job: on_devices("n", 0, share=0.3) for job in "cba"},
            2,
            "job a asks node n for GPU 0, on which 2 of 2 jobs are already",
        ),
        ({"a": on("a100", n=1)}, 1, "job a: node_id: n is no node with a100 GPUs"),
        ({"a": on(gone=1)}, 1, "job a: node_id: gone is no node with t4 GPUs"),
        ({"a": on(n=5)}, 1, "job a: gpus: 5 on node n, which has 4; 1 to 4 are accepted"),
    ],
)
def test_what_a_node_cannot_give_is_refused_in_one_sentence(
    placements: Mapping[str, Placement], tenants: int, sentence: str
) -> None:
    assert list(name_devices(placements, {}, CLUSTER, tenants).refused.values()) == [sentence]


def test_a_job_that_is_refused_takes_nothing_from_others() -> None:
    found = name_devices({"a": on(n=3), "b": on(m=1, n=2), "c": on(m=2)}, {"b": {"n": (0,)}}, CLUSTER)
    assert set(found.placements) == {"a", "c"}
    assert found.refused == {"b": "job b asks node n for 2 GPUs, of which 1 are free"}


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Placement]:
    """Draw a plan in numbers of GPUs, within what the t4 nodes have."""
    left, plan = {"n": 4, "m": 2}, dict[str, Placement]()
    for job in draw(st.permutations("abcde")):
        counts = {node: draw(st.integers(0, gpus)) for node, gpus in left.items()}
        counts = {node: gpus for node, gpus in counts.items() if gpus}
        for node, gpus in counts.items():
            left[node] -= gpus
        if counts:
            plan[job] = on(**counts)
    return plan


@settings(max_examples=500)
@given(st.lists(plans(), min_size=2, max_size=6))
def test_over_any_plans_no_gpu_has_two_jobs_and_no_job_changes_a_gpu_without_need(
    history: list[dict[str, Placement]],
) -> None:
    held: dict[str, dict[str, tuple[int, ...]]] = {}
    for plan in history:
        found = names(plan, held)
        assert found == names(dict(reversed(plan.items())), held)
        used = [(node, device) for mine in found.values() for node, devices in mine.items() for device in devices]
        assert len(set(used)) == len(used)
        for job, mine in found.items():
            for node, devices in mine.items():
                before = held.get(job, {}).get(node, ())
                kept = set(before) & set(devices)
                assert len(kept) == min(len(before), len(devices))
        held = found
