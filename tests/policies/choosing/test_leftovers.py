"""What a plan leaves on the nodes goes to waiting jobs that fit there."""

from __future__ import annotations

import numpy as np
from coadapt.core.placement import NodeShare, Placement
from coadapt.optimizer.allocation.listing import Entries
from coadapt.policies.choosing.leftovers import leftovers
from coadapt.policies.contract.configuration import ConfigurationSet
from coadapt.policies.placing.demand import WISH, Demand

from tests.support.rounds import cluster, on

IDS = ["x", "y", "z"]


def entries(configurations: ConfigurationSet, *options: tuple[str, str, float]) -> Entries:
    """Return options of (job, configuration, gain)."""
    row, column, gain = zip(*options, strict=True)
    places = np.array([configurations.names.index(name) for name in column])
    return Entries(np.array([IDS.index(id) for id in row]), places, np.array(gain))


def given(
    where: str, *options: tuple[str, str, float], taken: dict[str, Placement], **asks: Demand
) -> dict[str, dict[str, int]]:
    """Return the GPUs that each job gets by node."""
    configurations = ConfigurationSet(cluster(where))
    found = leftovers(IDS, entries(configurations, *options), taken, configurations, lambda id: asks.get(id, WISH))
    return {id: dict(placement.by_node) for id, placement in found.items()}


def test_the_option_of_the_largest_gain_that_fits_is_taken_first() -> None:
    options = ("x", "1xa", 1.0), ("x", "4xa", 3.0), ("y", "1xa", 1.5), ("y", "2xa", 2.0)
    assert given("1x a:4", *options, taken={"z": on("a", n0=1)}) == {"y": {"a-000": 2}, "x": {"a-000": 1}}


def test_who_has_something_gets_no_more_and_what_gains_nothing_is_not_given() -> None:
    options = ("x", "1xa", 1.0), ("y", "1xa", 0.0), ("z", "1xa", 9.0)
    assert given("1x a:4", *options, taken={"z": on("a", n0=1)}) == {"x": {"a-000": 1}}


def test_jobs_of_equal_gain_come_in_their_order() -> None:
    options = ("y", "2xa", 1.0), ("x", "2xa", 1.0)
    assert given("1x a:4", *options, taken={"z": on("a", n0=2)}) == {"x": {"a-000": 2}}


def test_cpus_must_be_free_beside_the_gpus() -> None:
    options = ("x", "2xa", 2.0), ("x", "1xa", 1.0), ("y", "1xa", 0.5)
    holds = Placement("a", (NodeShare("a-000", 1, cpus=4.0),))  # of 8
    assert given("1x a:4", *options, taken={"z": holds}, x=Demand(3.0)) == {
        "x": {"a-000": 1},
        "y": {"a-000": 1},
    }


def test_nobody_gets_the_rest_of_a_node_that_another_takes_whole() -> None:
    where = cluster("2x a:4")
    configurations = ConfigurationSet(where, [("a", 6, 1)])
    assert configurations.of(on("a", n0=3, n1=3)) is not None
    options = entries(configurations, ("x", "1xa", 1.0))
    assert leftovers(IDS, options, {"z": on("a", n0=3, n1=3)}, configurations, lambda _: WISH) == {}
