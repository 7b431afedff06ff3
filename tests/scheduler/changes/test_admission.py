"""A submitted job is measured where nothing is known of it, and queues where enough is."""

from __future__ import annotations

from dataclasses import replace

from coadapt.core.cluster import Cluster, Node
from coadapt.core.job import Phase, ResourceRequest
from coadapt.scheduler.changes.admission import admit
from coadapt.scheduler.changes.reactions import Reaction
from coadapt.scheduler.jobs.record import JobRecord

from tests.support.records import CLUSTER, SPEC, job, measured, said


def admitted(submitted: JobRecord, *known: str, cluster: Cluster = CLUSTER) -> Reaction:
    """Return what admission makes of a job, where other jobs have measured the GPU types `known`."""
    measurements = measured(*known) if known else None
    return admit(submitted, cluster, lambda found: replace(found, measurements=measurements), 5.0)


SUBMITTED = job(Phase.SUBMITTED)


def test_a_job_is_measured_on_the_gpu_types_that_no_job_has_measured() -> None:
    found = admitted(SUBMITTED, "t4")
    assert (found.job.phase, [run.gpu_type for run in found.job.profiles]) == (Phase.PROFILING, ["a100"])
    assert said(found) == ["to be measured on a100; known from an earlier job: t4"]
    assert found.round


def test_a_job_of_which_everything_is_known_queues_at_once() -> None:
    found = admitted(SUBMITTED, "t4", "a100")
    assert (found.job.phase, found.job.profiles, found.job.state.queued_s) == (Phase.QUEUED, (), 5.0)
    assert said(found) == ["queued; known from an earlier job: a100, t4"]
    assert found.job.measurements == measured("t4", "a100")


def test_a_job_that_asks_for_no_profile_runs_queues_without() -> None:
    found = admitted(job(Phase.SUBMITTED, spec=SPEC.model_copy(update={"profile": False})))
    assert (found.job.phase, found.job.profiles, said(found)) == (Phase.QUEUED, (), ["queued"])


def test_only_nodes_that_hold_a_whole_replica_count() -> None:
    wide = SPEC.model_copy(update={"resources": ResourceRequest(max_gpus=8, gpus_per_replica=8)})
    found = admitted(job(Phase.SUBMITTED, spec=wide))
    assert [run.gpu_type for run in found.job.profiles] == ["t4"], "a node has 4 a100"


def test_a_job_that_no_node_can_run_stays_submitted_and_says_why_without_a_line_in_the_log() -> None:
    found = admitted(SUBMITTED, cluster=Cluster(()))
    assert (found.job.phase, found.events, found.round) == (Phase.SUBMITTED, (), False)
    assert found.job.state.reason.startswith("waiting for")
    assert admitted(found.job, cluster=Cluster((Node("n1", "t4", 1),))).job.phase is Phase.PROFILING
