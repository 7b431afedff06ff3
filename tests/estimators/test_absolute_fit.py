"""Sums of least absolute errors: the same as the trees they are made of, missing values and pairs included."""

from typing import Any

import numpy as np
import pytest
from coadapt.estimators import absolute_fit, boosted
from coadapt.estimators.absolute_fit import AbsoluteSettings
from coadapt.estimators.interpretable.table import Table, named

SETTINGS = AbsoluteSettings(trees=60, least_rows=20)


def rows_and_target(count: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    rows = random.uniform(0, 1, (count, 4))
    rows[random.uniform(size=count) < 0.2, 1] = np.nan
    target = 3 * rows[:, 0] + np.where(np.isnan(rows[:, 1]), 2.0, rows[:, 1]) + 4 * (rows[:, 0] > 0.5) * rows[:, 2]
    return rows, target + random.standard_cauchy(count) * 0.1


def test_sum_says_what_its_trees_say(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, target = rows_and_target()
    kept = list[boosted.Trees]()
    fit = boosted.fit

    def noting(*args: Any, **more: Any) -> boosted.Trees:
        kept.append(fit(*args, **more))
        return kept[-1]

    monkeypatch.setattr(boosted, "fit", noting)
    model = absolute_fit.fit(Table(named("abcd"), rows, target), [(0, 2)], SETTINGS)
    asked = np.concatenate([rows[:500], np.random.default_rng(1).uniform(-1, 2, (500, 4))])
    np.testing.assert_allclose(model.predict(asked), kept[0].predict(asked), atol=1e-9)
    assert {term.features for term in model.terms} <= {(0,), (1,), (2,), (3,), (0, 2)}
    assert (0, 2) in {term.features for term in model.terms}
    for term in model.terms:
        assert (term.scores * term.counts).sum() == pytest.approx(0.0, abs=1e-6)


def test_errors_are_absolute_and_not_bent_by_few_wild_values() -> None:
    rows, target = rows_and_target()
    wild = target.copy()
    wild[::50] = 1e5
    model = absolute_fit.fit(Table(named("abcd"), rows, wild), [(0, 2)], SETTINGS)
    assert np.median(np.abs(model.predict(rows) - target)) < 0.5


def test_two_fits_are_the_same_and_classes_are_refused() -> None:
    rows, target = rows_and_target(500)
    table = Table(named("abcd"), rows, target)
    first, second = (absolute_fit.fit(table, [(0, 1)], SETTINGS, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.predict(rows), second.predict(rows))
    with pytest.raises(ValueError, match="has classes"):
        absolute_fit.fit(Table(named("abcd"), rows, (target > 2).astype(float), "t", ("a", "b")))
