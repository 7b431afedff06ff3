"""What a user relies on: simulated jobs that adapt follow their input, too, and other CPUs are no restart."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from coadapt.core.cluster import Cluster, Node
from coadapt.core.placement import NodeShare, Placement
from coadapt.core.training_config import Adaptivity
from coadapt.estimators.sensitivity.measured import MeasuredSensitivity, Reading
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive import AdaptiveWorld
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.jobs.inputs import Inputs
from coadapt.simulator.jobs.knowledge import LearningKnowledge
from coadapt.simulator.replay import baseline_of, kept, simulation, source_of
from coadapt.simulator.traces.cluster_file import WHOLE, SimulatedCluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import TraceJob, Workload

from tests.simulator.test_input_bound import server

NODES = Cluster((Node("a100-000", "a100", 8, 24.0, 500.0), Node("a100-001", "a100", 8, 24.0, 500.0)))
HUNGRY = MeasuredSensitivity((1.0, 24.0), (100.0, 2400.0))  # 100 samples/s each CPU; one GPU takes some thousands
SATED = MeasuredSensitivity((1.0,), (1e6,))


def trained(id: str, of: MeasuredSensitivity | None, submit_s: float = 0.0) -> TraceJob:
    return TraceJob(id, submit_s, application="cifar10", adaptivity=Adaptivity.ADAPTIVE, input=of)


def world(*jobs: TraceJob, cluster: Cluster | None = NODES) -> AdaptiveWorld:
    work, known = Workload.of(jobs), FittedApplications(("a100",))
    applications = [known[name] for name in work.applications]
    return AdaptiveWorld(work, applications, LearningKnowledge(work, applications), cluster=cluster)


def on(*shares: tuple[str, int, float]) -> Placement:
    return Placement("a100", tuple(NodeShare(node, gpus, cpus, 20.0 * gpus) for node, gpus, cpus in shares))


def per_s(made: AdaptiveWorld, job: int, placement: Placement) -> float:
    return made.moves(job, placement, 0.0).per_s


def simulated(work: Workload, policy: str, **options: object) -> tuple[Outcome, list[tuple[float, float]]]:
    """Return what came of a run on one node, and (time, CPUs) of the first job in each round."""
    nodes = SimulatedCluster({WHOLE: Cluster(NODES.nodes[:1])})
    made = simulation(work, nodes, policy, options, source_of(False, None, nodes), Conditions())
    cpus: list[tuple[float, float]] = []

    def watch(round: Round, plan: Plan) -> None:
        if (placement := plan.placements.get(work.ids[0])) is not None:
            cpus.append((round.now, sum(share.cpus for share in placement.shares)))

    for engine in made.engines:
        engine.watch = watch
    return made.run(), cpus


def test_the_slower_of_the_gpus_and_the_input_decides() -> None:
    made = world(trained("hungry", HUNGRY), trained("sated", SATED), trained("free", None))
    alone = per_s(made, 2, on(("a100-000", 1, 1.0)))
    assert per_s(made, 1, on(("a100-000", 1, 1.0))) == alone
    few = [per_s(made, 0, on(("a100-000", 1, float(cpus)))) for cpus in (1, 2, 4)]
    assert few == pytest.approx([few[0], 2 * few[0], 4 * few[0]])
    assert few[-1] < alone
    assert per_s(made, 0, on(("a100-000", 4, 24.0))) > 4 * few[2]  # 6 CPUs for each of four GPUs


def test_input_is_in_samples_per_second_of_all_gpus() -> None:
    made = world(trained("hungry", HUNGRY))
    placement = on(("a100-000", 2, 4.0))
    batch = made.knowledge.choose(0, "a100", (2,))
    gain = made.applications[0].statistics.gain(batch.total(2), 0)
    assert per_s(made, 0, placement) == pytest.approx(400 * gain / batch.total(2))


def test_the_node_with_the_least_for_each_gpu_sets_the_pace_and_nothing_given_is_the_share() -> None:
    made = Inputs(Workload.of([trained("hungry", HUNGRY)]), NODES)
    assert made.samples_per_s(0, on(("a100-000", 2, 8.0), ("a100-001", 2, 2.0))) == pytest.approx(400)
    bare = Placement("a100", (NodeShare("a100-000", 2),))
    assert made.samples_per_s(0, bare) == pytest.approx(600)
    read = MeasuredSensitivity((1.0,), (1e6,), Reading(1000.0, 1_000_000, 0.1, 10.0))
    slow = Inputs(Workload.of([trained("reads", read)]), NODES)
    # 20 GiB for the GPU leave 10 for the cache: 100 samples/s come from the storage, and 1 % is in the cache.
    assert slow.samples_per_s(0, on(("a100-000", 1, 1.0))) == pytest.approx(100 / 0.99)


@pytest.mark.parametrize("policy", ["sia", "coadapt"])
def test_a_job_that_waits_for_input_ends_sooner_where_others_leave_cpus(policy: str) -> None:
    jobs = [trained("hungry", HUNGRY), trained("s1", SATED), trained("s2", SATED)]
    work = Workload.of([replace(job, max_gpus=1) for job in jobs])
    shares, _ = simulated(work, policy, provisioning="proportional")
    found, cpus = simulated(work, policy, provisioning="priced")
    assert found.jct_s[0] < 0.5 * shares.jct_s[0]
    assert found.jct_s[1:] == pytest.approx(shares.jct_s[1:])
    assert max(amount for _, amount in cpus) > 3.0


def test_other_cpus_alone_are_no_restart() -> None:
    """Rigid jobs of 1 GPU come and go beside one that runs, so that only its CPUs change."""
    first = replace(trained("first", HUNGRY), adaptivity=Adaptivity.RIGID)
    late = [
        replace(trained(f"l{at}", HUNGRY, 600.0), adaptivity=Adaptivity.RIGID, batch_size=128) for at in range(7)
    ]
    found, cpus = simulated(Workload.of([first, *late]), "sia", provisioning="tune")
    assert {amount for now, amount in cpus if now < 600} == {24.0}
    assert {amount for now, amount in cpus if 700 < now < 1000} == {3.0}
    assert found.restarts.tolist() == [0] * 8


def test_policies_are_told_the_input_and_models_know_the_gpus_alone() -> None:
    made = world(trained("hungry", HUNGRY), trained("free", None))
    assert made.told.sensitivity(0) is HUNGRY
    assert made.told.sensitivity(1) is None
    slow = on(("a100-000", 1, 1.0))
    per_s(made, 0, slow)
    made.trained(0, slow)
    hungry, free = made.told.model(0), made.told.model(1)
    assert hungry is not None
    assert free is not None
    assert hungry.throughput["a100"].params == free.throughput["a100"].params


def test_a_trace_tells_the_input_and_the_run_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text(
        '{"id": "a", "submit_s": 0, "application": "cifar10", "adaptivity": "adaptive", '
        '"input": {"cpus": [1, 24], "prepared": [100, 2400]}}\n'
    )
    work = read_trace(path)
    assert work.inputs == (HUNGRY,)
    outcome, _ = simulated(work, "sia", provisioning="priced")
    bare, _ = simulated(replace(work, inputs=(None,)), "sia", provisioning="priced")
    assert outcome.jct_s[0] > bare.jct_s[0]
    nodes = SimulatedCluster({WHOLE: NODES})
    run = kept("sia", outcome, baseline_of(source_of(False, None, nodes)), {})
    assert np.isnan(run.rho).all()  # alone, too, it would wait for input


def test_worlds_with_inputs_can_be_pickled_between_two_steps() -> None:
    made = world(trained("hungry", HUNGRY))
    placement = on(("a100-000", 1, 2.0))
    rate = per_s(made, 0, placement)
    assert per_s(pickle.loads(pickle.dumps(made)), 0, placement) == rate


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="cpus: node v100-000 states none"):
        Inputs(Workload.of([trained("a", HUNGRY)]), server(cpus=0.0))
    needs = MeasuredSensitivity((1.0,), (100.0,), Reading(10.0, 10, 1.0, 80.0))
    with pytest.raises(ValueError, match=r"trace: job a: memory_gib: a share of 62.5 per GPU is less than the 80"):
        Inputs(Workload.of([trained("a", needs)]), server())
    with pytest.raises(ValueError, match="cluster: job a has an input, so its nodes must be known"):
        world(trained("a", HUNGRY), cluster=None)
    lasts = Workload.of([TraceJob("a", 0.0, duration_s=100.0, input=HUNGRY)])
    with pytest.raises(ValueError, match="trace: job a: input is only for jobs that train a model"):
        simulated(lasts, "fifo")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"cpus": [1], "prepared": [-1]}', r"prepared: \[-1.0\] is not accepted"),
        ('{"cpus": [1, 2], "prepared": [1]}', "prepared: 1 rates for 2 CPU counts"),
        ('{"cpus": [2, 1], "prepared": [1, 2]}', "cpus: .* is not accepted; counts above 0 that ascend are"),
        ('{"cpus": [1]}', "input.prepared"),
    ],
)
def test_an_input_that_cannot_be_is_refused(tmp_path: Path, given: str, told: str) -> None:
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"id": "a", "submit_s": 0, "application": "cifar10", "input": ' + given + "}\n")
    with pytest.raises(ValueError, match=told):
        read_trace(path)
