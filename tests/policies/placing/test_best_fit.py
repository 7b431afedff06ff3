"""Where a fixed number of GPUs goes: jobs keep their places as long as these are there."""

import pytest
from coadapt.policies.placing.best_fit import place_on_types

from tests.support.rounds import cluster, job, on


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("1x t4:4", {"a": {"t4-000": 2}, "b": {"t4-000": 2}}),
        ("2x t4:2", {"a": {"t4-000": 2}, "b": {"t4-001": 2}}),
        ("1x t4:2", {"a": {"t4-000": 2}}),
    ],
)
def test_of_two_jobs_on_a_node_that_became_too_small_for_both_one_stays_and_the_other_finds_room(
    nodes: str, expected: dict[str, dict[str, int]]
) -> None:
    jobs = [(job(name, placement=on("t4", n0=2)), 2) for name in "ab"]
    found = place_on_types(cluster(nodes), {"t4": jobs})
    assert {name: placement.by_node for name, placement in found.items()} == expected
