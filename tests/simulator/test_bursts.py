"""Made-up bursts are as the paper says: lengths, widths and loads (check A11)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coadapt.simulator.bursts import BASE, VARIANTS, Bursts, bursts, teams_file


@pytest.mark.parametrize(
    ("name", "minutes"),
    [("base", 151.26), ("more_skewed", 151.42), ("less_skewed", 151.58), ("more_wide", 151.26)],
)
def test_variants_of_lengths_have_the_same_mean(name: str, minutes: float) -> None:
    assert VARIANTS[name].mean_min == pytest.approx(minutes, abs=0.01)
    drawn = bursts(VARIANTS[name].with_length(400.0), 0)
    assert drawn.duration_s.mean() / 60 == pytest.approx(minutes, rel=0.02)


@pytest.mark.parametrize(("name", "mean"), [("base", 1.9), ("more_wide", 3.75), ("fewer_wide", 1.302)])
def test_widths_keep_their_weights(name: str, mean: float) -> None:
    drawn = bursts(VARIANTS[name].with_length(400.0), 1)
    assert drawn.gpus.mean() == pytest.approx(mean, rel=0.02)
    assert set(drawn.gpus.tolist()) <= {1, 2, 4, 8}


def test_a_team_has_the_load_that_was_drawn() -> None:
    how = Bursts(queues=3, days=2000.0, loads=(0.8, 0.8))
    drawn = bursts(how, 2)
    for team in set(drawn.virtual_clusters):
        own = np.array([one == team for one in drawn.virtual_clusters])
        load = float(drawn.gpus[own] @ drawn.duration_s[own]) / (86_400 * how.days * how.gpus)
        assert load == pytest.approx(0.8, rel=0.06)


def test_a_seed_draws_the_same_jobs_and_another_one_others() -> None:
    one, same, other = bursts(BASE, 3), bursts(BASE, 3), bursts(BASE, 4)
    np.testing.assert_array_equal(one.submit_s, same.submit_s)
    assert len(other) != len(one) or (other.submit_s != one.submit_s).any()
    assert not one.preemptible.any()
    assert "team-3: {guarantee: {t4: 8}}" in teams_file(BASE, "t4")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"queues": 0}, "queues: 0 must be at least 1"),
        ({"gpus": 4}, "gpus: 4 must be at least 8, the widest job"),
        ({"load": 0}, "load, days: 0 and 3.0 must be more than 0, and finite"),
        ({"widths": (1, 1)}, "weights of 1, 2, 4 and 8 GPUs are accepted"),
        ({"durations": ((5, 5, 1),)}, "that rise are accepted"),
    ],
)
def test_numbers_that_cannot_be_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Bursts(**values)
