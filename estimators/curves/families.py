"""Families of learning curves, each linear in all but two of its parameters at most.

They are the eleven of Domhan, Springenberg and Hutter ("Speeding up automatic hyperparameter optimization of deep
neural networks by extrapolation of learning curves", IJCAI 2015), which UniSched takes. Several are one and the
same curve with other names of its parameters, so eight forms stand for eleven families, and count as often:

    vapour pressure   exp(a + b/x + c ln x)                log-log-linear   ln(a ln x + b)
    ilog2             c - a/ln(x + 1)                      log-power, Hill3 a/(1 + (k x)^-d)
    pow3              c - a x^-d                           MMF              c - a/(1 + (k x)^d)
    pow4              c - a (x + b)^-d                     Weibull, Janoschek, exp4   c - a exp(-(k x)^d)

The parameters k, d and the b of pow4 lie on a grid, and the others follow by linear least squares. So all local
optima are seen, and a fit takes no steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAST_VALUE = 1e-3  # logarithms are taken of no less


@dataclass(frozen=True)
class Family:
    """One form. `design`: (points,) x -> columns, each (shapes, points), of what the value is a sum.

    free: parameters, those of the grid too. counts: published families of this form.
    to_linear, slope, from_linear: from the value to what is linear, the derivative of the value by that, and back.
    """

    name: str
    free: int
    design: Callable[[Floats], list[Floats]]
    counts: int = 1
    to_linear: Callable[[Floats], Floats] | None = None
    slope: Callable[[Floats], Floats] | None = None
    from_linear: Callable[[Floats], Floats] | None = None

    def curves(self, x: Floats, y: Floats, ahead: Floats) -> Floats:
        """Return (shapes, points + ahead) the curves of least squares through (x, y), there and ahead."""
        both = np.concatenate([x, ahead])
        with np.errstate(all="ignore"):
            design = self.design(both)
            linear = y if self.to_linear is None else self.to_linear(y)
            weight = np.ones_like(linear) if self.slope is None else self.slope(linear) ** 2
            sums, done = np.zeros((1, len(both))), list[Floats]()
            for column in design:  # made orthogonal over the known points, one after another
                for other in done:
                    column = column - _part(column, other, weight) * other
                done.append(column)
                sums = sums + _part(linear, column, weight) * column
            return sums if self.from_linear is None else self.from_linear(sums)


def families(longest: float) -> tuple[Family, ...]:
    """Return the families for curves of up to `longest` evaluations."""
    power = np.geomspace(0.01, 3.0, 48)[:, None]
    shift, steep = _grid(np.array([0.0, *np.geomspace(0.3, 3 * longest, 13)]), np.geomspace(0.02, 4.0, 16))
    rate, bend = _grid(np.geomspace(0.3 / longest, 3.0, 24), np.geomspace(0.15, 3.0, 14))
    return (
        Family(
            "vapour_pressure",
            3,
            lambda x: [np.ones_like(x)[None], 1 / x[None], np.log(x)[None]],
            to_linear=lambda y: np.log(np.maximum(y, LEAST_VALUE)),
            slope=np.exp,
            from_linear=np.exp,
        ),
        Family(
            "log_log_linear",
            2,
            lambda x: [np.ones_like(x)[None], np.log(x)[None]],
            to_linear=np.exp,
            slope=lambda z: 1 / z,
            from_linear=np.log,
        ),
        Family("ilog2", 2, lambda x: _with_constant(1 / np.log(x + 1)[None])),
        Family("pow3", 3, lambda x: _with_constant(x[None] ** -power)),
        Family("pow4", 4, lambda x: _with_constant((x[None] + shift) ** -steep)),
        Family("log_power", 3, lambda x: [1 / (1 + (rate * x[None]) ** -bend)], counts=2),
        Family("mmf", 4, lambda x: _with_constant(1 / (1 + (rate * x[None]) ** bend))),
        Family("weibull", 4, lambda x: _with_constant(np.exp(-((rate * x[None]) ** bend))), counts=3),
    )


def _grid(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return all pairs of two axes, as two columns."""
    one, other = np.meshgrid(first, second, indexing="ij")
    return one.ravel()[:, None], other.ravel()[:, None]


def _with_constant(shapes: Floats) -> list[Floats]:
    return [np.ones((1, shapes.shape[1])), shapes]


def _part(values: Floats, column: Floats, weight: Floats) -> Floats:
    """Return (shapes, 1) how much of a column is in values, over the known points."""
    known = column[:, : len(weight)]
    values = values[..., : len(weight)]
    return ((values * known) @ weight / np.maximum((known * known) @ weight, 1e-300))[:, None]
