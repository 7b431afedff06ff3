"""Gavel's policy shares time as its program says, and its traces run as its simulator runs them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import highspy
import numpy as np
import pytest
from coadapt.cli.main import run as command
from coadapt.optimizer.shares import NoOptimum, max_min_shares, max_sum_shares, water_filling_shares
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.gavel import GavelPolicy, Objective
from coadapt.policies.placing.speeds import rates_of
from coadapt.simulator.compat import gavel
from coadapt.simulator.compat.sia_gavel import ArtifactGavel, AsAsked
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.jobs.adaptive import Batch
from coadapt.simulator.jobs.applications import Application
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.measured_rates import MeasuredRatesWorld, Rates, read_rates
from coadapt.simulator.jobs.step_times import StepTime
from coadapt.simulator.jobs.training_statistics import TrainingStatistics
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import TraceJob, Workload
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.support.rounds import assert_within, cluster, held, job, model, on

OBJECTIVES = list(Objective)


def trace_job(id: str, submit_s: float, gpus: int, steps: int, application: str = "net") -> TraceJob:
    return TraceJob(id, submit_s, gpus, application=application, steps=steps)


def run(where: str, rates: Rates, *jobs: TraceJob, restart_s: float = 0.0, **options: object) -> Outcome:
    world = MeasuredRatesWorld(Workload.of(jobs), rates, lambda gpus: restart_s)
    return Engine(world, cluster_of(where), make_policy("gavel", **options), Timing(60.0)).run()


# --- the programs ------------------------------------------------------------------------------------------------


def test_the_sum_goes_to_who_makes_most_of_a_type() -> None:
    values = np.array([[10.0, 1.0], [3.0, 2.0]])
    shares = max_sum_shares(values, np.ones(2), np.ones(2))
    np.testing.assert_allclose(shares, np.eye(2), atol=1e-6)


def test_the_least_is_raised_first_and_a_large_job_counts_its_gpus() -> None:
    # Both share two GPUs: the job on two GPUs for a share s of the time leaves 2 - 2s for the other.
    shares = max_min_shares(np.array([[2.0], [1.0]]), np.array([2.0, 1.0]), np.array([2.0]))
    assert shares[0, 0] == pytest.approx(0.5, abs=1e-6)
    assert shares[1, 0] == pytest.approx(1.0, abs=1e-6)


def test_what_is_left_over_is_spread() -> None:
    # Any split of the second type is optimal; nobody is left without.
    shares = max_min_shares(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), np.ones(3), np.array([1.0, 1.0]))
    assert shares[1, 1] == pytest.approx(shares[2, 1], abs=1e-3)


programs = st.integers(1, 8).flatmap(
    lambda jobs: st.integers(1, 3).flatmap(
        lambda types: st.tuples(
            st.lists(
                st.lists(st.one_of(st.just(0.0), st.floats(0.05, 100.0)), min_size=types, max_size=types),
                min_size=jobs, max_size=jobs,
            ),
            st.lists(st.sampled_from([1, 2, 4, 8]), min_size=jobs, max_size=jobs),
            st.lists(st.integers(1, 16), min_size=types, max_size=types),
        )
    )
)  # fmt: skip


@settings(max_examples=100)
@given(programs)
def test_shares_are_feasible_and_as_good_as_another_solver_finds(
    program: tuple[list[list[float]], list[int], list[int]],
) -> None:
    values, gpus, capacity = (np.array(part, float) for part in program)
    jobs, types = values.shape
    each, usage = np.kron(np.eye(jobs), np.ones(types)), np.kron(gpus, np.eye(types))
    limits = np.concatenate([np.ones(jobs), capacity])
    for shares in (max_sum_shares(values, gpus, capacity), max_min_shares(values, gpus, capacity)):
        assert np.all(shares >= 0)
        assert np.all(shares[values == 0] == 0)
        assert np.all(shares.sum(axis=1) <= 1 + 1e-6)
        assert np.all(gpus @ shares <= capacity * (1 + 1e-6))
    best = linprog(-values.ravel(), np.vstack([each, usage]), limits)
    assert (max_sum_shares(values, gpus, capacity) * values).sum() == pytest.approx(-best.fun, rel=1e-5, abs=1e-6)
    able = np.flatnonzero(values.sum(axis=1) > 0)
    if len(able):
        least = np.hstack([-(each * values.ravel())[able], np.ones((len(able), 1))])
        rows = np.vstack([np.hstack([np.vstack([each, usage]), np.zeros((len(limits), 1))]), least])
        cost = np.append(np.zeros(values.size), -1.0)
        best = linprog(cost, rows, np.concatenate([limits, np.zeros(len(able))]))
        found = (max_min_shares(values, gpus, capacity) * values).sum(axis=1)[able].min()
        assert found == pytest.approx(-best.fun, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("shares", [max_sum_shares, max_min_shares, water_filling_shares])
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"values": [[np.nan, 2], [2, 1]]},
            "values: has entries that are negative or not finite; 0 or more is accepted",
        ),
        ({"values": [[np.inf, 2], [2, 1]]}, "values: has entries that are negative or not finite"),
        ({"values": [[-1, 2], [2, 1]]}, "values: has entries that are negative or not finite"),
        ({"values": [1, 2]}, r"values: has shape \(2,\), not \(jobs, types\)"),
        ({"capacity": [1, -1]}, "capacity: has entries that are negative or not finite"),
        ({"capacity": [1, np.nan]}, "capacity: has entries that are negative or not finite"),
        ({"capacity": [1]}, r"capacity: has shape \(1,\), not \(2,\) as values say"),
        ({"gpus": [-1, 1]}, "gpus: has entries that are negative or not finite"),
        ({"gpus": [1, np.nan]}, "gpus: has entries that are negative or not finite"),
        ({"gpus": [1]}, r"gpus: has shape \(1,\), not \(2,\) as values say"),
        ({"gpus": [1, 1, 5]}, r"gpus: has shape \(3,\), not \(2,\) as values say"),
    ],
)
def test_a_program_of_shares_that_makes_no_sense_is_refused_in_one_sentence(
    shares: Callable[..., np.ndarray], changed: dict[str, list], told: str
) -> None:
    given = {"values": [[1, 2], [2, 1]], "gpus": [1, 1], "capacity": [1, 1], **changed}
    with pytest.raises(ValueError, match=told):
        shares(**{name: np.array(value, float) for name, value in given.items()})


@pytest.mark.parametrize("seed", range(40))
def test_shares_of_jobs_whose_values_lie_far_apart_are_within_their_limits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    values = rng.uniform(0.5, 2.0, (jobs, types)) * 10.0 ** rng.uniform(-6, 0, (jobs, 1))
    gpus, capacity = rng.integers(1, 5, jobs).astype(float), rng.integers(1, 6, types).astype(float)
    shares = water_filling_shares(values, gpus, capacity)
    assert (shares.sum(axis=1) <= 1 + 1e-6).all()
    assert (gpus @ shares <= capacity + 1e-5).all()


def test_shares_without_an_optimum_are_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda highs: highspy.HighsModelStatus.kIterationLimit)
    with pytest.raises(NoOptimum, match="shares: HiGHS ends as stopped, without an optimum"):
        max_sum_shares(np.ones((2, 1)), np.ones(2), np.ones(1))


def test_where_a_further_level_has_no_optimum_jobs_keep_what_they_have_risen_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values, gpus, capacity = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.ones(3), np.ones(2)
    assert water_filling_shares(values, gpus, capacity)[2, 1] == pytest.approx(1.0, abs=1e-5)
    first = max_min_shares(values, gpus, capacity)
    status, statuses = highspy.Highs.getModelStatus, []

    def infeasible_after_one(highs: highspy.Highs) -> highspy.HighsModelStatus:
        statuses.append(status(highs))
        return statuses[0] if len(statuses) == 1 else highspy.HighsModelStatus.kInfeasible

    monkeypatch.setattr(highspy.Highs, "getModelStatus", infeasible_after_one)
    assert np.array_equal(water_filling_shares(values, gpus, capacity), first)


# --- the policy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_equal_jobs_take_turns(objective: Objective) -> None:
    outcome = run(
        "1x a:1", {("net", 1): {"a": 1.0}}, trace_job("x", 0, 1, 120), trace_job("y", 0, 1, 120),
        objective=objective,
    )  # fmt: skip
    # Whoever begins has a round in each of the first two pairs.
    assert sorted(outcome.finished_s.tolist()) == [180, 240]
    assert sorted(outcome.started_s.tolist()) == [0, 60]


def test_a_job_goes_where_it_gains_most_unless_the_policy_is_blind_to_types() -> None:
    rates = {("much", 1): {"a": 10.0, "b": 1.0}, ("little", 1): {"a": 3.0, "b": 2.0}}
    jobs = trace_job("much", 0, 1, 600, "much"), trace_job("little", 0, 1, 120, "little")
    for objective in (Objective.MAX_MIN_FAIRNESS_PERF, Objective.MAX_SUM_THROUGHPUT_PERF):
        assert run("1x a:1, 1x b:1", rates, *jobs, objective=objective).finished_s.tolist() == [60, 60]
    # Blind, both take turns on both types.
    longer = [replace(j, steps=10 * j.steps) for j in jobs]
    outcome = run("1x a:1, 1x b:1", rates, *longer, objective=Objective.MAX_MIN_FAIRNESS)
    assert {h.gpu_type for h in outcome.holdings if h.job == 0 and h.gpus} == {"a", "b"}


def test_shares_are_kept_for_a_while_and_who_comes_meanwhile_waits() -> None:
    jobs = [trace_job(str(i), submit_s, 1, 1000) for i, submit_s in enumerate((0, 50, 70))]
    outcome = run("3x a:1", {("net", 1): {"a": 1.0}}, *jobs, least_hold_s=300.0)
    # The shares of the very start are replaced at once, those of 60 s when 300 s are over.
    assert outcome.started_s.tolist() == [0, 60, 360]
    at_once = run("3x a:1", {("net", 1): {"a": 1.0}}, *jobs)
    assert at_once.started_s.tolist() == [0, 60, 120]


def test_a_move_costs_a_restart() -> None:
    jobs = trace_job("x", 0, 1, 120), trace_job("y", 0, 1, 120)
    outcome = run("1x a:1", {("net", 1): {"a": 1.0}}, *jobs, restart_s=10.0)
    assert outcome.restarts.sum() >= 1
    assert outcome.finished_s.max() > 240


def plan_of(policy: GavelPolicy, where: str, *jobs: JobView, now: float = 0.0) -> Plan:
    plan = policy.plan(Round(now, 60.0, cluster(where), jobs))
    assert_within(plan, cluster(where))
    return plan


def test_live_jobs_are_compared_by_their_fitted_models() -> None:
    much = job("much", gpus=1, adaptivity="rigid", model=model({"a": 900.0, "b": 100.0}))
    little = job("little", gpus=1, adaptivity="rigid", model=model({"a": 200.0, "b": 190.0}))
    assert held(plan_of(GavelPolicy(), "1x a:1, 1x b:1", little, much)) == {"much": "1xa", "little": "1xb"}


def test_a_job_runs_only_where_it_may_and_fits() -> None:
    where = cluster("1x a:1, 2x b:4")
    assert rates_of(job("new", known=False), 1, where).tolist() == [1.0, 1.0]
    assert rates_of(job("large", known=False), 2, where).tolist() == [0.0, 1.0]
    assert rates_of(job("picky", known=False, gpu_types=["a"]), 1, where).tolist() == [1.0, 0.0]
    assert rates_of(job("measured", rates={"b": 3.0}), 1, where).tolist() == [0.0, 3.0]
    known = rates_of(job("known", model=model({"b": 10.0})), 1, where)
    assert known[0] == 0.0
    assert known[1] > 0
    assert held(plan_of(GavelPolicy(), "1x a:1", job("large", gpus=2, adaptivity="rigid", known=False))) == {}


def test_who_stays_keeps_its_nodes_unless_a_large_job_finds_no_room() -> None:
    def rigid(id: str, gpus: int, **view: object) -> object:
        return job(id, gpus=gpus, adaptivity="rigid", known=False, **view)

    small = rigid("one", 2, placement=on("a", n1=2)), rigid("two", 2, placement=on("a", n0=2))
    kept = plan_of(GavelPolicy(), "2x a:4", *small).placements
    assert kept == {"one": on("a", n1=2), "two": on("a", n0=2)}
    assert held(plan_of(GavelPolicy(), "2x a:4", *small, rigid("large", 4))) == {
        "large": "4xa", "one": "2xa", "two": "2xa",
    }  # fmt: skip


def test_a_job_that_may_not_be_stopped_runs_on() -> None:
    policy = GavelPolicy()
    pinned = job("pinned", gpus=1, adaptivity="rigid", known=False, preemptible=False, placement=on("a", n0=1))
    other = job("other", gpus=1, adaptivity="rigid", known=False)
    for i in range(4):
        view = replace(pinned, attained_gpu_s=60.0 * i)
        assert held(plan_of(policy, "1x a:1", view, other, now=60.0 * i)) == {"pinned": "1xa"}


def test_unknown_options_are_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="policy gavel: objective: 'speed' is not accepted"):
        make_policy("gavel", objective="speed")
    with pytest.raises(ValueError, match="policy gavel: option 'packing' is unknown"):
        make_policy("gavel", packing=True)


traces = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(1, 8), st.integers(1, 1500)), min_size=1, max_size=15
)


@settings(max_examples=30)
@given(traces, st.sampled_from(OBJECTIVES), st.sampled_from([0.0, 300.0]))
def test_every_job_ends_and_no_gpu_is_held_twice(
    rows: list[tuple[int, int, int]], objective: Objective, hold_s: float
) -> None:
    jobs = [TraceJob(str(i), *row) for i, row in enumerate(sorted(rows))]
    where = cluster_of("2x t4:4, 1x a100:8")
    policy = GavelPolicy(GavelPolicy.Options(objective=objective, least_hold_s=hold_s))

    class Watched:
        def plan(self, round: Round) -> Plan:
            plan = policy.plan(round)
            assert_within(plan, where)
            return plan

    world = FixedLengthWorld(Workload.of(jobs), lambda gpus: 30.0)
    outcome = Engine(world, where, Watched(), Timing(60.0)).run()
    assert np.isfinite(outcome.finished_s).all()
    np.testing.assert_allclose(outcome.attained_gpu_s, outcome.held_s * outcome.workload.gpus, atol=1e-3)


# --- its simulator, traces and speeds ----------------------------------------------------------------------------


def test_jobs_train_whole_steps_and_a_round_ends_with_the_last() -> None:
    rates = {("slow", 1): {"v100": 0.0125}, ("fast", 1): {"v100": 1.0}}
    jobs = (
        trace_job("slow", 0, 1, 6, "slow"),
        trace_job("fast", 0, 1, 100, "fast"),
        trace_job("late", 5, 1, 40, "fast"),
    )

    def replayed(*chosen: TraceJob) -> Outcome:
        policy = make_policy("gavel", **gavel.OPTIONS)
        return gavel.engine(Workload.of(chosen), rates, cluster_of("4x v100:1"), policy).run()

    # Four steps of 80 s fit a round, which then ends; the next has two steps.
    assert replayed(jobs[0]).finished_s.tolist() == pytest.approx([480], abs=1e-4)
    # The late job is seen when the first round ends, at 320 s.
    assert replayed(*jobs).finished_s.tolist() == pytest.approx([480, 100, 360], abs=1e-4)
    # A job that waits for the others after its last whole step holds nothing meanwhile. It has two rounds of 4
    # steps of 80 s and one of 2, beside 1000 steps in rounds of 360 s.
    outcome = replayed(replace(jobs[0], steps=10), replace(jobs[1], steps=1000))
    assert outcome.attained_gpu_s.tolist() == pytest.approx([800, 1000], abs=1e-4)
    assert outcome.finished_s.tolist() == pytest.approx([880, 1000], abs=1e-4)


class _Known:
    """Step times of a second and a hundredth per sample, known from one to 64 samples a replica."""

    def at(self, shape: tuple[int, ...], local_bsz: float) -> StepTime:
        return StepTime(1.0 + 0.01 * local_bsz, 0.5)

    def sizes(self, shape: tuple[int, ...]) -> tuple[float, float]:
        return 1.0, 64.0

    def samples(self) -> list[tuple[tuple[int, ...], int]]:
        return [((1,), 1), ((1,), 64)]


def test_gavel_of_sias_simulator_keeps_sizes_and_shares_one_queue() -> None:
    one = np.ones((2, 1))
    statistics = TrainingStatistics(np.array([32.0, 512.0]), one, one, one)
    known = Application("net", statistics, {"a": _Known(), "b": _Known()}, 30.0, 1)
    jobs = [
        TraceJob(str(i), 0.0, gpus, application="net", batch_size=size)
        for i, (gpus, size) in enumerate([(1, 32), (1, 64), (2, 256), (3, 256)])
    ]
    asked = AsAsked(Workload.of(jobs), [known] * len(jobs))
    assert asked.choose(0, "a", (1,)) == Batch(32, 0)
    # One replica beyond the initial batch size takes two passes; others as many as memory asks for.
    assert asked.choose(1, "a", (1,)) == Batch(32, 1)
    assert asked.choose(2, "a", (2,)) == Batch(64, 1)
    assert asked.choose(3, "a", (3,)) == Batch(43, 1)
    assert asked.rate(2, "a", (2,)) == pytest.approx(1 / (1.64 + 1.14))
    policy = ArtifactGavel(asked, int)
    where = cluster("1x a:4, 1x b:2")
    views = [job(str(i), gpus=j.gpus, adaptivity="rigid", known=False) for i, j in enumerate(jobs)]
    for i in range(5):
        plan = policy.plan(Round(360.0 * i, 360.0, where, views))
        assert_within(plan, where)
        assert all(plan.placements[id].gpus == jobs[int(id)].gpus for id in plan.placements)
        views = [replace(v, placement=plan.placements.get(v.id)) for v in views]


TEN = "ResNet-18 (batch size 16)\tpython3 main.py\tfolder\t--num_steps\t1\t900\t4\t1\t-1.000000\t0\n"
SEVEN = "A3C\tpython3 main.py\t--steps\t1\t50\t12.500000\t1\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "jobs.trace"
    path.write_text(text)
    return path


def test_both_layouts_of_its_traces_are_read(tmp_path: Path) -> None:
    workload = read_trace(written(tmp_path, TEN + TEN.replace("\t0\n", "\t7.5\n").replace("\t4\t", "\t1\t")))
    assert workload.ids == ("0", "1")
    assert workload.applications == ("ResNet-18 (batch size 16)",) * 2
    assert workload.steps.tolist() == [900, 900]
    assert workload.gpus.tolist() == [4, 1]
    assert workload.submit_s.tolist() == [0.0, 7.5]
    older = read_trace(written(tmp_path, SEVEN))
    assert (older.applications, older.steps[0], older.gpus[0], older.submit_s[0]) == (("A3C",), 50, 1, 12.5)
    with pytest.warns(UserWarning, match="line 2 has a priority_weight of its own; no policy heeds it"):
        read_trace(written(tmp_path, TEN + TEN.replace("\t1\t-1", "\t5\t-1")))


def test_gavels_jobs_without_a_whole_gpu_are_left_out_with_a_warning(tmp_path: Path) -> None:
    first = TEN.splitlines(keepends=True)[0]
    text = "# jobs\n" + first.replace("\t4\t", "\t0\t") + first.replace("\t4\t", "\t1.5\t") + first
    told = "1 job without a GPU left out and 1 job with part of a GPU left out, the first in line 2"
    with pytest.warns(UserWarning, match=told):
        workload = read_trace(written(tmp_path, text))
    assert (workload.ids, workload.gpus.tolist()) == (("2",), [4])


BAD = {
    "a field too few": (TEN + "A3C\tx\ty\t1\n", "line 2: 4 fields between tabs, must be 10 or 7"),
    "no steps": (
        TEN.replace("900", "0"),
        "line 1: total_steps 0 is not accepted, must be a whole number of at le",
    ),
    "half a GPU": (
        TEN.splitlines()[0].replace("\t4\t", "\t0.5\t"),
        "no job asks for a whole GPU in scale_factor; the first has 0.5",
    ),
    "less than no GPU": (TEN.replace("\t4\t", "\t-4\t"), "line 1: scale_factor -4 is not accepted"),
    "no number": (TEN + TEN.replace("900", "many"), "line 2: total_steps 'many' is not a number"),
    "before the start": (SEVEN.replace("12.5", "-12.5"), "line 1: arrival_time -12.500000 is not accepted"),
    "no job type": (TEN.replace("ResNet-18 (batch size 16)", ""), "line 1: the job type is empty"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_trace_is_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    text, told = BAD[what]
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        read_trace(written(tmp_path, text))
    assert told in str(error.value)


SPEEDS = {"v100": {"('A3C', 1)": {"null": 2.0, "('A3C', 1)": [1.0, 1.0]}}, "k80": {"('A3C', 1)": {"null": 0.5}}}


def test_speeds_are_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "speeds.json.gz"
    path.write_bytes(gzip.compress(json.dumps(SPEEDS).encode()))
    assert read_rates(path) == {("A3C", 1): {"v100": 2.0, "k80": 0.5}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no JSON"),
        ("[]", "has no steps per second"),
        (json.dumps({"v100": {"A3C": {"null": 1.0}}}), "v100: 'A3C' is no job like"),
        (json.dumps({"v100": {"('A3C', 0)": {"null": 1.0}}}), "is no job like"),
        (json.dumps({"v100": {"('A3C', 1)": {}}}), "'null' None must be steps per second"),
        (json.dumps({"v100": {"('A3C', 1)": {"null": -1}}}), "'null' -1 must be steps per second, 0 or more"),
    ],
)
def test_bad_speeds_are_refused_in_one_sentence(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "speeds.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        read_rates(path)
    assert told in str(error.value)


def test_a_job_without_steps_or_speed_is_named() -> None:
    with pytest.raises(ValueError, match="job x: no measured speed of 'net' on 2 GPUs"):
        MeasuredRatesWorld(Workload.of([trace_job("x", 0, 2, 10)]), {("net", 1): {"a": 1.0}})
    with pytest.raises(ValueError, match="job x does not say how many steps it trains"):
        MeasuredRatesWorld(Workload.of([TraceJob("x", 0, 1, 10.0)]), {})


def test_its_traces_are_simulated_from_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "speeds.json").write_text(json.dumps(SPEEDS))
    arguments = [
        "simulate",
        "--trace",
        str(written(tmp_path, SEVEN.replace("12.5", "0"))),
        "--cluster",
        "1x v100:1",
    ]
    given = [*arguments, "--profiles", str(tmp_path / "speeds.json")]
    assert command([*given, "--policy", "gavel", "--policy", "las", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gavel"]["mean_jct_h"] == found["las"]["mean_jct_h"] == pytest.approx(25 / 3600)
    assert command([*given, "--policy", "sia"]) == 2
    assert "sia chooses sizes" in " ".join(capsys.readouterr().err.split())
    assert command([*arguments, "--policy", "gavel"]) == 2
    assert "need a file of measured steps per second" in " ".join(capsys.readouterr().err.split())
