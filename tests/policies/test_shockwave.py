"""`shockwave` plans rounds ahead: what is worth most to all jobs, those first who fell behind their fair share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from coadapt.core.expected import UNKNOWN
from coadapt.optimizer.nash_welfare import Window, log_progress, planned_rounds
from coadapt.policies.catalogue import make_policy
from coadapt.policies.contract.round import JobView, Plan, Round
from coadapt.policies.shockwave import fairness, work_s
from coadapt.simulator.engine.engine import Engine, Timing
from coadapt.simulator.jobs.fixed_length import FixedLengthWorld
from coadapt.simulator.jobs.lengths import Lengths
from coadapt.simulator.traces.cluster_file import cluster_of
from coadapt.simulator.traces.workload import TraceJob, Workload
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import assert_within, cluster, held, job, left, on

BASES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
ROUND_S = 100.0


def planned(window: Window, makespan_weight: float = 0.0) -> np.ndarray:
    found = planned_rounds(window, BASES, 1e-6, makespan_weight, 10.0)
    assert found is not None
    return found


def window(left: list[float], **more: object) -> Window:
    ones = np.ones(len(left))
    given = {"weight": ones, "gpus": ones, "done": 0 * ones, "speed": ones[:, None], "capacity": np.ones(1)}
    given |= {name: np.array(value, float) for name, value in more.items() if name != "rounds"}
    return Window(left=np.array(left), rounds=int(more.get("rounds", 10)), **given)  # type: ignore[arg-type,call-overload]


# --- the program -------------------------------------------------------------------------------------------------


def test_every_job_makes_some_progress_before_any_makes_much() -> None:
    # A fifth of each: the first of progress is worth most.
    np.testing.assert_allclose(planned(window([10, 10, 10, 10, 10])).ravel(), [2.0] * 5)


def test_who_is_behind_its_fair_share_is_served_before_others() -> None:
    found = planned(window([10, 10], weight=[1.0, 1e3], rounds=8)).ravel()
    np.testing.assert_allclose(found, [0.0, 8.0], atol=1e-6)


def test_the_makespan_counts_as_much_as_it_is_weighed() -> None:
    short_and_long = window([10, 40], rounds=10)
    np.testing.assert_allclose(planned(short_and_long).ravel(), [2.0, 8.0], atol=1e-6)
    np.testing.assert_allclose(planned(short_and_long, 1e3).ravel(), [0.0, 10.0], atol=1e-6)


def test_each_type_goes_to_who_gains_most_by_it() -> None:
    found = planned(window([10, 10], speed=[[1.0, 0.1], [1.0, 0.9]], capacity=[1, 1]))
    np.testing.assert_allclose(found, [[10, 0], [0, 10]], atol=1e-6)


windows = st.lists(
    st.tuples(
        st.floats(1, 1e6), st.sampled_from([1, 2, 4, 8]), st.floats(0, 50), st.floats(0.5, 50),
        st.lists(st.sampled_from([0.0, 0.3, 0.7, 1.0]), min_size=2, max_size=2),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=80)
@given(windows, st.lists(st.integers(1, 16), min_size=2, max_size=2), st.sampled_from([0.0, 0.1, 10.0]))
def test_plans_fit_the_window(rows: list[tuple], capacity: list[int], makespan_weight: float) -> None:
    weight, gpus, done, left, speed = (np.array(column, float) for column in zip(*rows, strict=True))
    found = planned(Window(weight, gpus, done, left, speed, np.array(capacity, float), 20), makespan_weight)
    assert np.all(found >= -1e-6)
    assert np.all(found[speed == 0] == 0)
    assert np.all(found.sum(axis=1) <= 20 + 1e-6)
    assert np.all(gpus @ found <= 20 * np.array(capacity) + 1e-6)


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_log_is_drawn_as_lines_that_never_lie_above_it_and_rise_ever_less(a: float, b: float) -> None:
    values = log_progress(BASES, 1e-6)
    low, high = sorted((a, b))
    at = np.interp([low, (low + high) / 2, high], BASES, values)
    assert at[0] <= at[1] + 1e-9
    assert at[1] >= (at[0] + at[2]) / 2 - 1e-9
    assert low < 1e-3 or at[0] <= np.log(low) + 1e-9


def test_without_jobs_no_rounds_are_planned() -> None:
    assert planned(window([], speed=np.zeros((0, 2)), capacity=[1, 1]), 0.1).shape == (0, 2)


def test_where_no_job_weighs_anything_only_the_makespan_counts() -> None:
    weightless = window([10, 40], weight=[0, 0], rounds=10)
    np.testing.assert_allclose(planned(weightless).ravel(), [0.0, 0.0])
    np.testing.assert_allclose(planned(weightless, 0.1).ravel(), [0.0, 10.0], atol=1e-6)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"weight": [np.nan, 1]}, "weight: has entries that are negative or not finite; 0 or more is accepted"),
        ({"gpus": [-1, 1]}, "gpus: has entries that are negative or not finite"),
        ({"done": [-1, 1]}, "done: has entries that are negative or not finite"),
        ({"speed": [[np.nan], [1]]}, "speed: has entries that are negative or not finite"),
        ({"capacity": [np.inf]}, "capacity: has entries that are negative or not finite"),
        ({"capacity": [1, 1]}, r"capacity: has shape \(2,\), not \(1,\) as speed says"),
        ({"gpus": [1]}, r"gpus: has shape \(1,\), not \(2,\) as speed says"),
        ({"speed": [1, 1]}, r"speed: has shape \(2,\), not \(jobs, types\)"),
        ({"left": [np.inf, 1]}, "left: has entries that are negative or not finite"),
        ({"left": [1, 0]}, r"left\[1\]: is 0; more than 0 is accepted"),
        ({"rounds": 0}, "rounds: is 0; 1 or more is accepted"),
    ],
)
def test_a_window_that_makes_no_sense_is_refused_in_one_sentence(changed: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        window(**{"left": [10, 10], **changed})


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_makespan_weight_that_makes_no_sense_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match=f"makespan_weight: is {weight}; 0 or more is accepted"):
        planned(window([10, 10]), weight)


# --- the policy --------------------------------------------------------------------------------------------------


def rigid(id: str, gpus: int = 1, left_s: float | None = 1000.0, **view: Any) -> JobView:
    view = {"known": False, "age_s": 0.0, **view}
    expected = UNKNOWN if left_s is None else left(left_s)
    return job(id, gpus=gpus, adaptivity="rigid", expected=expected, **view)


def plan(where: str, *jobs: JobView, now: float = 0.0, **options: object) -> Plan:
    found = make_policy("shockwave", **options).plan(Round(now, ROUND_S, cluster(where), jobs))
    assert_within(found, cluster(where))
    return found


FAST = {"rates": {"a": 1.0, "b": 3.0}}
NO_GAIN = {"rates": {"a": 1.0, "b": 1.0}}
# What a round is like -> (nodes, time, jobs, what runs, who runs where types are not looked at or None: the same).
ROUNDS: dict[str, tuple[str, float, list[JobView], dict[str, str], dict[str, str] | None]] = {
    "nothing to do": ("1x a:4", 0.0, [], {}, None),
    "all fit": ("1x a:4", 0.0, [rigid("x", 2), rigid("y", 2)], {"x": "2xa", "y": "2xa"}, None),
    "the shorter of two new ones": (
        "1x a:1", 0.0, [rigid("long", left_s=9000.0), rigid("short", left_s=500.0)], {"short": "1xa"}, None,
    ),
    "one has waited for long": (
        "1x a:1", 5000.0, [rigid("waited", left_s=1000.0), rigid("new", left_s=500.0, submitted_s=5000.0)],
        {"waited": "1xa"}, None,
    ),
    "left-over GPUs go to who has most to do": (
        "1x a:3", 0.0, [rigid("x", 2, 200.0), rigid("y", 2, 200.0), rigid("small", 1, 9e6)],
        {"small": "1xa", "x": "2xa"}, None,
    ),
    "who gains by the fast type has it": (
        "1x a:1, 1x b:1", 0.0, [rigid("same", **NO_GAIN), rigid("gains", **FAST)],
        {"gains": "1xb", "same": "1xa"}, {"gains": "1xb", "same": "1xa"},
    ),
    "one that cannot run anywhere": (
        "1x a:1", 0.0, [rigid("never", rates={"c": 1.0}), rigid("x")], {"x": "1xa"}, None,
    ),
    "one that may not be stopped": (
        "1x a:1", 0.0, [rigid("pinned", left_s=9e5, preemptible=False, placement=on("a", n0=1)), rigid("x")],
        {"pinned": "1xa"}, None,
    ),
    "one that may not be stopped and has more than it asks for": (
        "1x a:4", 0.0, [job("pinned", min_gpus=1, preemptible=False, placement=on("a", n0=3)), rigid("x")],
        {"pinned": "3xa", "x": "1xa"}, None,
    ),
    "nobody knows how long": ("1x a:1", 0.0, [rigid("x", left_s=None)], {"x": "1xa"}, None),
}  # fmt: skip


@pytest.mark.parametrize("what", ROUNDS)
def test_a_round(what: str) -> None:
    where, now, jobs, expected, blind = ROUNDS[what]
    assert held(plan(where, *jobs, now=now)) == expected
    assert held(plan(where, *jobs, now=now)) == expected  # the same round has the same plan
    without = held(plan(where, *jobs, now=now, type_blind=True))
    assert set(without) == set(expected if blind is None else blind)


def test_the_plan_is_followed_until_the_window_ends_or_a_job_comes() -> None:
    policy = make_policy("shockwave", future_rounds=4, fairness_power=0.0)
    jobs = [rigid("x", left_s=1000.0), rigid("y", left_s=1000.0)]
    runs = []
    for i in range(4):
        found = policy.plan(Round(i * ROUND_S, ROUND_S, cluster("1x a:1"), jobs))
        runs += list(found.placements)
        jobs = [replace(j, placement=found.placements.get(j.id)) for j in jobs]
    # A fifth of each is two rounds of its ten.
    assert sorted(runs) == ["x", "x", "y", "y"]
    assert runs in (["x", "x", "y", "y"], ["y", "y", "x", "x"])


def test_fairness_is_one_for_a_new_job_and_grows_while_it_waits() -> None:
    def rho(now: float) -> float:
        round = Round(now, ROUND_S, cluster("1x a:1"), [rigid("x"), rigid("y")])
        return float(fairness(round, *work_s(round), np.full(2, 2.0))[0])

    # 1000 s of work, two jobs on one GPU: alone on half of it, 2000 s.
    assert [rho(now) for now in (0.0, 1000.0, 2000.0)] == [1.0, 1.5, 2.0]


def test_out_of_time_jobs_run_by_their_fairness_and_the_plan_says_so() -> None:
    jobs = [rigid(str(i), 1, 1000.0 + i) for i in range(60)]
    found = plan("2x a:8", *jobs, time_limit_s=1e-9)
    assert len(found.placements) == 16
    assert "not solved in time" in found.notes[0].text


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"log_bases": (0.0, 0.5)}, "log_bases must rise from 0 to 1"),
        ({"log_origin": 0.3}, "log_origin must be below"),
        ({"future_rounds": 0}, "policy shockwave: future_rounds: 0 is not accepted"),
    ],
)
def test_a_bad_option_is_refused_in_one_sentence(options: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make_policy("shockwave", **options)


traces = st.lists(
    st.tuples(st.integers(0, 2000), st.integers(1, 8), st.integers(1, 1500)), min_size=1, max_size=12
)


@settings(max_examples=25)
@given(traces, st.booleans(), st.booleans())
def test_every_job_ends_and_no_gpu_is_held_twice(
    rows: list[tuple[int, int, int]], blind: bool, tells: bool
) -> None:
    jobs = [TraceJob(str(i), *row) for i, row in enumerate(sorted(rows))]
    where, policy = cluster_of("2x t4:4, 1x a100:8"), make_policy("shockwave", type_blind=blind)

    class Watched:
        def plan(self, round: Round) -> Plan:
            found = policy.plan(round)
            assert_within(found, where)
            assert found.placements
            return found

    world = FixedLengthWorld(Workload.of(jobs), lambda gpus: 30.0, Lengths.TOLD if tells else Lengths.UNKNOWN)
    outcome = Engine(world, where, Watched(), Timing(60.0)).run()
    assert np.isfinite(outcome.finished_s).all()
