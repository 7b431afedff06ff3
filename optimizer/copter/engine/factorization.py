"""Solves Newton systems of many rows by a sparse factorization (SuperLU), if conjugate gradients do not end.

Close to an optimum there are about as many columns strictly between their bounds as rows. The system is then as
badly conditioned as the basis that they make. A factorization suffers little from that. Its cost grows with its
factors: it is low for the sparse programs of practice, and too high for long columns. It serves one system only,
as the next one has other columns.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from .kernels import SparseColumns

PRODUCTS = 5e6  # most products of entries from which a system may be summed
SMALL = 2_000  # rows up to which factors cannot be too large
ENVELOPE = 5e10  # most multiplications within its envelope; a factorization hardly ever comes near them
DEARER = 20.0  # a factorization above this many times the work of the most gradients is not repeated


class Factorization:
    """Solves systems of one program, whose columns lie without gaps."""

    def __init__(self, columns: SparseColumns, rows: int) -> None:
        begin = np.append(columns.start, len(columns.row))
        self._matrix = sparse.csc_array((columns.value, columns.row, begin), shape=(rows, len(columns.start)))
        self._products = np.diff(begin).astype(float) ** 2
        self.work = 0.0  # multiplications of the last factorization, about

    def solve(
        self, is_free: np.ndarray, row_free: np.ndarray, sigma: float, rho: float, right: np.ndarray
    ) -> np.ndarray | None:
        """Solve (sigma (A_F A_F.T + I_free) + rho) out = right for the free columns F, and return out.

        The result is None if that would take too much time or memory. If the system is singular up to rounding,
        the solution may be useless, and it is 0 for an exactly singular one. The caller has to check that.
        """
        if float(self._products[is_free].sum()) > PRODUCTS:
            return None
        free = self._matrix[:, np.flatnonzero(is_free)]
        system = sparse.csc_matrix(sigma * (free @ free.T) + sparse.diags_array(rho + sigma * row_free))
        if len(right) > SMALL and envelope_work(system) > ENVELOPE:
            return None
        try:
            # The system is symmetric and positive definite, so pivots stay on the diagonal, in a sparse order.
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
    """Return the multiplications of a factorization that fills a matrix's whole envelope (Cuthill and McKee)."""
    order = reverse_cuthill_mckee(system, symmetric_mode=True)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    entries = system.tocoo()
    row, column = place[entries.row], place[entries.col]
    reach = np.zeros(len(order))
    np.maximum.at(reach, row, row - column)
    return float((reach**2).sum())
