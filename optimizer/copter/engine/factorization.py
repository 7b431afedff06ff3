"""Newton systems of many rows, where conjugate gradients do not end: a sparse factorization (SuperLU).

Close to an optimum the columns strictly between their bounds are about as many as there are rows, and the system
is as badly conditioned as the basis they make. A factorization minds that little, and costs what its factors hold:
little for the sparse programs of practice, too much where columns are long. It is made for one system and thrown
away, as the next one is of other columns.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from .kernels import SparseColumns

PRODUCTS = 5e6  # the most products of entries that a system may be summed from
SMALL = 2_000  # rows up to which its factors cannot be too large
ENVELOPE = 5e10  # multiplications within its envelope, which a factorization hardly ever comes near
DEARER = 20.0  # times the work of the most gradients of a system; what costs more is not factorised again


class Factorization:
    """Solves systems of one program, whose columns lie one behind another."""

    def __init__(self, columns: SparseColumns, rows: int) -> None:
        begin = np.append(columns.start, len(columns.row))
        self._matrix = sparse.csc_array((columns.value, columns.row, begin), shape=(rows, len(columns.start)))
        self._products = np.diff(begin).astype(float) ** 2
        self.work = 0.0  # multiplications of the last factorization, about

    def solve(
        self, is_free: np.ndarray, row_free: np.ndarray, sigma: float, rho: float, right: np.ndarray
    ) -> np.ndarray | None:
        """out with (sigma (A_F A_F.T + I_free) + rho) out = right for the columns F that are free.

        None where that would take too long or too much memory. Where the system is singular to rounding the
        solution may be of no use, 0 where a pivot is 0, which the caller has to see.
        """
        if float(self._products[is_free].sum()) > PRODUCTS:
            return None
        free = self._matrix[:, np.flatnonzero(is_free)]
        system = sparse.csc_matrix(sigma * (free @ free.T) + sparse.diags_array(rho + sigma * row_free))
        if len(right) > SMALL and envelope_work(system) > ENVELOPE:
            return None
        try:
            # Symmetric and positive definite: pivots stay on the diagonal, in an order that keeps factors sparse.
            factors = splu(
                system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
            )
        except MemoryError:
            return None
        except RuntimeError:  # exactly singular
            return np.zeros(len(right))
        self.work = factors.nnz**2 / (4 * len(right))
        out: np.ndarray = factors.solve(right)
        return out if np.isfinite(out).all() else np.zeros(len(right))


def envelope_work(system: sparse.csc_matrix) -> float:
    """Multiplications of a factorization that fills all of a symmetric matrix's envelope (Cuthill and McKee)."""
    order = reverse_cuthill_mckee(system, symmetric_mode=True)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    entries = system.tocoo()
    row, column = place[entries.row], place[entries.col]
    reach = np.zeros(len(order))
    np.maximum.at(reach, row, row - column)
    return float((reach**2).sum())
