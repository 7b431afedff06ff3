"""The Sharing Score: by the rule, by the tree that ships, and for jobs of which nothing is known."""

from pathlib import Path

import numpy as np
import pytest
from coadapt.estimators.affinity import pair_speeds, sharing
from coadapt.estimators.affinity.labels import Thresholds
from coadapt.estimators.affinity.pair_table import PairTable
from coadapt.estimators.affinity.uses import UNKNOWN
from coadapt.estimators.interpretable import model_file
from coadapt.estimators.interpretable.model_file import Kept


def jobs(*gpu_utils: float) -> np.ndarray:
    return np.array([[util, np.nan, np.nan, np.nan] for util in gpu_utils])


def test_default_tells_light_from_heavy_jobs() -> None:
    assert sharing.default().of(jobs(0.05, 0.45, 0.95)).tolist() == [0, 1, 2]


def test_job_of_which_nothing_is_known_is_jumbo() -> None:
    assert sharing.default().of(UNKNOWN[None]).tolist() == [2]


def test_default_is_what_its_speeds_say() -> None:
    utils = jobs(*np.linspace(0, 1, 101))
    again = sharing.fit_to_speeds(pair_speeds.default())
    np.testing.assert_array_equal(again.of(utils), sharing.default().of(utils))


def test_lower_thresholds_make_more_jobs_tiny() -> None:
    utils = jobs(*np.linspace(0, 1, 101))
    strict, mild = (
        sharing.fit_to_speeds(pair_speeds.default(), Thresholds(*at)) for at in ((0.85, 0.95), (0.75, 0.90))
    )
    assert (mild.of(utils) <= strict.of(utils)).all()
    assert (mild.of(utils) < strict.of(utils)).any()


def test_tree_of_measured_pairs_is_pruned_to_what_tells_them_apart() -> None:
    utils = np.repeat(np.linspace(0.05, 1, 20), 3)
    speeds = np.tile(1.05 - 0.3 * utils[:, None], (1, len(utils)))
    uses = np.column_stack([utils, np.random.default_rng(0).uniform(size=(len(utils), 2)), utils > 2])
    scores = sharing.fit_to_pairs(PairTable(tuple(map(str, range(len(utils)))), speeds, uses))
    assert scores.tree.leaves == 3
    assert scores.of(np.array([[0.1, 0.9, 9.0, 0.0], [0.5, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])).tolist() == [
        0,
        1,
        2,
    ]
    steps, answer = scores.explain(uses[-1])
    assert all("gpu_util" in step for step in steps)
    assert "jumbo" in answer


def test_bad_labels_and_other_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be 0, 1 or 2"):
        sharing.fit(jobs(0.1, 0.2), np.array([0, 3]))
    path = tmp_path / "model.json"
    model_file.write(path, Kept(pair_speeds.default().model))
    with pytest.raises(ValueError, match="an additive model, and a tree is accepted"):
        sharing.read(path)
