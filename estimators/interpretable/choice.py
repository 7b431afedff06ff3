"""Which family serves a requirement: accuracy, time of a prediction on this machine, size, time of the fit.

Source: Primo, ATC'22, section on the choice; the text gives no rule. Ours: of those that meet what is required,
the more accurate one; a tree where both are as good.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .corrections import Model
from .model_file import size_of
from .table import Table
from .tuning import Searching, Tuned, tuned_additive, tuned_tree

AS_GOOD = 0.01  # performance within which a tree is taken, as it is simpler
_TIMED_ROWS, _TIMES = 2048, 5


@dataclass(frozen=True)
class Requirement:
    """What a model must keep to; None: anything goes.

    performance: at least, as `tuning.performance` measures it. microseconds: of one of many rows, at most.
    bytes: of its file. fit_s: of the fit with its search.

    Raises:
        ValueError: in one sentence, for a bound of 0 or less.
    """

    performance: float | None = None
    microseconds: float | None = None
    bytes: float | None = None
    fit_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("microseconds", "bytes", "fit_s"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise ValueError(f"{name}: {value} is not accepted, must be above 0")


@dataclass(frozen=True)
class Measured:
    """A family and what was measured of it."""

    family: str
    tuned: Tuned
    performance: float
    microseconds: float
    bytes: float
    fit_s: float

    def misses(self, wanted: Requirement) -> dict[str, float]:
        """Return by what factor it misses each bound, as a share above it."""
        found = {}
        if wanted.performance is not None and self.performance < wanted.performance:
            found["performance"] = (wanted.performance - self.performance) / max(abs(wanted.performance), 1e-9)
        for name in ("microseconds", "bytes", "fit_s"):
            most, has = getattr(wanted, name), getattr(self, name)
            if most is not None and has > most:
                found[name] = has / most - 1
        return found


def chosen(
    table: Table,
    wanted: Requirement | None = None,
    how: Searching | None = None,
    *,
    families: Mapping[str, Callable[[Table, Searching | None], Tuned]] | None = None,
    measure: Callable[[Model, Table], float] | None = None,
) -> Measured:
    """Fit both families, and return the one that serves best of those that meet the requirement.

    Args:
        families: fits by name. measure: microseconds of a prediction.

    Raises:
        ValueError: in one sentence that names the nearest that can be met, where none meets it.
    """
    wanted = wanted or Requirement()
    tried = list[Measured]()
    for family, fit in (families or {"tree": tuned_tree, "additive": tuned_additive}).items():
        if family == "additive" and len(table.classes) > 2:
            continue  # it tells two classes apart
        began = time.perf_counter()
        tuned = fit(table, how)
        fit_s = time.perf_counter() - began
        tried.append(
            Measured(
                family,
                tuned,
                tuned.performance,
                (measure or microseconds)(tuned.model, table),
                size_of(tuned.model),
                fit_s,
            )
        )
    return best_of(tried, wanted)


def best_of(tried: Sequence[Measured], wanted: Requirement) -> Measured:
    """Return the best of what meets a requirement. Raises ValueError where nothing does."""
    meeting = [one for one in tried if not one.misses(wanted)]
    if not meeting:
        nearest = min(tried, key=lambda one: sum(one.misses(wanted).values()))
        bounds = ", ".join(
            f"{name} {getattr(wanted, name):.3g}, and {getattr(nearest, name):.3g} can be met"
            for name in nearest.misses(wanted)
        )
        raise ValueError(f"requirement: nobody meets it; the nearest is {nearest.family}: {bounds}")
    best = max(one.performance for one in meeting)
    good = [one for one in meeting if one.performance >= best - AS_GOOD]
    return min(good, key=lambda one: (one.family != "tree", -one.performance))


def microseconds(model: Model, table: Table) -> float:
    """Return the time of one row's prediction in a batch, on this machine: the least of a few tries."""
    rows = table.rows[:_TIMED_ROWS]
    model.predict(rows)
    least = float("inf")
    for _ in range(_TIMES):
        began = time.perf_counter()
        model.predict(rows)
        least = min(least, time.perf_counter() - began)
    return least / len(rows) * 1e6
