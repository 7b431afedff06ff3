"""What worlds draw, and how far apart their rounds are."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from coadapt.simulator.forecasting.arrivals import arrivals
from coadapt.simulator.forecasting.clock import WideningRounds
from coadapt.simulator.forecasting.draws import STRATA, normal, uniform
from coadapt.simulator.forecasting.truth import stretched

from tests.support.live_states import NOW_S, past
from tests.support.rounds import left


def test_eight_worlds_cover_the_distribution_evenly_and_the_same_each_time() -> None:
    drawn = [uniform("job-1", world) for world in range(1, STRATA + 1)]
    assert sorted(int(one * STRATA) for one in drawn) == list(range(STRATA))
    assert drawn == [uniform("job-1", world) for world in range(1, STRATA + 1)]
    assert drawn != [uniform("job-2", world) for world in range(1, STRATA + 1)]
    assert normal("job-1", 0) == 0.0


def test_two_jobs_draw_apart_from_each_other() -> None:
    one, other = ([normal(name, world) for world in range(1, 401)] for name in ("a", "b"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_jobs_of_the_past_come_again_as_often_as_they_came() -> None:
    crowd = past(14 * 24, every_s=3600.0)
    counts = [len(arrivals(crowd, NOW_S, NOW_S + 48 * 3600.0, world)) for world in range(8)]
    assert 40 <= np.mean(counts) <= 56
    first = arrivals(crowd, NOW_S, NOW_S + 48 * 3600.0, 1)
    times = [job.submitted_s for job, _ in first]
    assert all(NOW_S < at <= NOW_S + 48 * 3600.0 for at in times)
    # A moment later the same jobs are to come.
    later = arrivals(crowd, NOW_S + 5.0, NOW_S + 48 * 3600.0, 1)
    assert [job.submitted_s for job, _ in later] == [at for at in times if at > NOW_S + 5.0]


def test_nobody_comes_where_nobody_came() -> None:
    assert arrivals([], NOW_S, NOW_S + 3600.0, 1) == []


def test_a_band_is_reached_at_the_deviation_of_its_ends() -> None:
    z = NormalDist().inv_cdf(0.9)
    expected = left(100.0)
    assert stretched(expected, z) == 1.0
    assert stretched(expected, 0.0) == 1.0


class Idle:
    """A run in which nothing happens."""

    def __init__(self, now_s: float) -> None:
        self.now_s, self.active = now_s, 1

    def next_arrival_s(self) -> float:
        return np.inf

    def asked_again_s(self) -> float:
        return np.inf

    def expected_end_s(self) -> float:
        return np.inf

    def boundaries_s(self) -> np.ndarray:
        return np.zeros(0)

    def pass_until(self, until_s: float, *, or_change: bool = False) -> bool:
        self.now_s = until_s
        return False


def test_rounds_are_as_live_at_first_and_rarer_far_ahead() -> None:
    clock, near, far = WideningRounds(0.0, 60.0, 0.5, near=20), Idle(600.0), Idle(86_400.0)
    clock.to_round(near)
    clock.to_round(far)
    assert near.now_s == 660.0
    assert far.now_s == 86_400.0 + 86_400.0 / 20
