"""A round tells policies what services foretell to arrive; without a service it tells nothing."""

from __future__ import annotations

from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.contract.arrivals import Arrivals
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.services import SimulatedServices
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload

DAYS, DAY_S = 5, 86_400.0


class Listens:
    """Places each job, and keeps what it is told."""

    def __init__(self) -> None:
        self.told: dict[float, Arrivals | None] = {}

    def plan(self, round: Round) -> Plan:
        self.told[round.now] = round.arriving
        node = round.cluster.nodes[0]
        return Plan({job.id: Placement(node.gpu_type, (NodeShare(node.id, 1),)) for job in round.jobs})


def told(services: SimulatedServices | None) -> dict[float, Arrivals | None]:
    """Return what a policy is told while jobs come every 100 s by day, and every half hour by night."""
    times = [s for s in range(0, int(DAYS * DAY_S), 100) if 8 <= s % DAY_S / 3600 < 20 or s % 1800 == 0]
    jobs = [TraceJob(f"j{n}", float(s), 1, duration_s=10.0) for n, s in enumerate(times)]
    policy = Listens()
    engine = Engine(FixedLengthWorld(Workload.of(jobs)), cluster_of("1x a:8"), policy, Timing(60.0, events=True))
    engine.services = services
    engine.run()
    return policy.told


def test_rounds_tell_what_is_to_come_once_enough_is_known() -> None:
    found = told(SimulatedServices({"arrivals": {"trees": 30}}, 0.0))
    assert all(one is None for at, one in found.items() if at < 3 * DAY_S)
    last = {at: one for at, one in found.items() if at > 4 * DAY_S}
    by_day = [one.jobs for at, one in last.items() if one is not None and 10 <= at % DAY_S / 3600 < 18]
    assert by_day
    assert all(4 < jobs < 8 for jobs in by_day)


def test_without_a_service_nothing_is_told() -> None:
    assert set(told(None).values()) == {None}
