"""What is expected of the jobs of a round: by what they reported, and by earlier runs of their script."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource
from coadapt.core.job import ResourceRequest
from coadapt.core.reports import InputRow, JobInfo, MeasuredInput
from coadapt.estimators.log_normal import LogNormal
from coadapt.estimators.measurements import Measurements
from coadapt.estimators.run_lengths import Lengths, RunLengths
from coadapt.scheduler.jobs.record import JobRecord
from coadapt.scheduler.rounds.expectations import NO_LENGTHS, expectations, work_of

from tests.support.records import SPEC, job
from tests.support.rounds import model

CLUSTER = Cluster((Node("n1", "a", 4), Node("n2", "b", 4, pool="research")))
ASKS = Measurements().with_info(JobInfo("net", 32, 1000, 4096, adam_type=False, asked_samples=10_000.0))
HALF_DONE = {"progress_samples": 5_000.0, "fraction": 0.5}


def expected(found: JobRecord, lengths: RunLengths = NO_LENGTHS, trained_s: float = 0.0) -> Expected:
    """Return what is expected of a job that does 100 samples/s on one GPU of type a, and 400 on b."""
    models = {found.id: model({"a": 100.0, "b": 400.0})}
    return expectations([found], models, CLUSTER, lengths, lambda job_id: trained_s)[found.id]


def test_a_job_needs_what_it_has_left_at_the_speed_of_its_pool() -> None:
    of_all = job(measurements=ASKS, report=HALF_DONE)
    in_pool = replace(of_all, spec=SPEC.model_copy(update={"pool": "research"}))
    assert expected(of_all).mean_s == pytest.approx(50.0, rel=0.02)
    assert expected(in_pool).mean_s == pytest.approx(12.5, rel=0.02)


def test_the_speed_is_that_of_the_fewest_gpus_that_the_job_asks_for() -> None:
    wide = SPEC.model_copy(update={"resources": ResourceRequest(min_gpus=4, max_gpus=8)})
    assert expected(job(measurements=ASKS, report=HALF_DONE, spec=wide)).mean_s < 25.0


def test_of_a_job_without_model_report_or_earlier_runs_nothing_is_known() -> None:
    assert expectations([job()], {}, CLUSTER, NO_LENGTHS, lambda job_id: 0.0) == {"j-1": UNKNOWN}


def test_earlier_runs_of_the_script_say_how_long_a_new_job_takes() -> None:
    lengths = RunLengths({("", "script"): Lengths(LogNormal(600.0, 0.3))})
    new = job(script_key="script")
    assert expected(new, lengths).source is ExpectedSource.EARLIER_RUNS
    assert expected(new, lengths, trained_s=300.0).mean_s < expected(new, lengths).mean_s
    assert expected(job(), lengths) == UNKNOWN, "a job without a key has no earlier runs"


def test_a_job_with_a_target_may_end_sooner_than_its_work() -> None:
    target = SPEC.training.model_validate({"target": {"metric": "accuracy", "at_least": 0.9}})
    with_target = job(spec=SPEC.model_copy(update={"training": target}))
    assert [work_of(found, 0.0).may_end_sooner for found in (job(), with_target)] == [False, True]


def test_a_job_that_waits_for_its_input_takes_as_long_as_its_share_of_cpus_makes_it() -> None:
    rows = (InputRow(1, 10.0), InputRow(8, 80.0))
    nodes = (Node("n1", "a", 4, cpus=8.0, memory_gib=64.0), Node("n2", "b", 4))
    slow = job(measurements=replace(ASKS, input=MeasuredInput(rows, 8, done=True)), report=HALF_DONE)
    models = {slow.id: model({"a": 100.0})}

    def takes_s(cluster: Cluster) -> float:
        return expectations([slow], models, cluster, NO_LENGTHS, lambda job_id: 0.0)[slow.id].mean_s

    assert takes_s(Cluster(nodes)) == pytest.approx(250.0, rel=0.02), "2 CPUs for a GPU prepare 20 samples/s"
    assert takes_s(Cluster((Node("n1", "a", 4),))) == pytest.approx(62.5, rel=0.02), "a node that states no CPUs"
