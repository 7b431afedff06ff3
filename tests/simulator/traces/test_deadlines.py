"""Deadlines by the rule of the paper, for any trace (spec, check C3), and speeds by the number of nodes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from coadapt.simulator.traces.deadlines import AWKWARD, DeadlineRule, rule_of, with_deadlines
from coadapt.simulator.traces.node_speeds import read_node_speeds
from coadapt.simulator.traces.workload import TraceJob, Workload

JOBS = Workload.of(TraceJob(str(i), 60.0 * i, gpus=(1, 2, 4, 8)[i % 4], duration_s=600.0 + i) for i in range(1000))


def test_the_first_deadline_is_between_the_multiples_of_a_jobs_length() -> None:
    made = with_deadlines(JOBS, DeadlineRule(strict=0.5, soft=0.3), 1)
    first = [
        rewards.by_s[0] / took for rewards, took in zip(made.rewards, made.duration_s, strict=True) if rewards
    ]
    assert 1.1 <= min(first) < 1.15 < 1.9 < max(first) <= 2.0
    steps = np.array([0 if rewards is None else len(rewards.by_s) for rewards in made.rewards])
    assert [round(float((steps == count).mean()), 1) for count in (1, 4, 0)] == [0.5, 0.3, 0.2]


def test_the_same_seed_gives_the_same_deadlines_and_another_one_others() -> None:
    one, same, other = (with_deadlines(JOBS, DeadlineRule(), seed).rewards for seed in (1, 1, 2))
    assert one == same != other


@pytest.mark.parametrize(("density", "count"), [(0.8, 800), (1.0, 1000), (1.6, 1600), (2.5, 2500)])
def test_density_removes_jobs_or_has_some_come_again(density: float, count: int) -> None:
    made = with_deadlines(JOBS, DeadlineRule(density=density), 0)
    assert len(made) == len(set(made.ids)) == count
    assert (np.diff(made.submit_s) >= 0).all()
    assert made.submit_s.max() <= JOBS.submit_s.max()


def test_awkward_counts_keep_the_gpu_hours() -> None:
    made = with_deadlines(JOBS, DeadlineRule(awkward=1.0), 0)
    assert set(made.gpus.tolist()) == {1, *AWKWARD}
    assert made.gpus @ made.duration_s == pytest.approx(JOBS.gpus @ JOBS.duration_s)


def test_a_metric_ends_a_part_of_the_jobs_and_their_lengths_stay() -> None:
    made = with_deadlines(JOBS, DeadlineRule(metric=0.2), 1)
    plain = with_deadlines(JOBS, DeadlineRule(), 1)
    part = np.mean([curve is not None for curve in made.curves])
    assert part == pytest.approx(0.2, abs=0.03)
    assert {curve.name for curve in made.curves if curve} == {"power", "levels", "jumps", "loss"}
    assert all(curve.reached <= len(curve.values) for curve in made.curves if curve)
    assert made.duration_s.tolist() == plain.duration_s.tolist()
    assert made.rewards == plain.rewards


def test_a_rule_is_read_back_from_its_own_words() -> None:
    rule = DeadlineRule(strict=0.7, soft=0.2, awkward=0.1, metric=0.2)
    assert rule_of(rule.shown) == rule


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("strict=0.7,soft=0.4", "strict and soft add up to 1.1; at most 1 is accepted"),
        ("metric=1.5", "metric: 1.5 is not accepted, must be from 0 to 1"),
        ("strict=2", "strict: 2.0 is not accepted, must be from 0 to 1"),
        ("least=3", "least 3.0 and most 2.0 must be above 0, and rise"),
        ("density=0", "density: 0.0 is not accepted"),
        ("strictly=1", "'strictly=1' is not of the form NAME=VALUE; names: awkward, density"),
        ("strict=much", "strict: 'much' is not a number"),
    ],
)
def test_other_rules_are_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        rule_of(text)


def test_a_job_without_a_length_gets_no_deadline_by_it() -> None:
    with pytest.raises(ValueError, match="job a has no duration, and its deadline is a multiple of it"):
        with_deadlines(Workload.of([TraceJob("a", 0.0, application="cifar10")]), DeadlineRule(), 0)


SPEEDS = {"vgg16": {"2": {"1": 1.0, "2": 0.9}, "8": {"1": 1.0, "2": 0.5, "4": 0.25}}}


def test_a_count_that_was_not_measured_is_as_the_next_larger_one(tmp_path: Path) -> None:
    path = tmp_path / "speeds.json"
    path.write_text(json.dumps(SPEEDS))
    speeds = read_node_speeds(path)
    assert speeds.of("vgg16", 2, 1) == {1: 1.0, 2: 0.9}
    assert speeds.of("vgg16", 5, 1) == {1: 1.0, 2: 0.5, 3: 0.25, 4: 0.25, 5: 0.25}
    assert [speeds.of("vgg16", 16, 2)[nodes] for nodes in (2, 3, 4, 5, 16)] == [1.0, 0.5, 0.5, 0.25, 0.25]
    assert speeds.of("vgg16", 1, 1) == speeds.of("other", 4, 1) == {}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[", "is no JSON"),
        ("{}", "has no models with speeds by GPUs and nodes"),
        ('{"m": 3}', "m: has no speeds by GPUs and nodes"),
        ('{"m": {"x": {}}}', "m: 'x' is no number of GPUs with speeds by nodes"),
        ('{"m": {"2": {"1": 1.0, "2": 0}}}', "m: 2 GPUs: '2': 0 is no speed above 0 by nodes"),
        ('{"m": {"2": {"2": 0.5}}}', "m: 2 GPUs: the speed on one node is not 1"),
    ],
)
def test_files_of_other_forms_are_refused(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "speeds.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=told):
        read_node_speeds(path)
