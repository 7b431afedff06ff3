"""When jobs could start: worth and use of GPUs over what is not known of their lengths."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.core.expected import UNKNOWN, Expected, ExpectedSource
from coadapt.core.rewards import Rewards
from coadapt.policies.leases.starts import NEVER, Slots, Waiting, chosen_starts, lengths_of

SLOTS = Slots.of(60.0, np.array([1, 1, 2], np.int64))  # 0 to 60, to 120, to 240 s


def exactly(seconds: float) -> Expected:
    return Expected.exactly(seconds, ExpectedSource.TRACE)


def test_lengths_have_the_mean_and_the_band_that_is_expected() -> None:
    assert lengths_of(exactly(90.0), 5.0).tolist() == [90.0]
    assert lengths_of(UNKNOWN, 5.0).tolist() == [5.0]
    found = lengths_of(Expected(110.0, 50.0, 200.0, ExpectedSource.EARLIER_RUNS), 5.0)
    assert found.mean() == pytest.approx(110.0)
    assert ((found >= 50.0) & (found <= 200.0)).mean() == pytest.approx(0.8, abs=0.11)
    zero = Expected(10.0, 0.0, 20.0, ExpectedSource.EARLIER_RUNS)
    assert lengths_of(zero, 5.0).tolist() == [10.0], "a band from 0 is that of no log-normal length"


def test_a_slot_is_used_as_far_as_a_job_runs_in_it() -> None:
    used = SLOTS.used(np.array([0.0, 60.0]), np.array([90.0]))
    assert used == pytest.approx(np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.25]]))
    mean = SLOTS.used(np.zeros(1), np.array([60.0, 240.0]))
    assert mean == pytest.approx(np.array([[1.0, 0.5, 0.5]])), "one of two lengths is over after a minute"


def test_worth_is_the_mean_over_lengths_and_falls_with_the_start() -> None:
    rewards = Rewards.of([(100.0, 100.0), (200.0, 40.0)])
    assert SLOTS.worth(rewards, 0.0, np.array([100.0])).tolist() == [100.0, 40.0, 0.0]
    assert SLOTS.worth(rewards, 40.0, np.array([100.0])).tolist() == [40.0, 40.0, 0.0], "of which 40 s are gone"
    assert SLOTS.worth(rewards, 0.0, np.array([90.0, 150.0])).tolist() == [70.0, 20.0, 0.0]


def starts(*jobs: Waiting, free: float = 8.0) -> list[int]:
    found = chosen_starts(list(jobs), SLOTS, {"a": np.full(3, free)}, gap=0.0, time_limit_s=5.0)
    assert found.objective <= found.bound + 1e-6
    return list(found.slot.tolist())


def waiting(gpus: int, seconds: float, by_s: float, worth: float = 100.0) -> Waiting:
    return Waiting(gpus, 0.0, Rewards.strict(by_s, worth), {"a": np.array([seconds])})


def test_all_start_now_where_they_fit_and_else_in_the_order_that_is_worth_most() -> None:
    assert starts(waiting(4, 60, 60), waiting(4, 60, 500)) == [0, 0]
    assert starts(waiting(8, 60, 60), waiting(8, 60, 121)) == [0, 1]
    assert starts(waiting(8, 60, 121), waiting(8, 60, 60)) == [1, 0]
    assert starts(waiting(8, 60, 60, 10.0), waiting(8, 60, 60, 30.0)) == [NEVER, 0]


def test_a_job_that_is_over_early_in_the_mean_leaves_its_part_to_others() -> None:
    """One of 8 GPUs that is over in a minute in half of all cases takes four of them in the minute after."""
    unsure = Waiting(8, 0.0, Rewards.strict(1000.0), {"a": np.array([60.0, 120.0])})
    assert starts(unsure, waiting(4, 60, 60)) == [1, 0]
    assert starts(unsure, waiting(4, 120, 181), free=12.0) == [0, 0]
