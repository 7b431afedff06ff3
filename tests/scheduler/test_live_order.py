"""`srtf` and `sjf` serve the demo's jobs live in the order of their true remaining time, as simulated."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from coadapt.core.expected import ExpectedSource
from coadapt.core.job import JobSpec, Phase
from coadapt.core.reports import JobInfo, ProfileProgress, Progress, Report, StepRow
from coadapt.core.training_config import Adaptivity
from coadapt.estimators.measurements import Measurements
from coadapt.estimators.pace import Pace
from coadapt.executor.protocol.job_events import JobFinished, ProfileFinished, Released, Reported
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import Plan, Round
from coadapt.simulator.jobs.fitted import FittedApplications
from coadapt.simulator.replay import Conditions, simulation
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.recorded import RecordedModel, RecordedThroughput
from coadapt.simulator.traces.workload import TraceJob, Workload

from examples.demo.cast import ROLES, Role
from examples.demo.stage import CLUSTER
from tests.support.cycles import World, short

TYPES = ("a100", "rtx", "t4")
SIZES = {"digits-a": 1437, "digits-b": 1437, "digits-c": 1437, "chars": 2048, "tune": 672, "fixed": 1437}
EPOCHS = {"digits-a": 45, "digits-b": 45, "digits-c": 45, "chars": 30, "tune": 50, "fixed": 60}
TARGET_AT = {"digits-a": 12, "digits-b": 12, "digits-c": 12, "chars": 20, "tune": 40, "fixed": 2}  # epochs


@dataclass(frozen=True)
class Actor:
    """A job of the demo: what its script asks for, and how fast its emulated GPUs truly are."""

    role: Role
    spec: JobSpec
    samples: float  # to its true end

    @property
    def asked(self) -> float:
        return float(SIZES[self.role.name] * EPOCHS[self.role.name])

    @property
    def batch_size(self) -> int:
        return self.spec.training.initial_batch_size or 0

    @property
    def gpus(self) -> int:
        return self.spec.resources.gpus or self.spec.resources.min_gpus

    def pace(self, gpu_type: str) -> Pace:
        return Pace.of(self.spec.emulation.profile, gpu_type, self.spec.emulation.time_scale)

    def true_s(self, done: float = 0.0) -> float:
        """Return the seconds to the true end on the GPUs that a job asks for, of the fastest type."""
        local = self.batch_size // self.gpus
        step_s = min(self.pace(t).step_time_s(1, self.gpus, local, 0) for t in TYPES)
        return (self.samples - done) / self.batch_size * step_s

    def measured(self, *gpu_types: str) -> Measurements:
        """Return what profile runs on these types find out."""
        fingerprint = self.role.example
        found = Measurements().with_info(JobInfo(fingerprint, self.batch_size, 1000, None, adam_type=False))
        for t in gpu_types:
            sizes = [
                size for size in (4, 8, 16, 32, 64) if size <= min(self.batch_size, self.pace(t).max_local_bsz)
            ]
            rows = tuple(StepRow(1, 1, size, 0, self.pace(t).step_time_s(1, 1, size, 0), 0.0, 5) for size in sizes)
            found = found.with_profile(t, ProfileProgress(rows, asked_samples=self.asked))
        return found

    def trace_job(self) -> TraceJob:
        throughput = {}
        for t in TYPES:
            params, scale = self.pace(t).params, self.spec.emulation.time_scale
            times = {name: getattr(params, name) / scale for name in ("alpha_c", "beta_c", "alpha_r", "alpha_n")}
            throughput[t] = RecordedThroughput(params.to_json() | times, self.pace(t).max_local_bsz)
        model = RecordedModel(throughput, self.batch_size, self.batch_size, self.samples)
        return TraceJob(
            self.role.name, 0.0, self.gpus, batch_size=self.batch_size, adaptivity=Adaptivity.RIGID, model=model
        )


def cast_of(lengths: dict[str, int]) -> dict[str, Actor]:
    return {role.name: Actor(role, role.spec(), float(SIZES[role.name] * lengths[role.name])) for role in ROLES}


class Stage(World):
    """The demo's cluster under a policy, without processes."""

    def __init__(self, folder: Path, policy: str, nodes: str = CLUSTER) -> None:
        super().__init__(folder, nodes, planner=make_policy(policy), profile_share=1.0)

    def enter(self, actors: dict[str, Actor], act: str = "") -> None:
        """Submit the jobs and measure each on every type it still has to be measured on."""
        for name, actor in actors.items():
            spec = actor.spec.model_copy(update={"name": name + act})
            self.ids[name + act] = self.cycle.orders.submit(
                spec, idempotency_key=name + act, script_key=actor.role.example
            ).id
        for _ in range(20):
            self.on_go("2")
            if all(self.job(name + act).phase is not Phase.PROFILING for name in actors):
                return
            for name, actor in actors.items():
                self._measure(name + act, actor)
        raise AssertionError("profile runs do not end")

    def _measure(self, name: str, actor: Actor) -> None:
        for run in self.job(name).profiles:
            if run.active and run.slot is not None:
                known = set((self.job(name).measurements or Measurements()).profiles)
                found = actor.measured(*sorted(known | {run.gpu_type}))
                self._say(name, ProfileFinished(run.gpu_type, True, measurements=found, sequence=run.sequence))
                self._say(name, Released(self.job(name).sequence, (run.slot,)))

    def trains(self, name: str, actor: Actor, epochs: float) -> None:
        """Let a job run where it shall, and report how far it is."""
        job = self.job(name)
        if not job.group:
            self.on_runs(name)
        done = SIZES[actor.role.name] * epochs
        progress = Progress(int(epochs), EPOCHS[actor.role.name], done / actor.asked, 100, int(done), done)
        replicas = len(self.job(name).group)
        report = Report(1, "t4", 1, replicas, (), None, None, actor.batch_size, 8, 0, 0.1, 1.0, progress)
        self._say(name, Reported(report, self.job(name).measurements))

    def order(self) -> list[str]:
        """Return the jobs of the newest round in the policy's order, without profile runs."""
        result = [result for result in self.results if result.plan is not None][-1]
        assert result.plan is not None
        assert result.round is not None
        assert result.plan.order is not None
        views = [result.round.jobs[i] for i in result.plan.order.tolist()]
        return [short(view.id) for view in views if "/" not in view.id]

    def sources(self) -> set[ExpectedSource]:
        result = [result for result in self.results if result.round is not None][-1]
        assert result.round is not None
        return {view.expected.source for view in result.round.jobs if "/" not in view.id}


def by_truth(actors: dict[str, Actor], done: dict[str, float], act: str = "") -> list[str]:
    names = sorted(actors, key=lambda name: actors[name].true_s(done.get(name, 0.0)))  # ties as submitted
    return [name + act for name in names]


def simulated(policy: str, actors: dict[str, Actor]) -> list[str]:
    """Return the order of the simulation's first round."""
    orders: list[list[str]] = []
    workload = Workload.of([actor.trace_job() for actor in actors.values()])
    made = simulation(workload, read_cluster(CLUSTER), policy, {}, FittedApplications(TYPES), Conditions())
    (engine,) = made.engines
    inner = engine.policy

    class Watching:
        def plan(self, round: Round) -> Plan:
            plan = inner.plan(round)
            assert plan.order is not None
            orders.append([round.jobs[i].id for i in plan.order.tolist()])
            return plan

    engine.policy = Watching()
    made.step()
    return orders[0]


@pytest.fixture(params=["srtf", "sjf"])
def policy(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_jobs_that_never_ran_are_served_by_their_true_time_as_simulated(tmp_path: Path, policy: str) -> None:
    actors = cast_of(EPOCHS)
    stage = Stage(tmp_path, policy)
    stage.enter(actors)
    assert stage.order() == by_truth(actors, {}) == simulated(policy, actors)
    assert stage.order() != list(actors), "not as they were submitted"
    assert stage.sources() == {ExpectedSource.MEASURED_SPEED}


def test_jobs_that_train_are_served_by_what_is_truly_left(tmp_path: Path, policy: str) -> None:
    actors = cast_of(EPOCHS)
    stage = Stage(tmp_path, policy)
    stage.enter(actors)
    first = stage.order()
    longest, shortest = first[-1], first[0]
    stage.trains(longest, actors[longest], EPOCHS[longest] - 0.01)
    stage.trains(shortest, actors[shortest], 1.0)
    stage.cycle.ask_round()
    stage.on_go("2")
    done = {longest: SIZES[longest] * (EPOCHS[longest] - 0.01), shortest: float(SIZES[shortest])}
    assert stage.order() == by_truth(actors, done)
    assert stage.order()[0] == longest


def test_where_targets_end_jobs_the_runs_before_tell_their_true_time(tmp_path: Path, policy: str) -> None:
    actors = cast_of(TARGET_AT)
    assert by_truth(actors, {}) != by_truth(cast_of(EPOCHS), {}), "targets change the order"
    stage = Stage(tmp_path, policy)
    stage.enter(actors)
    for name, actor in actors.items():
        stage.trains(name, actor, TARGET_AT[name])
        stage.clock.forward(1.0)
        stage._say(name, JobFinished(target_reached=True))
        stage._say(name, Released(stage.job(name).sequence, stage.job(name).held))
    stage.on_go()
    assert stage.cycle.learning.wait(10.0)
    stage.enter(actors, "-again")
    assert stage.sources() == {ExpectedSource.EARLIER_RUNS}
    assert stage.order() == by_truth(actors, {}, "-again")
    assert [name.removesuffix("-again") for name in stage.order()] == simulated(policy, actors)


def test_a_newcomer_is_measured_also_where_a_longer_job_has_all_gpus(tmp_path: Path) -> None:
    actors = cast_of(EPOCHS)
    stage = Stage(tmp_path, "srtf", "1x t4:1")
    stage.enter({"chars": actors["chars"]})
    stage.trains("chars", actors["chars"], 1.0)
    stage.on_submit("b", "types=t4")
    stage.on_go()
    stage.on_left("chars")
    stage.on_go()
    assert stage.executors.sent[-2:] == ["assign chars nothing", "profile b t4"]
