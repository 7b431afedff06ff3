"""Promises of strict queues while nodes sleep: a job whose nodes wake is not overtaken."""

from __future__ import annotations

from coadapt.core.cluster import Cluster
from coadapt.policies.contract.round import Round
from coadapt.policies.fifo import FifoPolicy

from tests.support.sleeping import machines, rigid


def test_a_job_that_waits_for_nodes_that_sleep_holds_up_those_behind_it() -> None:
    jobs = [rigid("large", 16, submitted_s=1.0), rigid("small", 1, submitted_s=2.0)]
    asleep = Round(0.0, 60.0, Cluster(machines(1)), jobs, machines(1, first=1))
    assert not FifoPolicy().plan(asleep).placements
    gone = Round(0.0, 60.0, Cluster(machines(1)), jobs)
    assert list(FifoPolicy().plan(gone).placements) == ["small"]


def test_a_type_that_is_all_asleep_holds_its_place() -> None:
    jobs = [rigid("far", 8, gpu_types=["a100"], submitted_s=1.0), rigid("small", 1, submitted_s=2.0)]
    round = Round(0.0, 60.0, Cluster(machines(1)), jobs, machines(1, "a100"))
    assert not FifoPolicy().plan(round).placements
