"""A round that gives a job other GPUs says what has changed since the round before."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.contract.round import Plan, Round
from coadapt.scheduler.observers.causes import Causes
from coadapt.scheduler.observers.hooks import RoundDone

from tests.support.rounds import cluster, job


def placed(text: str) -> Placement | None:
    """Return "2 t4-000" as a placement."""
    if not text:
        return None
    gpus, node = text.split()
    return Placement(node.rpartition("-")[0], (NodeShare(node, int(gpus)),))


def done(
    nodes: str, had: Mapping[str, str], gets: Mapping[str, str], prices: Mapping[str, float] | None = None
) -> RoundDone:
    """Return a round: what jobs had, and what its plan gives them."""
    views = [job(name, placement=placed(text)) for name, text in had.items()]
    placements = {name: found for name, text in gets.items() if (found := placed(text)) is not None}
    return RoundDone(1, Round(0.0, 60.0, cluster(nodes), views), Plan(placements, prices=prices or {}), {}, 0.1)


NODES = "1x a100:4, 1x t4:4"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param(
            done(
                NODES,
                {"a": "2 t4-000", "sweep-3": "4 a100-000"},
                {"a": "2 t4-000", "sweep-3": "4 a100-000"},
                {"a100": 2.0},
            ),
            done(NODES, {"a": "2 t4-000"}, {"a": "4 a100-000"}, {"a100": 1.0}),
            ("sweep-3 ended", "the price of a100 fell"),
            id="a job ended and the price fell",
        ),
        pytest.param(
            done(NODES, {"a": "4 a100-000"}, {"a": "4 a100-000"}),
            done(NODES, {"a": "4 a100-000", "b": ""}, {"a": "2 a100-000", "b": "2 a100-000"}),
            ("b came",),
            id="a job came",
        ),
        pytest.param(
            done("1x a100:4", {"a": "4 a100-000"}, {"a": "4 a100-000"}),
            done("2x a100:4", {"a": "4 a100-000"}, {"a": "4 a100-001"}),
            ("all jobs together gain more so",),
            id="nothing of its own",
        ),
        pytest.param(
            done("1x t4:4", {"a": "4 t4-000"}, {"a": "4 t4-000"}),
            done("1x a100:4, 1x t4:4", {"a": "4 t4-000"}, {"a": "4 a100-000"}),
            ("1 node of a100 joined",),
            id="a node joined",
        ),
        pytest.param(
            done(NODES, {"a": "4 t4-000"}, {"a": "4 t4-000"}),
            done("1x a100:4", {"a": "4 t4-000"}, {"a": "4 a100-000"}),
            ("a node of it may be used no longer",),
            id="a node left",
        ),
        pytest.param(done(NODES, {"a": ""}, {}), done(NODES, {"a": ""}, {"a": "1 t4-000"}), (), id="it starts"),
        pytest.param(
            done(NODES, {"a": "1 t4-000"}, {"a": "1 t4-000"}),
            done(NODES, {"a": "1 t4-000"}, {"a": "1 t4-000"}),
            (),
            id="it stays",
        ),
    ],
)
def test_the_plainest_causes_are_told_first(before: RoundDone, after: RoundDone, told: tuple[str, ...]) -> None:
    assert Causes(before, after, lambda job_id: "ended").of("a") == told
