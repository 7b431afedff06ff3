"""A plan may ask for the next round at a time of its own."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload


class Waits:
    """Places nothing until 25 s have passed, and asks to be called again then."""

    def __init__(self, again_s: float | None) -> None:
        self.again_s, self.rounds_s = again_s, list[float]()

    def plan(self, round: Round) -> Plan:
        self.rounds_s.append(round.now)
        if round.now < 25:
            return Plan({}, again_s=self.again_s)
        node = round.cluster.nodes[0]
        return Plan({job.id: Placement(node.gpu_type, (NodeShare(node.id, 1),)) for job in round.jobs})


def run(timing: Timing, policy: Waits) -> float:
    world = FixedLengthWorld(Workload.of([TraceJob("x", 0.0, 1, duration_s=10.0)]))
    return float(Engine(world, cluster_of("1x a:1"), policy, timing).run().finished_s[0])


@pytest.mark.parametrize("timing", [Timing(60.0), Timing(60.0, early_s=0.5), Timing(60.0, events=True)], ids=str)
def test_a_policy_is_called_at_the_time_that_it_asked_for(timing: Timing) -> None:
    policy = Waits(25.0)
    assert run(timing, policy) == 35.0
    assert np.isclose(policy.rounds_s, 25.0).any()
