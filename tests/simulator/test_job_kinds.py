"""A simulated job keeps to what its trace says may change: all, its GPUs, nothing, or nothing once it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coadapt.cli.main import run
from coadapt.core.placement import NodeShare, Placement
from coadapt.policies.catalogue import make_policy
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive import AdaptiveWorld, Batch, Observation
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.jobs.knowledge import Knows, LearningKnowledge
from coadapt.simulator.jobs.shapes import shape_of
from coadapt.simulator.jobs.step_times import Shape
from coadapt.simulator.replay import simulation
from coadapt.simulator.results.isolated_baseline import IsolatedBaseline, finish_time_fairness, work_gpu_s
from coadapt.simulator.results.saved import SavedRun, load, save
from coadapt.simulator.traces.cluster_file import cluster_of, read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.recorded import RecordedModel, RecordedThroughput
from coadapt.simulator.traces.workload import TraceJob, Workload

CLUSTER = "3x t4:4, 2x rtx:8, 2x a100:8"
TYPES = ("a100", "rtx", "t4")
STAGES = {"a100": 2, "rtx": 8}
KINDS: Sequence[Mapping[str, Any]] = (
    {"id": "adaptive", "application": "cifar10", "adaptivity": "adaptive"},
    {"id": "strong", "application": "bert", "adaptivity": "strong-scaling", "batch_size": 48},
    {"id": "rigid", "application": "cifar10", "adaptivity": "rigid", "gpus": 4, "batch_size": 512},
    {"id": "stays", "application": "bert", "adaptivity": "adaptive", "preemptible": False},
    {"id": "pipeline", "application": "gpt_pmp", "adaptivity": "adaptive"},
    *({"id": f"other{i}", "application": "cifar10", "adaptivity": "adaptive"} for i in range(6)),
)


class Watched(LearningKnowledge):
    """Keeps the batch sizes that each job trained with."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: dict[int, set[tuple[int, Batch]]] = {}

    def choose(self, job: int, gpu_type: str, shape: Shape) -> Batch:
        found = super().choose(job, gpu_type, shape)
        self.seen.setdefault(job, set()).add((sum(shape), found))
        return found


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Watched]:
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    path.write_text("".join(json.dumps({"submit_s": 240.0 * i, **kind}) + "\n" for i, kind in enumerate(KINDS)))
    workload, known = read_trace(path), FittedApplications(TYPES)
    with pytest.warns(UserWarning, match="gpt_pmp was not measured on t4, no such job will run there"):
        jobs = [known[name] for name in workload.applications]
    knowledge = Watched(workload, jobs)
    world = AdaptiveWorld(workload, jobs, knowledge)
    return Engine(world, cluster_of(CLUSTER), make_policy("sia"), Timing(60.0)).run(), knowledge


def held(outcome: Outcome, id: str) -> list[tuple[str, int]]:
    job = outcome.workload.ids.index(id)
    return [(h.gpu_type, h.gpus) for h in outcome.holdings if h.job == job]


def batch_sizes(ran: tuple[Outcome, Watched], id: str) -> set[int]:
    return {batch.total(replicas) for replicas, batch in ran[1].seen[ran[0].workload.ids.index(id)]}


def test_an_adaptive_job_changes_gpus_and_batch_size(ran: tuple[Outcome, Watched]) -> None:
    assert len({gpus for _, gpus in held(ran[0], "adaptive")}) > 2
    assert len(batch_sizes(ran, "adaptive")) > 2


def test_a_strong_scaling_job_changes_its_gpus_and_keeps_its_batch_size(ran: tuple[Outcome, Watched]) -> None:
    assert len({gpus for _, gpus in held(ran[0], "strong") if gpus}) > 1
    for replicas, batch in ran[1].seen[1]:
        # As many samples as can be divided over the replicas.
        assert 48 <= batch.total(replicas) < 48 + replicas * (batch.accumulation + 1)


def test_a_rigid_job_keeps_its_gpus_and_its_batch_size(ran: tuple[Outcome, Watched]) -> None:
    assert {gpus for _, gpus in held(ran[0], "rigid")} == {4, 0}
    assert batch_sizes(ran, "rigid") == {512}


def test_a_non_preemptible_job_stays_where_it_started(ran: tuple[Outcome, Watched]) -> None:
    assert len(held(ran[0], "stays")) == 2  # its start and its end
    job = ran[0].workload.ids.index("stays")
    assert ran[0].restarts[job] == ran[0].preemptions[job] == 0
    assert ran[0].preemptions.sum() + ran[0].restarts.sum() > 0  # others had to


@pytest.mark.parametrize("policy", ["srtf", "las", "themis", "gavel"])
def test_no_policy_stops_a_job_that_may_not_be_stopped(policy: str) -> None:
    jobs = [TraceJob("long", 0.0, 2, None, "cifar10", 128, preemptible=False)]
    jobs += [TraceJob(f"short{i}", 1200.0 + i, 2, None, "bert", 12) for i in range(3)]
    under, source = Conditions(Timing(360.0)), FittedApplications(["t4"])
    outcome = simulation(Workload.of(jobs), read_cluster("1x t4:2"), policy, {}, source, under).run()
    assert len(held(outcome, "long")) == 2  # its start and its end


def test_a_job_of_known_length_that_may_not_be_stopped_is_not() -> None:
    jobs = [TraceJob("long", 0.0, 1, 5000.0, preemptible=False), TraceJob("short", 60.0, 1, 10.0)]
    outcome = simulation(
        Workload.of(jobs), read_cluster("1x any:1"), "srtf", {}, FittedApplications(["any"]), Conditions()
    ).run()
    assert outcome.finished_s.tolist() == [5000.0, 5050.0]


def test_a_pipeline_job_gets_whole_replicas_on_types_that_hold_them(ran: tuple[Outcome, Watched]) -> None:
    shapes = [(gpu_type, gpus) for gpu_type, gpus in held(ran[0], "pipeline") if gpus]
    assert shapes
    assert all(gpus % STAGES[gpu_type] == 0 for gpu_type, gpus in shapes)
    assert all(batch == Batch(48, batch.accumulation) for _, batch in ran[1].seen[4])


def test_kinds_are_kept_with_a_run_and_compared_with_themselves_alone(
    ran: tuple[Outcome, Watched], tmp_path: Path
) -> None:
    outcome = ran[0]
    alone = IsolatedBaseline(FittedApplications(TYPES))
    rho, work = finish_time_fairness(outcome, alone), np.asarray(work_gpu_s(outcome, alone), float)
    assert np.isfinite(rho).all()
    assert np.isfinite(work).all()
    assert work[4] > 10 * work[0]  # the large model
    save(SavedRun("sia", outcome, rho, work), tmp_path / "run")
    workload = load(tmp_path / "run").outcome.workload
    assert workload.adaptivity == outcome.workload.adaptivity
    assert workload.preemptible.tolist() == [id != "stays" for id in workload.ids]


def test_replicas_are_counted_on_nodes_and_those_that_span_nodes_one_by_one() -> None:
    def placed(*gpus: int) -> Placement:
        return Placement("a", tuple(NodeShare(f"n{i}", count) for i, count in enumerate(gpus)))

    assert shape_of(placed(8, 4), 2) == (4, 2)
    assert shape_of(placed(4, 4, 4, 4), 8) == (1, 1)


def test_a_fresh_machine_simulates_a_hybrid_parallel_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(json.dumps({"id": "gpt", "submit_s": 0, "application": "gpt_pmp", "adaptivity": "adaptive"}))
    arguments = ["simulate", "--trace", str(trace), "--cluster", "2x a100:8", "--json", "--policy"]
    assert run([*arguments, "sia"]) == 0
    found = json.loads(capsys.readouterr().out)["sia"]
    # 3,748 steps of 48 samples at 21.2 s on one replica of two GPUs; eight replicas at most, almost as fast.
    assert 22.1 / 8 < found["mean_jct_h"] < 22.1 / 8 * 1.4
    with pytest.warns(UserWarning, match="gpt_pmp was not measured on t4"):
        assert run(["simulate", "--trace", str(trace), "--cluster", "2x t4:4, 1x a100:2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sia"]["mean_jct_h"] > 22
    assert run(["simulate", "--trace", str(trace), "--cluster", "2x t4:4"]) == 2
    assert "gpt_pmp" in capsys.readouterr().err


def test_a_pipeline_that_asks_for_less_than_a_replica_is_refused_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.jsonl"
    asked = {"adaptivity": "rigid", "gpus": 1, "batch_size": 48}
    trace.write_text(json.dumps({"id": "gpt", "submit_s": 0, "application": "gpt_pmp", **asked}))
    assert run(["simulate", "--trace", str(trace), "--cluster", "1x a100:8", "--policy", "fifo"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert told.endswith("trace: job gpt: gpus_per_replica: 2 is more than the 1 GPU the job may have")


def test_a_job_that_names_no_batch_size_begins_with_its_application_s() -> None:
    source = FittedApplications(["t4"])
    workload = Workload.of([TraceJob("a", 0.0, 2, None, "cifar10")])
    outcome = simulation(workload, read_cluster("1x t4:4"), "fifo", {}, source, Conditions()).run()
    assert outcome.workload.batch_size.tolist() == [source["cifar10"].initial_batch_size]


@pytest.mark.parametrize(
    ("policy", "knows", "wait_s"),
    [
        ("sia", Knows.BOOTSTRAP, 20.0),
        ("sia", Knows.ORACLE, 0.0),
        ("sia", Knows.NO_PROFILE, 0.0),
        ("gavel", Knows.BOOTSTRAP, 20.0),
        ("fifo", Knows.BOOTSTRAP, 0.0),
    ],
)
def test_profiles_cost_time_where_a_policy_plans_with_them(policy: str, knows: Knows, wait_s: float) -> None:
    workload = Workload.of([TraceJob("a", 0.0, 1, None, "cifar10", 128)])
    under = Conditions(Timing(10.0), knows)
    source = FittedApplications(TYPES)
    outcome = simulation(workload, read_cluster(CLUSTER), policy, {}, source, under).run()
    assert outcome.started_s.tolist() == [wait_s]  # on all three GPU types at once
    free = Conditions(Timing(10.0), knows, profiling_s=0.0)
    assert simulation(workload, read_cluster(CLUSTER), policy, {}, source, free).run().started_s.tolist() == [0.0]


def test_only_the_first_job_of_an_application_waits_for_profiles_where_jobs_know_of_earlier_ones() -> None:
    jobs = [("a", 0.0, "cifar10"), ("b", 5.0, "cifar10"), ("c", 60.0, "cifar10"), ("d", 60.0, "bert")]
    workload = Workload.of([TraceJob(id, at, 1, None, name, 128) for id, at, name in jobs])
    source, cluster = FittedApplications(TYPES), read_cluster("8x t4:4, 8x rtx:8, 8x a100:8")

    def started(policy: str, knows: Knows | None) -> list[float]:
        under = Conditions(Timing(5.0), knows)
        return simulation(workload, cluster, policy, {}, source, under).run().started_s.tolist()

    assert started("sia", Knows.PROFILE_CACHE) == [20.0, 20.0, 60.0, 80.0]
    assert started("sia", Knows.BOOTSTRAP) == started("sia", None) == [20.0, 25.0, 80.0, 80.0]
    counts_on_it = started("coadapt", None)  # in early rounds, half a second later
    assert counts_on_it == pytest.approx([20.5, 20.5, 60.5, 80.5])
    assert started("coadapt", Knows.BOOTSTRAP) == pytest.approx([20.5, 25.5, 80.5, 80.5])


def test_a_job_of_a_live_trace_is_no_other_s_because_of_its_name() -> None:
    throughput = {t: RecordedThroughput({"alpha_c": 9.0, "beta_c": 0.4}, 32) for t in TYPES}
    model = RecordedModel(throughput, initial_batch_size=32, max_batch_size=32, samples=1000.0)
    recorded = TraceJob("bert", 0.0, 1, model=model, ready_after_s=4.0)
    workload = Workload.of([recorded, TraceJob("other", 0.0, 1, None, "bert", 48)])
    cluster, source = read_cluster("4x t4:4, 4x rtx:8, 4x a100:8"), FittedApplications(TYPES)
    under = Conditions(Timing(2.0, early_s=0.5), Knows.PROFILE_CACHE)
    runs = [
        simulation(part, cluster, "sia", {}, source, under).run()
        for part in (workload, Workload.of([TraceJob("other", 0.0, 1, None, "bert", 48)]))
    ]
    assert runs[0].started_s.tolist() == [4.5, 20.5]  # in early rounds, as a trace of live jobs
    assert runs[0].jct_s[1] == pytest.approx(runs[1].jct_s[0])


def test_step_times_are_known_of_earlier_jobs_and_gradient_noise_is_not() -> None:
    names = {"a": "bert", "b": "bert", "c": "yolov3"}
    workload = Workload.of([TraceJob(id, 0.0, 1, None, name, 64) for id, name in names.items()])
    source = FittedApplications(TYPES)
    jobs = [source[name] for name in workload.applications]
    shape, batch = (4,), Batch(8, 0)
    seen = Observation("t4", shape, batch, jobs[0].step_times["t4"].at(shape, 8), 0.1, 5.0)

    def replicas(knows: Knows) -> list[int]:
        knowledge = LearningKnowledge(workload, jobs, knows)
        knowledge.observe(0, seen)
        models = [knowledge.model(job) for job in range(3)]
        assert [model is not None and model.noise_scale is not None for model in models] == [True, False, False]
        return [model.throughput["t4"].max_replicas_measured for model in models if model is not None]

    assert replicas(Knows.PROFILE_CACHE) == [4, 4, 1]
    assert replicas(Knows.BOOTSTRAP) == [4, 1, 1]


def test_a_job_of_a_live_trace_waits_as_long_as_it_was_profiled() -> None:
    workload = Workload.of([TraceJob("a", 0.0, 1, None, "cifar10", 128, ready_after_s=200.0)])
    source, under = FittedApplications(TYPES), Conditions(Timing(10.0))
    outcome = simulation(workload, read_cluster(CLUSTER), "sia", {}, source, under).run()
    assert outcome.started_s.tolist() == [200.0]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"samples": -1}, "model.samples -1.0 must be more than 0"),
        ({"samples": float("inf")}, "model.samples inf must be more than 0"),
        ({"noise_scale": float("nan")}, "model.noise_scale nan must be 0 or more"),
        ({"max_batch_size": 8}, "model.max_batch_size 8 must be at least initial_batch_size"),
        (
            {"throughput": {"t4": {"params": {}, "max_local_bsz": 0}}},
            "model.throughput.t4.max_local_bsz 0 must be at",
        ),
        (
            {"throughput": {"t4": {"params": {}, "max_local_bsz": 8}}},
            "model.throughput.t4: throughput parameters: ",
        ),
        ({"throughput": {}}, "was measured on none, and on no GPU type of the cluster"),
    ],
)
def test_a_model_that_cannot_be_is_refused_in_one_sentence(
    change: dict[str, Any], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model: dict[str, Any] = {"initial_batch_size": 16, "max_batch_size": 64, "samples": 1e4}
    model["throughput"] = {"t4": {"params": {"alpha_c": 0.1, "beta_c": 0.01}, "max_local_bsz": 32}}
    trace = tmp_path / "trace.jsonl"
    for about, status in ((model, 0), (model | change, 2)):
        trace.write_text(json.dumps({"id": "a", "submit_s": 0, "adaptivity": "adaptive", "model": about}))
        assert run(["simulate", "--trace", str(trace), "--cluster", "1x t4:4"]) == status
    assert told in " ".join(capsys.readouterr().err.split())
