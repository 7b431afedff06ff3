"""What Sia decides, as a table of small clusters whose best plan is plain to see, and what it never does."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from coadapt.core.cluster import Cluster
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Round
from coadapt.policies.sia import restart_factors
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st

from tests.support.rounds import after, assert_within, cluster, given, held, job, model, on

Table = dict[str, dict[str, float]]
DOUBLING = {"1xa": 1.0, "2xa": 2.0, "4xa": 4.0, "8xa": 8.0}


@dataclass
class Case:
    nodes: str
    jobs: list[JobView]
    table: Table
    expected: dict[str, str]
    options: dict[str, object] = field(default_factory=dict)
    note: str | None = None


CASES = {
    # The paper's running example: one node of 2 A, one of 4 B; J1 gets (1, 4, B), J2 gets (1, 2, A).
    "running example": Case(
        "1x a:2, 1x b:4",
        [job("J1"), job("J2")],
        {
            "J1": {"1xa": 1, "2xa": 1.6, "1xb": 2, "2xb": 4, "4xb": 8},
            "J2": {"1xa": 2, "2xa": 4, "1xb": 1, "2xb": 1.5, "4xb": 2},
        },
        {"J1": "4xb", "J2": "2xa"},
        {"p": 1.0},
    ),
    "running example with the default fairness": Case(
        "1x a:2, 1x b:4",
        [job("J1"), job("J2")],
        {
            "J1": {"1xa": 1, "2xa": 1.6, "1xb": 2, "2xb": 4, "4xb": 8},
            "J2": {"1xa": 2, "2xa": 4, "1xb": 1, "2xb": 1.5, "4xb": 2},
        },
        {"J1": "4xb", "J2": "2xa"},
    ),
    "one job takes what speeds it up": Case("1x a:4", [job("x")], {"x": DOUBLING}, {"x": "4xa"}),
    "more GPUs that slow it down are left idle": Case(
        "1x a:4", [job("x")], {"x": {"1xa": 1, "2xa": 1.5, "4xa": 1.2}}, {"x": "2xa"}
    ),
    "each job goes to the type it prefers": Case(
        "1x a:1, 1x b:1",
        [job("x"), job("y")],
        {"x": {"1xa": 1, "1xb": 4}, "y": {"1xa": 3, "1xb": 4}},
        {"x": "1xb", "y": "1xa"},
    ),
    "newcomers make a job shrink": Case(
        "1x a:4",
        [job("x", placement=on("a", n0=4)), *(job(f"y{i}") for i in range(3))],
        {name: {"1xa": 1.0, "2xa": 1.2, "4xa": 1.4} for name in ("x", "y0", "y1", "y2")},
        {"x": "1xa", "y0": "1xa", "y1": "1xa", "y2": "1xa"},
    ),
    "a new job starts with its smallest size": Case(
        "1x a:8", [job("x", largest_gpus={})], {"x": DOUBLING}, {"x": "1xa"}
    ),
    "then at most doubles": Case(
        "1x a:8",
        [job("x", placement=on("a", n0=2), largest_gpus={"a": 2})],
        {"x": DOUBLING},
        {"x": "4xa"},
    ),
    "the minimum is kept": Case(
        "1x a:4",
        [job("x", min_gpus=2, largest_gpus={}), job("y")],
        {"x": DOUBLING, "y": DOUBLING},
        {"x": "2xa", "y": "2xa"},
    ),
    "the maximum is kept": Case("1x a:8", [job("x", max_gpus=2)], {"x": DOUBLING}, {"x": "2xa"}),
    "a type that the job does not run on is no option": Case(
        "1x a:2, 1x b:4", [job("x", gpu_types=["a"])], {"x": {"1xa": 1, "2xa": 2, "4xb": 99}}, {"x": "2xa"}
    ),
    "a rigid job gets its count on its best type": Case(
        "1x a:4, 1x b:4",
        [job("x", adaptivity="rigid", gpus=3, largest_gpus={})],
        {"x": {"1xa": 9, "3xa": 5, "4xa": 9, "3xb": 7, "4xb": 9}},
        {"x": "3xb"},
    ),
    "a pipeline job grows by whole replicas": Case(
        "1x a:4, 2x b:8",
        [job("x", gpus_per_replica={"a": 2, "b": 8}, largest_gpus={"a": 4})],
        {"x": {"1xa": 9, "2xa": 1, "4xa": 2, "8xb": 3, "16xb (2 nodes)": 6}},
        {"x": ["16xb", "(2", "nodes)"][0]},
    ),
    "a non-preemptible job keeps its GPUs whatever others would gain": Case(
        "1x a:4",
        [job("x", preemptible=False, placement=on("a", n0=2)), job("y")],
        {"x": {"1xa": 1, "2xa": 1.1}, "y": {"1xa": 1, "2xa": 20, "4xa": 900}},
        {"x": "2xa", "y": "2xa"},
    ),
    "a non-preemptible job is placed before others": Case(
        "1x a:2",
        [job("y0"), job("y1"), job("x", preemptible=False, min_gpus=2, submitted_s=9.0)],
        {"y0": DOUBLING, "y1": DOUBLING, "x": {"2xa": 1.0}},
        {"x": "2xa"},
    ),
    "a reservation is forced into the plan": Case(
        "1x a:4, 1x b:4",
        [job("x", reservation={"gpu_type": "b", "gpus": 4}, largest_gpus={}), job("y")],
        {"x": {"1xa": 5, "1xb": 1, "4xb": 1.1}, "y": {"1xa": 1, "2xa": 1.1, "4xb": 50}},
        {"x": "4xb", "y": "2xa"},
    ),
    "a reservation that the cluster cannot meet is said and not a crash": Case(
        "1x a:4",
        [job("x", reservation={"gpu_type": "a", "gpus": 64})],
        {"x": DOUBLING},
        {"x": "4xa"},
        note="reservation of 64 a cannot be met, the cluster has 4",
    ),
    "two reservations for the same GPUs: the first holds, the second is said": Case(
        "1x a:4",
        [job(name, reservation={"gpu_type": "a", "gpus": 3}) for name in ("x", "y")],
        {"x": {"3xa": 1.0}, "y": {"3xa": 1.0}},
        {"x": "3xa"},
        note="job y: reservation of 3 a cannot be met",
    ),
    "a job of which nothing is known gets one smallest configuration": Case(
        "1x a:4", [job("x", known=False)], {}, {"x": "1xa"}
    ),
    "a job that fits nowhere gets nothing": Case("1x a:4", [job("x")], {"x": {}}, {}),
    "GPUs idle rather than serve an infeasible configuration, p > 0 too": Case(
        "1x a:4", [job("x"), job("y")], {"x": {}, "y": {"1xa": 1.0}}, {"y": "1xa"}, {"p": 0.5}
    ),
    "jobs are not idled while GPUs are free, however often they restarted": Case(
        "1x a:2, 1x b:2",
        [job("x", placement=on("a", n9=1), restarts=1000), job("y", placement=on("b", n0=1), restarts=1000)],
        {"x": {"1xa": 1, "1xb": 1}, "y": {"1xa": 1, "1xb": 1}},
        {"x": "1xa", "y": "1xb"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_scenario(name: str) -> None:
    case = CASES[name]
    round = given(case.nodes, case.jobs, case.table)
    plan = make_policy("sia", **case.options).plan(round)
    assert held(plan) == case.expected
    assert_within(plan, round.cluster)
    assert case.note is None or any(case.note in note.text for note in plan.notes), plan.notes


def test_a_small_gain_does_not_move_a_job_that_restarts_often() -> None:
    def decide(restarts: int, gain: float) -> str:
        view = job("x", placement=on("a", n0=1), restarts=restarts, restart_cost_s=30.0)
        plan = make_policy("sia").plan(given("1x a:1, 1x b:1", [view], {"x": {"1xa": 1.0, "1xb": gain}}))
        return held(plan)["x"]

    assert decide(restarts=60, gain=1.5) == "1xa"  # r = 0.5
    assert decide(restarts=60, gain=2.5) == "1xb"
    assert decide(restarts=0, gain=1.05) == "1xb"
    assert decide(restarts=0, gain=1.005) == "1xa"  # not worth even a first restart


def test_without_the_restart_factor_every_gain_counts() -> None:
    view = job("x", placement=on("a", n0=1), restarts=60)
    round = given("1x a:1, 1x b:1", [view], {"x": {"1xa": 1.0, "1xb": 1.01}})
    assert held(make_policy("sia", restart_factor=False).plan(round)) == {"x": "1xb"}


@pytest.mark.parametrize(
    ("age_s", "restarts", "cost_s", "expected"),
    [(3600, 0, 30, 3600 / 3630), (3600, 10, 60, 3000 / 3660), (60, 9, 30, 0.1), (0, 0, 0, 1.0), (0, 0, 30, 0.1)],
)
def test_the_restart_factor_is_equation_3_3_within_bounds(
    age_s: float, restarts: int, cost_s: float, expected: float
) -> None:
    view = job("x", age_s=age_s, restarts=restarts, restart_cost_s=cost_s)
    assert restart_factors([view]) == pytest.approx(expected)


def test_a_job_doubles_from_one_gpu_to_the_whole_cluster_round_by_round() -> None:
    policy, jobs = make_policy("sia"), [job("x", largest_gpus={})]
    table: Table = {"x": {**DOUBLING, "16xa (2 nodes)": 16.0}}
    seen = []
    for _ in range(6):
        plan = policy.plan(given("2x a:8", jobs, table))
        seen.append(held(plan)["x"])
        jobs = after(jobs, plan)
    assert seen == ["1xa", "2xa", "4xa", "8xa", "16xa", "16xa"]


def test_time_sharing_gives_every_job_an_unbroken_turn() -> None:
    """Three jobs, one GPU, τ = 180 s: turns of three rounds, and nobody waits longer than the others' turns."""
    policy = make_policy("sia", timeshare_window_s=180.0)
    jobs = [job(id, submitted_s=float(i)) for i, id in enumerate("xyz")]
    history: list[str] = []
    for step in range(18):
        plan = policy.plan(given("1x a:1", jobs, {id: {"1xa": 1.0} for id in "xyz"}, now=60.0 * step))
        (running,) = plan.placements
        history.append(running)
        jobs = after(jobs, plan)
    turns = "".join(history)
    assert all(len(set(turns[i : i + 3])) == 1 for i in range(0, 18, 3)), turns
    assert all(set(turns[i : i + 9]) == set("xyz") for i in range(0, 10, 3)), turns


def test_without_time_sharing_the_job_that_runs_goes_on() -> None:
    policy, jobs = make_policy("sia"), [job("x", submitted_s=1.0), job("y", submitted_s=2.0)]
    for _ in range(5):
        plan = policy.plan(given("1x a:1", jobs, {id: {"1xa": 1.0} for id in "xy"}))
        assert list(plan.placements) == ["x"]
        jobs = after(jobs, plan)


def test_a_time_shared_job_is_not_stopped_while_gpus_are_free() -> None:
    policy, view = make_policy("sia", timeshare_window_s=180.0), job("x", placement=on("a", n0=1))
    for step in range(6):
        plan = policy.plan(given("1x a:2", [view], {"x": {"1xa": 1.0}}, now=60.0 * step))
        assert held(plan) == {"x": "1xa"}


def random_round(seed: int, jobs: int) -> Round:
    rng = np.random.default_rng(seed)
    where = cluster("2x a:8, 3x b:4, 1x c:6")
    views = []
    for i in range(jobs):
        speed = {t: float(s) for t, s in zip("abc", rng.lognormal(4, 0.7, 3), strict=True)}
        views.append(
            job(
                f"j{i}",
                model=model(speed, link=float(rng.uniform(0, 0.3))),
                age_s=float(rng.uniform(0, 5000)),
                restarts=int(rng.integers(0, 20)),
                largest_gpus={"a": int(rng.integers(0, 9))},
                preemptible=bool(rng.random() < 0.9),
                max_gpus=int(2 ** rng.integers(0, 6)),
            )
        )
    return Round(0.0, 60.0, where, views)


@cases(st.integers(0, 10**6), st.integers(0, 25), st.sampled_from([-1.0, -0.5, 0.5, 1.0]))
@settings(max_examples=40)
def test_plans_are_feasible_stable_and_blind_to_job_order(seed: int, jobs: int, p: float) -> None:
    round = random_round(seed, jobs)
    policy, mirrored = make_policy("sia", p=p), make_policy("sia", p=p)
    current = list(round.jobs)
    for step in range(3):
        round = Round(60.0 * step, 60.0, round.cluster, current)
        plan = policy.plan(round)
        assert_within(plan, round.cluster)
        backwards = Round(round.now, 60.0, round.cluster, current[::-1])
        assert mirrored.plan(backwards).placements == plan.placements
        assert not any("no room" in note.text for note in plan.notes)
        for view in current:
            if not view.spec.preemptible and view.placement is not None:
                assert plan.placements[view.id] is view.placement
        current = after(current, plan)


def test_more_nodes_never_lower_the_objective() -> None:
    views = [replace(j, spec=j.spec.model_copy(update={"preemptible": True})) for j in random_round(7, 20).jobs]
    worth = []
    for nodes in ("1x a:8, 1x b:4", "2x a:8, 1x b:4", "2x a:8, 3x b:4", "4x a:8, 5x b:4"):
        plan = make_policy("sia", gap=0.0).plan(Round(0.0, 60.0, cluster(nodes), views))
        worth.append(plan.objective)
    assert worth == sorted(worth)
    assert worth[0] < worth[-1]


def test_when_time_runs_out_the_plan_is_feasible_and_says_so() -> None:
    round = random_round(1, 8)
    plan = make_policy("sia", time_limit_s=1e-9).plan(round)
    assert plan.placements
    assert_within(plan, round.cluster)
    assert any("ended at a limit" in note.text and f"{plan.gap:.2%}" in note.text for note in plan.notes)
    assert not make_policy("sia").plan(round).notes


def test_prices_are_zero_for_types_with_room_and_positive_under_contention() -> None:
    jobs = [job(f"j{i}", gpu_types=["a"]) for i in range(5)]
    plan = make_policy("sia").plan(given("1x a:2, 1x b:2", jobs, {j.id: {"1xa": 1.0} for j in jobs}))
    assert plan.prices["a"] > 0
    assert plan.prices["b"] == 0


def test_an_empty_cluster_and_an_empty_queue_give_empty_plans() -> None:
    policy = make_policy("sia")
    assert not policy.plan(Round(0.0, 60.0, cluster("1x a:2"), [])).placements
    assert not policy.plan(Round(0.0, 60.0, Cluster(()), [job("x")])).placements


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("saturn", {}, "policy: 'saturn' is unknown; accepted: .*sia"),
        (
            "sia",
            {"alpha": 1},
            "policy sia: option 'alpha' is unknown; accepted: .*timeshare_window_s, .*p, lambda, ",
        ),
        ("sia", {"p": 0}, "policy sia: p: 0"),
        ("sia", {"gap": 2}, "policy sia: gap: 2 is not accepted"),
        ("sia", {"timeshare_window_s": -1}, "policy sia: timeshare_window_s: -1"),
    ],
)
def test_unknown_policies_and_options_are_named(name: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_policy(name, **options)
