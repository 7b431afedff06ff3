"""Fits of a task: ours, and peers at their defaults on the same rows and features."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from coadapt.estimators.interpretable import additive_fit
from coadapt.estimators.interpretable.additive_fit import AdditiveSettings
from coadapt.estimators.interpretable.table import Floats, Table

PEERS = ("forest", "lightgbm", "xgboost", "perceptron")
Said = Callable[[Floats], Floats]


def additive(table: Table, settings: AdditiveSettings, seed: int = 0) -> Said:
    """Return predictions of an additive model; of several classes by one against the rest."""
    if len(table.classes) <= 2:
        model = additive_fit.fit(table, settings, seed=seed, tails=None)
        return model.classified if table.classes else model.predict
    each = [
        additive_fit.fit(
            replace(table, target=(table.target == code).astype(float), classes=("other", name)),
            settings,
            seed=seed,
        )
        for code, name in enumerate(table.classes)
    ]
    return lambda rows: np.argmax([model.scores(rows) for model in each], axis=0).astype(float)


def peer(name: str, table: Table, seed: int = 0) -> Said:
    """Return predictions of a peer. The perceptron gets scaled features without gaps, else it learns nothing."""
    import lightgbm
    import xgboost
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    by_class = bool(table.classes)
    kinds: dict[str, Any] = {
        "forest": RandomForestClassifier if by_class else RandomForestRegressor,
        "lightgbm": lightgbm.LGBMClassifier if by_class else lightgbm.LGBMRegressor,
        "xgboost": xgboost.XGBClassifier if by_class else xgboost.XGBRegressor,
        "perceptron": MLPClassifier if by_class else MLPRegressor,
    }
    more = {"lightgbm": {"verbosity": -1, "n_jobs": 2}, "forest": {"n_jobs": 2}, "xgboost": {"n_jobs": 2}}
    made = kinds[name](random_state=seed, **more.get(name, {}))
    if name == "perceptron":
        made = make_pipeline(SimpleImputer(strategy="median"), StandardScaler(), made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.fit(table.rows, table.target.astype(int) if by_class else table.target)

    def said(rows: Floats) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(made.predict(rows), float)

    return said
