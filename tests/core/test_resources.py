"""An amount of a node adds up, is taken away again, and says what is lacking."""

import math
from typing import cast

import pytest
from coadapt.core.cluster import Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.resources import Resources, check_share, idle_gpus
from hypothesis import given
from hypothesis import strategies as st

from tests.support.rounds import cluster, on

AMOUNTS = st.builds(
    Resources,
    st.dictionaries(st.integers(0, 7), st.sampled_from([0.25, 1 / 3, 0.5, 1.0])),
    st.integers(0, 64).map(float),
    st.integers(0, 256).map(float),
)


@given(AMOUNTS, AMOUNTS)
def test_what_is_added_and_taken_away_again_leaves_the_amount(a: Resources, b: Resources) -> None:
    left = a + b - b
    assert left.devices == pytest.approx(a.devices)
    assert (left.cpus, left.memory_gib) == (a.cpus, a.memory_gib)


@given(AMOUNTS, AMOUNTS)
def test_what_two_amounts_have_beyond_each_other_makes_them_equal(a: Resources, b: Resources) -> None:
    one, other = a + b.beyond(a), b + a.beyond(b)
    assert one.devices == pytest.approx(other.devices)
    assert (one.cpus, one.memory_gib) == (other.cpus, other.memory_gib)
    assert a.beyond(a + b) == Resources()


@given(AMOUNTS, AMOUNTS)
def test_an_amount_fits_into_itself_with_anything_and_a_sum_does_not_fit_into_a_part(
    a: Resources, b: Resources
) -> None:
    assert a.fits(a + b)
    assert (a + b).fits(a) == (b == Resources())


@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_what_does_not_fit_lacks_something_that_is_said(a: Resources, room: Resources, taken: Resources) -> None:
    left = room - taken  # some of it may be owed
    assert a.fits(left) == (a.lack(left) is None)


def test_three_thirds_of_a_gpu_are_one() -> None:
    third = Resources({0: 1 / 3})
    assert (third + third + third).fits(Resources({0: 1.0}))
    assert (Resources({0: 1.0}) - third.scaled(3.0)).devices == {}


def test_a_gpu_that_two_jobs_share_is_not_idle_once() -> None:
    halves = [Placement("t4", (NodeShare("t4-000", 2, share=0.5, devices=(0, at)),)) for at in (1, 2)]
    where = cluster("2x t4:4, 1x a100:2")
    assert idle_gpus(where, [*halves, on("t4", n1=4)]) == {"a100": 2, "t4": 1}
    assert idle_gpus(where, [on("h100", n0=1)]) == {"a100": 2, "t4": 8}


def test_a_node_that_states_no_cpus_or_memory_limits_nothing() -> None:
    asked = Resources({1: 1.0}, cpus=1000.0, memory_gib=1000.0)
    assert asked.fits(Resources.of_node(Node("n", "t4", 2)))
    assert asked.lack(Resources.of_node(Node("n", "t4", 2, cpus=8.0))) == "1000 CPUs, of which 8 are free"


@pytest.mark.parametrize(
    ("share", "sentence"),
    [
        (NodeShare("n", 1, devices=(4,)), "devices: 4 on node n; 0 to 3 are accepted"),
        (NodeShare("n", 2, devices=(1, 1)), "devices: 1 twice on node n; each GPU is accepted once"),
        (NodeShare("n", 2, devices=(1,)), "devices: 1 named on node n; as many as its 2 GPUs are accepted"),
        (NodeShare("n", 1, share=0.0, devices=(0,)), "share: 0 of each GPU on node n; more than 0 and at most 1"),
        (
            NodeShare("n", 1, share=1.5, devices=(0,)),
            "share: 1.5 of each GPU on node n; more than 0 and at most 1",
        ),
        (NodeShare("n", 1, share=0.5), "devices: none named on node n; a share of 0.5 needs the GPUs it is of"),
        (NodeShare("n", 5), "gpus: 5 on node n, which has 4; 1 to 4 are accepted"),
        (NodeShare("n", 1, cpus=-1.0), "cpus: -1 on node n; a number of 0 or more is accepted"),
        (NodeShare("n", 1, memory_gib=math.nan), "memory_gib: nan on node n; a number of 0 or more is accepted"),
        (NodeShare("n", cast(int, 1.5)), "gpus: 1.5 on node n, which has 4; 1 to 4 are accepted"),
        (NodeShare("n", 1, devices=(cast(int, 0.5),)), "devices: 0.5 on node n; 0 to 3 are accepted"),
        (NodeShare("m", 1), "node_id: m is no node with t4 GPUs"),
    ],
)
def test_a_share_that_a_node_cannot_give_is_refused_in_one_sentence(share: NodeShare, sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + sentence):
        check_share(share, Node("n", "t4", 4) if share.node_id == "n" else None, "t4")
