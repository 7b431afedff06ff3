"""Speeds of pairs: symmetric, never above 1, never free for want of a measurement, and additive."""

from pathlib import Path

import numpy as np
import pytest
from coadapt.estimators.affinity import pair_speeds
from coadapt.estimators.affinity.pair_speeds import LEAST_SPEED, PairSpeeds
from coadapt.estimators.affinity.pair_table import PairTable
from coadapt.estimators.affinity.uses import UNKNOWN
from coadapt.estimators.interpretable import model_file
from coadapt.estimators.interpretable.model_file import Kept


def jobs(*gpu_utils: float) -> np.ndarray:
    return np.array([[util, 0.5 * util, 4.0, 0.0] for util in gpu_utils])


def measured(count: int = 24) -> PairTable:
    """Return jobs of which the heavier of two slows the other down more than itself."""
    uses = jobs(*np.linspace(0.05, 1.0, count))
    both = uses[:, None, 0] + uses[None, :, 0]
    speeds = 1.05 - 0.2 * both - 0.1 * uses[None, :, 0]
    return PairTable(tuple(f"job{i}" for i in range(count)), speeds, uses)


def test_default_slows_pairs_down_as_they_fill_the_gpu() -> None:
    speeds = pair_speeds.default()
    light, middle, heavy = (float(speeds.of(jobs(a), jobs(a))[0]) for a in (0.2, 0.6, 1.0))
    assert light > 0.97
    assert heavy < 0.6
    assert light > middle > heavy


def test_swapping_two_jobs_swaps_their_speeds() -> None:
    speeds, a, b = pair_speeds.fit(measured()), jobs(0.2, 0.4, 0.9), jobs(0.8, 0.5, 0.1)
    np.testing.assert_array_equal(speeds.matrix(a, b).diagonal(), speeds.of(a, b))
    np.testing.assert_array_equal(speeds.both(a, b), speeds.both(b, a))
    assert speeds.of(a, b)[0] < speeds.of(b, a)[0]  # the lighter one suffers more


def test_fit_foretells_pairs_that_it_has_not_seen() -> None:
    pairs = measured()
    a, b = pairs.pairs
    seen = np.arange(len(a)) % 3 > 0
    speeds = pair_speeds.fit(pairs, np.flatnonzero(seen))
    said = speeds.of(pairs.uses[a[~seen]], pairs.uses[b[~seen]])
    assert np.abs(said - np.minimum(pairs.speeds[a[~seen], b[~seen]], 1)).mean() < 0.03


def test_no_pair_is_faster_than_apart_nor_stands_still() -> None:
    pairs = measured()
    speeds = pair_speeds.fit(pairs).matrix(pairs.uses, pairs.uses)
    assert speeds.max() <= 1
    assert speeds.min() >= LEAST_SPEED


def test_pairs_that_nobody_measured_are_foretold_and_not_free() -> None:
    table = PairTable(
        ("a", "b"), np.array([[np.nan, 1.3], [0.8, np.nan]]), np.concatenate([jobs(1.0), UNKNOWN[None]])
    )
    filled = pair_speeds.default().filled(table)
    assert filled[0, 1] == 1.0
    assert filled[1, 0] == 0.8
    assert filled[0, 0] < 0.6
    assert filled[1, 1] < 0.8


def test_prediction_is_its_sum() -> None:
    speeds = pair_speeds.fit(measured())
    told = speeds.explain(jobs(0.5)[0], jobs(0.6)[0])
    assert told.mean + sum(score for _, _, score in told.parts) == pytest.approx(told.total, abs=1e-9)
    assert told.total == pytest.approx(float(speeds.of(jobs(0.5), jobs(0.6))[0]))


def test_few_pairs_and_pairs_without_use_are_refused() -> None:
    with pytest.raises(ValueError, match="3 are too few"):
        pair_speeds.fit(measured(), [0, 1, 2])
    known = measured()
    with pytest.raises(ValueError, match="gpu_util_percent is known of no job"):
        pair_speeds.fit(PairTable(known.names, known.speeds, np.full_like(known.uses, np.nan)))


def test_model_of_other_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    model_file.write(path, Kept(pair_speeds.fit(measured()).model))
    assert isinstance(pair_speeds.read(path), PairSpeeds)
    path.write_text(path.read_text()[:-40])
    with pytest.raises(ValueError, match="is torn"):
        pair_speeds.read(path)
