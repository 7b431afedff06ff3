"""A job moves when its GPUs change, and not when only CPUs, memory or a partner do."""

from __future__ import annotations

import pytest
from coadapt.core.placement import NodeShare, Placement, same_place


def on(*shares: NodeShare, gpu_type: str = "a100") -> Placement:
    return Placement(gpu_type, shares)


HELD = on(NodeShare("n0", 2, 6.0, 125.0, devices=(0, 1)))
SAME = [
    pytest.param(on(NodeShare("n0", 2, 9.0, 62.5, devices=(0, 1))), id="other CPUs and memory"),
    pytest.param(on(NodeShare("n0", 2, 9.0, 62.5)), id="no GPUs named"),
    pytest.param(HELD.with_share(0.5), id="a partner"),
]
OTHER = [
    pytest.param(on(NodeShare("n1", 2)), id="another node"),
    pytest.param(on(NodeShare("n0", 1)), id="fewer GPUs"),
    pytest.param(on(NodeShare("n0", 2), gpu_type="t4"), id="another type"),
    pytest.param(on(NodeShare("n0", 2, 6.0, 125.0, devices=(2, 3))), id="other GPUs of the node"),
    pytest.param(None, id="none"),
]


@pytest.mark.parametrize("after", SAME)
def test_the_same_gpus_are_the_same_place(after: Placement) -> None:
    assert same_place(HELD, after)
    assert same_place(after, HELD)


@pytest.mark.parametrize("after", OTHER)
def test_other_gpus_are_another_place(after: Placement | None) -> None:
    assert not same_place(HELD, after)
    assert not same_place(after, HELD)
