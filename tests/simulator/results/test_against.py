"""Two runs of the same jobs, job by job: the means of speed-ups differ, and a slowdown is never hidden by them."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.simulator.results.against import MEANING_AGAINST, of_jobs


def test_the_three_means_are_what_they_say() -> None:
    found = of_jobs(np.array([10.0, 100.0, 50.0]), np.array([40.0, 100.0, 25.0]))
    assert found["speedup_mean"] == pytest.approx((4 + 1 + 0.5) / 3)
    assert found["speedup_geomean"] == pytest.approx((4 * 1 * 0.5) ** (1 / 3))
    assert found["speedup_of_means"] == pytest.approx(165 / 160)
    assert found["slowed_percent"] == pytest.approx(100 / 3)
    assert found["slowdown_total_min"] == pytest.approx(25 / 60)
    assert found["slowdown_worst_min"] == pytest.approx(25 / 60)
    assert found.keys() == MEANING_AGAINST.keys()


def test_a_second_later_is_no_slowdown_and_a_run_against_itself_is_none() -> None:
    jct_s = np.array([10.0, 20.0])
    same = of_jobs(jct_s, jct_s)
    assert (same["speedup_geomean"], same["slowed_percent"], same["speedup_p99"]) == (1.0, 0.0, 1.0)
    assert of_jobs(jct_s + 0.9, jct_s)["slowed_percent"] == 0.0
    assert of_jobs(jct_s + 1.1, jct_s)["slowed_percent"] == 100.0
