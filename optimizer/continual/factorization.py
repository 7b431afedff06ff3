"""Newton systems of many rows, where conjugate gradients do not end: a sparse factorization (SuperLU).

Close to an optimum the columns strictly between their bounds are about as many as there are rows, and the system
is as badly conditioned as the basis they make. A factorization minds that little, and costs what its factors hold:
little for the sparse programs of practice, too much where columns are long. It is made for one system and thrown
away, as the next one is of other columns.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

ROWS = 20_000  # of the largest program that is factorised
PRODUCTS = 5e6  # and the most products of entries that its system may be summed from
DEARER = 20.0  # times the work of gradients that were broken off; a factorization beyond that is not made again


class Factorization:
    """Solves systems of one program, whose columns are given by start, row and value."""

    def __init__(self, start: np.ndarray, row: np.ndarray, value: np.ndarray, rows: int) -> None:
        self._matrix = sparse.csc_array((value, row, start), shape=(rows, len(start) - 1))
        self._products = np.diff(start).astype(float) ** 2
        self.work = 0.0  # multiplications of the last factorization, about

    def may_solve(self, is_free: np.ndarray) -> bool:
        """Whether the system of these columns is small enough to try."""
        return self._matrix.shape[0] <= ROWS and float(self._products[is_free].sum()) <= PRODUCTS

    def solve(
        self, is_free: np.ndarray, row_free: np.ndarray, sigma: float, rho: float, right: np.ndarray
    ) -> np.ndarray | None:
        """out with (sigma (A_F A_F.T + I_free) + rho) out = right for the columns F that are free.

        None where the system is singular to rounding.
        """
        free = self._matrix[:, np.flatnonzero(is_free)]
        system = sigma * (free @ free.T) + sparse.diags_array(rho + sigma * row_free)
        try:
            # Symmetric and positive definite: pivots stay on the diagonal, in an order that keeps factors sparse.
            factors = splu(
                sparse.csc_matrix(system),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:
            return None
        self.work = factors.nnz**2 / (4 * len(right))
        out: np.ndarray = factors.solve(right)
        return out if np.isfinite(out).all() else None
