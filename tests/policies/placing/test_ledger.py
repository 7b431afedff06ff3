"""The ledger never gives away what is not there, and loses nothing."""

import math
from typing import cast

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.resources import TOLERANCE, Resources
from coadapt.policies.placing.demand import Demand
from coadapt.policies.placing.ledger import Ledger, OverCommitted, is_pinned
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import cluster, job, on

CLUSTER = Cluster((Node("n", "t4", 4, 8.0, 32.0), Node("m", "t4", 2), Node("k", "a100", 8, 16.0)))


def held(
    node: str, gpus: int, *devices: int, share: float = 1.0, cpus: float = 0.0, gib: float = 0.0
) -> Placement:
    gpu_type = CLUSTER.by_id[node].gpu_type
    return Placement(gpu_type, (NodeShare(node, gpus, cpus, gib, share, devices),))


def state(ledger: Ledger) -> tuple[dict[str, Resources], dict[str, Placement]]:
    return {node.id: ledger.free(node.id) for node in CLUSTER.nodes}, dict(ledger.held)


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        (held("n", 3), held("n", 2), "job b asks node n for 2 GPUs, of which 1 are free"),
        (held("n", 4), held("n", 1), "job b asks node n for 1 GPU, of which 0 are free"),
        (held("n", 1, 2), held("n", 1, 2), "job b asks node n for GPU 2, on which 1 of 1 jobs are already"),
        (held("n", 1, cpus=6), held("n", 1, cpus=3), "job b asks node n for 3 CPUs, of which 2 are free"),
        (held("n", 1, gib=30), held("n", 1, gib=3), "job b asks node n for 3 GiB of memory, of which 2 are free"),
        (held("n", 1), held("n", 1, gib=40), "job b asks node n for 40 GiB of memory, of which 32 are free"),
    ],
)
def test_what_is_not_free_is_refused_and_nothing_is_taken(
    first: Placement, second: Placement, sentence: str
) -> None:
    ledger = Ledger(CLUSTER)
    ledger.take("a", first)
    before = state(ledger)
    with pytest.raises(OverCommitted, match=sentence):
        ledger.take("b", second)
    assert state(ledger) == before


def test_a_third_tenant_is_refused_where_two_are_allowed_and_so_is_more_than_a_whole_gpu() -> None:
    ledger = Ledger(CLUSTER, tenants=2)
    ledger.take("a", held("n", 1, 0, share=0.4))
    with pytest.raises(OverCommitted, match=r"0\.7 of GPU 0, of which 0\.6 is free"):
        ledger.take("b", held("n", 1, 0, share=0.7))
    ledger.take("b", held("n", 1, 0, share=0.2))
    with pytest.raises(OverCommitted, match="GPU 0, on which 2 of 2 jobs are already"):
        ledger.take("c", held("n", 1, 0, share=0.2))


@pytest.mark.parametrize(
    "bad",
    [
        held("n", 1, cpus=math.nan),
        held("n", 1, gib=math.nan),
        held("m", 1, gib=math.inf),  # that node states no memory
        held("n", cast(int, 1.5)),
        held("n", 1, cast(int, 0.5)),
    ],
    ids=["nan CPUs", "nan GiB", "infinite GiB", "a GPU and a half", "a device between two"],
)
def test_what_is_no_amount_is_refused_and_spoils_no_later_answer(bad: Placement) -> None:
    ledger = Ledger(CLUSTER)
    before = state(ledger)
    with pytest.raises(ValueError, match=r"^job a: .* accepted$"):
        ledger.take("a", bad)
    assert state(ledger) == before
    with pytest.raises(OverCommitted, match="40 GiB of memory, of which 32 are free"):
        ledger.take("b", held("n", 1, gib=40))


def test_a_placement_on_two_nodes_is_taken_wholly_or_not_at_all() -> None:
    ledger = Ledger(CLUSTER)
    ledger.take("a", held("n", 1))
    before = state(ledger)
    with pytest.raises(OverCommitted):
        ledger.take("b", Placement("t4", (NodeShare("m", 2), NodeShare("n", 4))))
    assert state(ledger) == before


def test_a_node_without_stated_cpus_limits_nothing() -> None:
    Ledger(CLUSTER).take("a", held("m", 1, cpus=1000.0, gib=1000.0))


def test_jobs_on_nodes_that_are_gone_or_too_small_are_left_out() -> None:
    gone = Placement("t4", (NodeShare("gone", 1),))
    ledger = Ledger.of(CLUSTER, {"a": gone, "b": held("n", 3), "c": Placement("a100", (NodeShare("n", 1),))})
    assert set(ledger.held) == {"b"}
    assert Ledger.of(CLUSTER, {"a": held("n", 3), "b": held("n", 3)}).held == {"a": held("n", 3)}


def test_best_fit_looks_for_cpus_and_memory_where_they_are_asked_for() -> None:
    ledger = Ledger(CLUSTER)
    ledger.take("a", held("n", 1, cpus=6.0))
    assert ledger.find(1, ["t4"], demand=Demand(3.0)) == Placement("t4", (NodeShare("m", 1),))
    assert ledger.find(1, ["t4"], demand=Demand(2.0)) == Placement("t4", (NodeShare("m", 1),))
    assert ledger.find(3, ["t4"], demand=Demand(0.5)) == Placement("t4", (NodeShare("n", 3, 1.5),))
    assert ledger.find(3, ["t4"], demand=Demand(1.5)) is None


@pytest.mark.parametrize(
    ("preemptible", "nodes", "pinned"),
    [
        (False, "1x t4:4", True),
        (True, "1x t4:4", False),
        (False, "1x t4:1", False),
        (False, "1x a100:4", False),
    ],
)
def test_a_job_is_pinned_if_it_may_not_be_stopped_and_all_it_holds_is_there(
    preemptible: bool, nodes: str, pinned: bool
) -> None:
    assert is_pinned(job("j", preemptible=preemptible, placement=on("t4", n0=2)), cluster(nodes)) is pinned


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    node = draw(st.sampled_from(CLUSTER.nodes))
    devices = tuple(draw(st.lists(st.integers(0, node.gpus - 1), min_size=1, unique=True)))
    share = draw(st.sampled_from([0.25, 1 / 3, 0.5, 1.0]))
    amounts = draw(st.integers(0, 4)), draw(st.integers(0, 16))
    return Placement(node.gpu_type, (NodeShare(node.id, len(devices), *amounts, share, devices),))


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), placements()), max_size=25), st.integers(1, 3), st.booleans())
def test_no_history_over_commits_a_node_or_loses_anything(
    steps: list[tuple[str, Placement]], tenants: int, trial: bool
) -> None:
    ledger = Ledger(CLUSTER, tenants)
    whole = state(ledger)
    for job_id, placement in steps:
        if job_id in ledger.held:
            ledger.give_back(job_id)
        else:
            try:
                ledger.take(job_id, placement)
            except OverCommitted:
                assert any(ledger.held), "an empty cluster has room"
        if trial:
            before = state(ledger)
            with ledger.without("abc") as without:
                assert not without.held.keys() & set("abc")
                without.take("x", Placement("a100", ()))
            assert state(ledger) == before
        for node in CLUSTER.nodes:
            used = Resources()
            on_device = dict.fromkeys(range(node.gpus), 0)
            for each in ledger.held.values():
                for share in each.shares:
                    if share.node_id == node.id:
                        used += Resources.of_share(share)
                        for device in share.devices:
                            on_device[device] += 1
            assert used.fits(Resources.of_node(node))
            assert max(on_device.values()) <= tenants
            free = ledger.free(node.id)
            assert all(0 < left <= 1 + TOLERANCE for left in free.devices.values())
            assert min(free.cpus, free.memory_gib) >= 0
    for job_id in list(ledger.held):
        ledger.give_back(job_id)
    assert state(ledger) == whole
