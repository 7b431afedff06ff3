"""Distillation of what the text distils, in small: a player of films that chooses rates by a link."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.interpretable import tree_fit
from coadapt.estimators.interpretable.distil import Policy, Visited, distilled_policy
from coadapt.estimators.interpretable.table import Floats, Table, named
from coadapt.estimators.interpretable.tree import TreeModel

RATES = np.array([0.3, 0.75, 1.2, 1.85, 2.85, 4.3])  # Mbit/s, of the text's film
CHUNKS, CHUNK_S, REBUFFERING = 48, 4.0, 4.3
STATE = named(["buffer_s", "link_mbps", "before_mbps", "left"])
ACTIONS = tuple(f"{rate:g} Mbit/s" for rate in RATES)


def quality(rates: Floats, stalls_s: Floats, rebuffering: float) -> float:
    """Return the linear quality of equation 5.4: rates, less stalls, less changes from one chunk to the next."""
    return float(rates.sum() - rebuffering * stalls_s.sum() - np.abs(np.diff(rates)).sum())


def careful(states: Floats) -> Floats:
    """Take the highest rate that comes before the buffer is half empty; the lowest where none does."""
    comes_s = CHUNK_S * RATES / np.maximum(states[:, 1:2], 1e-6)
    return np.maximum((comes_s <= np.maximum(states[:, :1] / 2, 1.0)).sum(axis=1) - 1, 0).astype(float)


class Player:
    """A film of 48 chunks over a link that wanders."""

    def run(self, policy: Policy | None, seed: int) -> Visited:
        random, states, stalls = np.random.default_rng(seed), [], []
        link, buffer_s, rate, chosen = random.uniform(0.5, 5.0), CHUNK_S, RATES[0], []
        for chunk in range(CHUNKS):
            state = np.array([buffer_s, link, rate, CHUNKS - chunk])
            rate = RATES[int((policy or careful)(state[None])[0])]
            link = float(np.clip(link * np.exp(0.2 * random.standard_normal()), 0.3, 8.0))
            took_s = CHUNK_S * rate / link
            states.append(state)
            chosen.append(rate)
            stalls.append(max(took_s - buffer_s, 0.0))
            buffer_s = min(max(buffer_s - took_s, 0.0) + CHUNK_S, 60.0)
        visited = np.array(states)
        return Visited(visited, quality(np.array(chosen), np.array(stalls), REBUFFERING), careful(visited))


def test_pr_12_the_hand_worked_quality() -> None:
    found = quality(np.array([0.3, 0.75, 0.75]), np.array([1.0, 0.0, 0.0]), REBUFFERING)
    assert found == pytest.approx(1.8 - 4.3 - 0.45) == pytest.approx(-2.95)


def test_a_small_tree_plays_films_as_well_as_its_teacher() -> None:
    def fit(of: Table, weights: Floats | None) -> TreeModel:
        return tree_fit.fit(of, 2e-4, weights=weights)

    found = distilled_policy(Player(), STATE, fit, rounds=3, runs=60, classes=ACTIONS)
    fresh = range(5000, 5100)
    student, teacher = (
        np.mean([Player().run(policy, seed).returned for seed in fresh])
        for policy in (found.student.predict, None)
    )
    assert student >= teacher - 0.02 * abs(teacher)
    assert found.student.leaves <= 120
