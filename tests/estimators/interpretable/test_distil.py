"""Distillation: rules come back as rules, biased teachers are followed, a student's own states are collected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from coadapt.estimators.interpretable import additive_fit, tree_fit
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.distil import Policy, Visited, distilled, distilled_policy
from coadapt.estimators.interpretable.table import Floats, Table, named
from coadapt.estimators.interpretable.tree import TreeModel

from tests.support.interpretable import table

FEATURES = named(["place", "speed"])
ACTIONS = ("left", "stay", "right")


def three_rules(states: Floats) -> Floats:
    """Go right where it is far left; left where it is far right; else brake."""
    place, speed = states[:, 0], states[:, 1]
    return np.where(place < -0.5, 2.0, np.where(place > 0.5, 0.0, np.where(speed > 0, 0.0, 2.0)))


@dataclass(frozen=True)
class Cart:
    """A cart on a line that is to stay near the middle; a run is worth minus its mean distance."""

    weighs: bool = False

    def run(self, policy: Policy | None, seed: int) -> Visited:
        random = np.random.default_rng(seed)
        state, states = np.zeros(2), []
        for step in range(300):
            state = random.uniform(-1, 1, 2) if step % 5 == 0 else state
            states.append(state)
            action = (policy or three_rules)(state[None])[0]
            speed = 0.9 * state[1] + 0.1 * (action - 1) + 0.02 * random.standard_normal()
            state = np.array([state[0] + 0.1 * speed, speed])
        visited = np.array(states)
        weights = 1 + np.abs(visited[:, 0]) if self.weighs else None
        return Visited(visited, -float(np.abs(visited[:, 0]).mean()), three_rules(visited), weights)


def fit(of: Table, weights: Floats | None) -> TreeModel:
    return tree_fit.fit(of, 1e-4, weights=weights)


@pytest.mark.parametrize("weighs", [False, True])
def test_pr_15_three_rules_come_back_and_are_worth_as_much(weighs: bool) -> None:
    found = distilled_policy(Cart(weighs), FEATURES, fit, rounds=4, runs=8, classes=ACTIONS)
    fresh = np.random.default_rng(99).uniform(-1, 1, (5000, 2))
    assert (found.student.predict(fresh) == three_rules(fresh)).mean() >= 0.99
    teacher = np.mean([Cart().run(None, 500 + n).returned for n in range(5)])
    student = np.mean([Cart().run(found.student.predict, 500 + n).returned for n in range(5)])
    assert student == pytest.approx(teacher, rel=0.01)
    assert found.student.leaves <= 16


def test_pr_15_collecting_lowers_no_agreement_on_visited_states() -> None:
    rounds = distilled_policy(Cart(), FEATURES, fit, rounds=5, runs=2, classes=ACTIONS).rounds
    assert [one.rows for one in rounds] == [600 * (n + 1) for n in range(5)]
    assert rounds[-1].agreement >= rounds[0].agreement
    assert rounds[-1].agreement > 0.98


def test_a_biased_teacher_is_followed_not_the_truth() -> None:
    of = table(400)

    def biased(rows: Floats) -> Floats:
        return np.nan_to_num(rows[:, 0]) + 5.0

    student = distilled(biased, of, lambda labelled: tree_fit.fit(labelled))
    assert student.predict(of.rows) == pytest.approx(biased(of.rows))
    quick = AdditiveSettings(bins=64, interactions=0, bags=1, rounds=500)
    summed = distilled(biased, of, lambda labelled: additive_fit.fit(labelled, quick, tails=None))
    assert (
        np.abs(summed.predict(of.rows) - biased(of.rows)).mean() < 0.1 < np.abs(of.target - biased(of.rows)).mean()
    )


def test_a_teacher_that_says_one_thing_and_rounds_of_none_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^hours: all 50 rows are 1; two different values are accepted$"):
        distilled(lambda rows: np.ones(len(rows)), table(50), lambda labelled: tree_fit.fit(labelled))
    with pytest.raises(ValueError, match=r"^rounds: 0 is not accepted, must be a whole number of at least 1$"):
        distilled_policy(Cart(), FEATURES, fit, rounds=0)
