"""Tiny, medium and jumbo: the rule, its thresholds, and whose speed counts (LU-01)."""

import numpy as np
import pytest
from coadapt.estimators.affinity.labels import Thresholds, Whose, labels, mean_speeds
from coadapt.estimators.affinity.pair_table import PairTable


def test_labels_go_by_both_thresholds() -> None:
    assert labels(np.array([0.97, 0.951, 0.90, 0.86, 0.84, 0.50])).tolist() == [0, 0, 1, 1, 2, 2]
    assert labels(np.array([0.91, 0.80, 0.74]), Thresholds(0.75, 0.90)).tolist() == [0, 1, 2]
    assert labels(np.array([0.85, 0.95, np.nan])).tolist() == [1, 1, 2]


@pytest.mark.parametrize(("medium", "tiny"), [(0.96, 0.95), (0.0, 0.9), (0.8, 1.1), (float("nan"), 0.9)])
def test_thresholds_out_of_order_are_refused(medium: float, tiny: float) -> None:
    with pytest.raises(ValueError, match=r"thresholds: medium .* ascending order"):
        Thresholds(medium, tiny)


def test_whose_speed_is_averaged_is_an_option() -> None:
    speeds = np.array([[0.8, 0.6, np.nan], [1.0, 0.9, np.nan], [np.nan, np.nan, np.nan]])
    pairs = PairTable(("a", "b", "c"), speeds, np.full((3, 4), np.nan))
    np.testing.assert_allclose(mean_speeds(pairs, Whose.OWN), [0.7, 0.95, np.nan])
    np.testing.assert_allclose(mean_speeds(pairs, Whose.PARTNERS), [0.9, 0.75, np.nan])
    np.testing.assert_allclose(mean_speeds(pairs, Whose.BOTH), [0.8, 0.85, np.nan])
