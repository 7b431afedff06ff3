"""What accuracy a trial reaches: a model of ResNet-18 on CIFAR-10.

The logit of the final accuracy is a quadratic of x = log10(lr / (1 - momentum) * 256 / batch size) and of
gamma, the factor of the learning rate every 20 epochs. It is fitted to the authors' 50 trials: at full width
(`artifact_ray_50.csv`, R2 0.90) and at an eighth of it (`artifact_hydro_50.csv`, R2 0.92). What it leaves over is
drawn for each trial, with the standard deviations and the correlation of the fits. Widths between are interpolated
by the logarithm of the width.

The source has no accuracy by epoch. So the course is assumed: a * (1 - exp(-(epoch / 5)**0.7)) above chance,
with noise that fades.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...tuning.space import Value

CHANCE = 0.1
COURSE_EPOCHS, COURSE_POWER = 5.0, 0.7
EARLY_NOISE = 0.03  # of accuracy, at the first epoch

Final = Mapping[tuple[tuple[str, Value], ...], Mapping[int, float]]
"""Known final accuracies: sorted values of a trial -> divisor of the width -> accuracy."""


@dataclass(frozen=True)
class Response:
    """Accuracy by values, width and epoch. The same seed gives the same accuracies.

    `known`: final accuracies that were measured; they stand in place of the model's.
    """

    seed: int = 0
    wide: tuple[float, ...] = (2.251, -0.4187, -0.3288, -1.0489, 0.0558, -0.515)
    narrow: tuple[float, ...] = (1.2332, -0.2071, -0.3353, -1.3537, 0.1993, -0.6279)
    wide_sd: float = 0.212
    narrow_sd: float = 0.235
    correlation: float = 0.34
    known: Final | None = None
    _found: dict[tuple[int, int], tuple[float, np.ndarray]] = field(default_factory=dict, init=False, repr=False)

    def final(self, values: Mapping[str, Value], shrink: int) -> float:
        """Return the accuracy after the last epoch."""
        part = math.log2(shrink) / 3  # 0: wide, 1: an eighth
        measured = (self.known or {}).get(key_of(values))
        if measured is not None:
            return (1 - part) * measured[1] + part * measured[8]
        number = {name: float(value or 0) for name, value in values.items() if isinstance(value, int | float)}
        batch, gamma = number.get("batch_size", 256.0), number.get("gamma", 0.3)
        x = math.log10(number["lr"] / (1 - number.get("momentum", 0.9)) * 256 / batch)
        terms = np.array([1, x, x * x, gamma, gamma * gamma, x * gamma])
        common, wide, narrow = self._draws(values)
        both, own = math.sqrt(self.correlation), math.sqrt(1 - self.correlation)
        at_wide = float(terms @ np.array(self.wide)) + self.wide_sd * (both * common + own * wide)
        at_narrow = float(terms @ np.array(self.narrow)) + self.narrow_sd * (both * common + own * narrow)
        return 1 / (1 + math.exp(-((1 - part) * at_wide + part * at_narrow)))

    def metric(self, values: Mapping[str, Value], shrink: int, epoch: int, epochs: int) -> float:
        """Return the accuracy after an epoch."""
        digest = _digest(values)
        if (digest, shrink) not in self._found:
            noise = np.random.default_rng([digest, self.seed, shrink]).standard_normal(epochs + 1)
            self._found[digest, shrink] = self.final(values, shrink), noise
        final, noise = self._found[digest, shrink]
        part = _course(epoch) / _course(epochs)
        fades = (1 - epoch / epochs) / math.sqrt(epoch)
        return float(CHANCE + (final - CHANCE) * part + EARLY_NOISE * fades * noise[epoch])

    def _draws(self, values: Mapping[str, Value]) -> tuple[float, float, float]:
        drawn = np.random.default_rng([_digest(values), self.seed]).standard_normal(3)
        return float(drawn[0]), float(drawn[1]), float(drawn[2])


def key_of(values: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """Return the values of a trial as a key, with floats as they are written."""
    return tuple(sorted((k, round(v, 6) if isinstance(v, float) else v) for k, v in values.items()))


def _course(epoch: float) -> float:
    return 1 - math.exp(-((epoch / COURSE_EPOCHS) ** COURSE_POWER))


def _digest(values: Mapping[str, Value]) -> int:
    text = repr(sorted(values.items()))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
