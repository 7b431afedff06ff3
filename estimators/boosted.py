"""Gradient-boosted trees: one thin layer over LightGBM, whose text form stands in our JSON. Pure.

A fit depends on its rows, its settings and its seed alone: one thread, and LightGBM's deterministic mode.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import lightgbm

Floats = NDArray[np.float64]
# Settings that a caller may not change: they make a fit repeatable, and quiet.
_ALWAYS: Mapping[str, Any] = {
    "verbosity": -1, "num_threads": 1, "deterministic": True, "force_row_wise": True,
}  # fmt: skip


@cache
def _library() -> Any:
    """Return LightGBM, which is loaded when trees are first used. Raises ValueError where it cannot be."""
    try:
        import lightgbm
    except (ImportError, OSError) as error:  # the second: a system library is missing
        raise ValueError(f"trees: LightGBM cannot be loaded: {error}") from None
    lightgbm.register_logger(logging.getLogger(__name__))  # what it has to say stands in the errors that it raises
    return lightgbm


@dataclass(frozen=True)
class Test:
    """A test that rows of a leaf pass: at most `threshold`, or, if not `left`, above it."""

    feature: int
    threshold: float
    left: bool
    missing: bool  # whether rows without the feature pass

    def passed(self, values: Floats) -> NDArray[np.bool_]:
        """Return (rows,) whether values of its feature pass."""
        return np.where(np.isnan(values), self.missing, (values <= self.threshold) == self.left)


@dataclass(frozen=True)
class Leaf:
    """A leaf: what it adds to the forecast of rows that pass all of its tests."""

    tests: tuple[Test, ...]
    value: float


def _test(node: Mapping[str, Any], left: bool) -> Test:
    threshold = float(node["threshold"])
    # Where no row of the fit lacked the feature, LightGBM takes a missing one for 0.
    missing_left = bool(node["default_left"]) if node["missing_type"] == "NaN" else threshold >= 0.0
    return Test(int(node["split_feature"]), threshold, left, missing_left == left)


@dataclass(frozen=True)
class Trees:
    """A fitted ensemble, as LightGBM's text.

    Raises:
        ValueError: for a text that LightGBM did not write; when it is first used.
    """

    text: str

    @cached_property
    def _booster(self) -> lightgbm.Booster:
        library = _library()
        try:
            return library.Booster(model_str=self.text)
        except library.basic.LightGBMError as error:
            raise ValueError(f"trees: are no LightGBM model: {error}") from None

    def checked(self, features: int) -> Trees:
        """Return it. Raise ValueError, in one sentence, if it is torn or of another number of features."""
        if not isinstance(self.text, str) or not self.text.startswith("tree\n"):
            raise ValueError("trees: are no LightGBM model")
        if (has := self._booster.num_feature()) != features:
            raise ValueError(f"trees: have {has} features, and {features} are accepted")
        return self

    def predict(self, rows: Floats) -> Floats:
        """Return (rows,) predictions; `rows`: (rows, features), nan where a feature is not known."""
        return np.asarray(self._booster.predict(rows, num_threads=1), float)

    def leaves(self) -> list[Leaf]:
        """Return the leaves of all trees. A forecast is the sum of the values of those that a row reaches."""
        found = list[Leaf]()
        for tree in self._booster.dump_model()["tree_info"]:
            ahead: list[tuple[Mapping[str, Any], tuple[Test, ...]]] = [(tree["tree_structure"], ())]
            while ahead:
                node, tests = ahead.pop()
                if "split_feature" not in node:
                    found.append(Leaf(tests, float(node["leaf_value"])))
                    continue
                for side, left in (("left_child", True), ("right_child", False)):
                    ahead.append((node[side], (*tests, _test(node, left))))
        return found


def fit(
    rows: Floats,
    target: Floats,
    *,
    settings: Mapping[str, Any],
    trees: int,
    seed: int,
    categorical: Sequence[int] = (),
    weights: Floats | None = None,
) -> Trees:
    """Fit `trees` trees.

    Args:
        rows: (rows, features), nan where a feature is not known.
        target: (rows,).
        settings: of LightGBM, as `objective` and `num_leaves`.
        categorical: positions of features that are codes, whole numbers from 0.
        weights: (rows,) of the rows; None: all alike.

    Raises:
        ValueError: for no rows, and for a target with NaN or infinity.
    """
    if not len(rows) or not np.isfinite(target).all():
        raise ValueError(f"trees: {len(rows)} rows with a target are too few, or a target is not finite")
    library = _library()
    data = library.Dataset(
        rows, target, weight=weights, categorical_feature=list(categorical), free_raw_data=True
    )  # fmt: skip
    booster = library.train({**settings, **_ALWAYS, "seed": seed}, data, num_boost_round=trees)
    return Trees(booster.model_to_string())
