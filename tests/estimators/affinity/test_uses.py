"""What a job uses, as rows: units, what is not known, and what is refused."""

import math

import numpy as np
import pytest
from coadapt.core.usage import Mean, Usage
from coadapt.estimators.affinity.uses import row_of, rows_of, usage_of


def test_row_holds_means_and_leaves_unknown_open() -> None:
    usage = usage_of(0.5, None, 3.0) + usage_of(0.7, None, 5.0)
    np.testing.assert_allclose(row_of(usage, True), [0.6, np.nan, 4.0, 1.0])
    assert np.isnan(row_of(Usage())).all()


def test_rows_of_no_jobs_have_columns() -> None:
    assert rows_of([]).shape == (0, 4)
    assert rows_of([(usage_of(0.1, 0.1, 1.0), False)] * 3).shape == (3, 4)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ((1.2, 0.1, 1.0), "gpu_util: 120 % is not accepted, must be from 0 to 100 %"),
        ((-0.1, 0.1, 1.0), "gpu_util: -10 %"),
        ((math.nan, 0.1, 1.0), "gpu_util: nan %"),
        ((0.1, 1.01, 1.0), "memory_util: 101 %"),
        ((0.1, 0.1, -1.0), "memory_gib: -1 is not accepted"),
        ((0.1, 0.1, math.nan), "memory_gib: nan is not accepted"),
    ],
)
def test_bad_usage_is_refused(parts: tuple[float, float, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        usage_of(*parts)
    gpu, memory, gib = (Mean(one, 1.0) for one in parts)
    with pytest.raises(ValueError, match=told):
        row_of(Usage(1.0, gpu, memory, gib))


def test_emulated_gpu_may_be_a_little_ahead_of_the_clock() -> None:
    ahead = Usage(1.0, Mean(1.03, 1.0), emulated=True)
    assert row_of(ahead)[0] == 1.0
    with pytest.raises(ValueError, match="gpu_util"):
        row_of(Usage(1.0, Mean(1.03, 1.0)))
