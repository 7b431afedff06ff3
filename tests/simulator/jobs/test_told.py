"""What policies are told of simulated jobs stands apart from what is true, and says where it comes from."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from coadapt.core.expected import ExpectedSource
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.adaptive_tables import AdaptiveTableWorld
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.goodput_tables import GoodputTable, GoodputTableWorld
from coadapt.simulator.jobs.knowledge import Knows, LearningKnowledge
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.jobs.measured_rates import MeasuredRatesWorld
from coadapt.simulator.jobs.world import World
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload


def lengths(of: Lengths) -> World:
    return FixedLengthWorld(Workload.of([TraceJob("a", 0.0, 1, 100.0), TraceJob("b", 0.0, 2, 50.0)]), lengths=of)


def rates() -> World:
    jobs = [TraceJob(id, 0.0, 1, None, "lm", steps=n) for id, n in (("a", 100), ("b", 300))]
    return MeasuredRatesWorld(Workload.of(jobs), {("lm", 1): {"a100": 2.0, "t4": 1.0}})


def tables(adaptive: bool) -> World:
    table = GoodputTable("lm", np.array([100.0]), {("t4", 1): np.array([2.0])}, 5.0)
    workload = Workload.of([TraceJob(id, 0.0, 1, None, "lm") for id in ("a", "b")])
    if adaptive:
        return AdaptiveTableWorld(workload, [table, table], ["t4"])
    return GoodputTableWorld(workload.tuned(), [table, table])


def models(knows: Knows) -> World:
    one = FittedApplications(["a100", "t4"])["cifar10"]
    workload = Workload.of([TraceJob(id, 0.0, n, None, "cifar10", 512) for id, n in (("a", 1), ("b", 4))])
    known = LearningKnowledge(workload, [one, one], knows)
    return AdaptiveWorld(workload, [one, one], known, cluster=cluster_of("1x a100:8, 1x t4:4"))


# Kind of job -> where its length comes from, before it has run.
KINDS: dict[str, tuple[Callable[[], World], ExpectedSource]] = {
    "a length that the trace tells": (lambda: lengths(Lengths.TOLD), ExpectedSource.TRACE),
    "a length that nobody is told": (lambda: lengths(Lengths.UNKNOWN), ExpectedSource.UNKNOWN),
    "a length that is to be learned": (lambda: lengths(Lengths.LEARNED), ExpectedSource.UNKNOWN),
    "steps at measured rates": (rates, ExpectedSource.TRACE),
    "a goodput table, of a fixed size": (lambda: tables(False), ExpectedSource.UNKNOWN),
    "a goodput table, of a size that is chosen": (lambda: tables(True), ExpectedSource.UNKNOWN),
    "a model that is measured": (lambda: models(Knows.BOOTSTRAP), ExpectedSource.MEASURED_SPEED),
    "a model of which nothing is known": (lambda: models(Knows.NO_PROFILE), ExpectedSource.UNKNOWN),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_job_says_where_its_length_comes_from(kind: str) -> None:
    make, source = KINDS[kind]
    world = make()
    told = world.told
    jobs, half = np.arange(2), world.ends(np.arange(2)) / 2
    for progress in (np.zeros(2), half):
        means = told.remaining_s(jobs, progress)
        for job in jobs.tolist():
            expected = told.expected(job, float(progress[job]))
            assert expected.source is source
            assert (expected.mean_s if expected.known else np.nan) == pytest.approx(means[job], nan_ok=True)


def test_a_policy_that_is_told_nothing_changes_nothing_of_what_is_true() -> None:
    seen: list[ExpectedSource] = []

    class Watching:
        def __init__(self) -> None:
            self.fifo = make_policy("fifo")

        def plan(self, round: Round) -> Plan:
            seen.extend(view.expected.source for view in round.jobs)
            return self.fifo.plan(round)

    ends = [
        Engine(lengths(of), cluster_of("1x any:4"), Watching(), Timing(10.0)).run().finished_s.tolist()
        for of in (Lengths.TOLD, Lengths.LEARNED, Lengths.UNKNOWN)
    ]
    assert ends == [[100.0, 50.0]] * 3
    assert set(seen) == {ExpectedSource.TRACE, ExpectedSource.UNKNOWN}
