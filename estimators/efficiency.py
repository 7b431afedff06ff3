"""Statistical efficiency: how much training progress one sample makes, relative to the initial batch size.

The noise scale φ = tr(Σ)/|g|² is in samples (Pollux, section 3.1); for Adam-type optimizers gradients are
preconditioned first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def noise_scale(grad_sqr: float, grad_var: float) -> float | None:
    """Return φ in samples; None while the measurements cannot tell (not finite, or a gradient of zero)."""
    if not (np.isfinite(grad_sqr) and np.isfinite(grad_var)) or grad_sqr <= 0 or grad_var < 0:
        return None
    ratio = grad_var / grad_sqr
    return float(ratio) if np.isfinite(ratio) else None


def efficiency(batch_size: ArrayLike, initial_batch_size: ArrayLike, phi: ArrayLike | None) -> NDArray[np.float64]:
    """Return (φ + B0)/(φ + B), in (0, 1] for B >= B0. φ None: 0, so that a larger batch brings nothing."""
    noise = np.asarray(0.0 if phi is None else phi, float)
    return (noise + np.asarray(initial_batch_size, float)) / (noise + np.asarray(batch_size, float))


def gain(batch_size: ArrayLike, initial_batch_size: ArrayLike, phi: ArrayLike | None) -> NDArray[np.float64]:
    """Return AdaScale's gain: steps at the initial batch size that one step at B is worth, 1 <= gain <= B/B0."""
    scale = np.asarray(batch_size, float) / np.asarray(initial_batch_size, float)
    return scale * efficiency(batch_size, initial_batch_size, phi)
