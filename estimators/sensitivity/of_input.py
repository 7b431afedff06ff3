"""The sensitivity of a job by what a profile run has measured of its input."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ...core.reports import MeasuredInput
from ..measurements import Measurements
from .measured import MeasuredSensitivity, Reading

GIB = 2**30
NOISE = 0.03  # of a measured rate


@lru_cache(maxsize=4096)
def sensitivity_of(measured: MeasuredInput | None, samples: int | None) -> MeasuredSensitivity | None:
    """Return the sensitivity that follows from measurements; None: there are none.

    Speed follows memory only where the script keeps samples and the storage is the slower one without.

    Args:
        samples: of the data set; None: not known, so that memory is no choice.
    """
    if measured is None or not measured.rows:
        return None
    reading = None
    if samples and measured.sample_bytes > 0 and measured.stored_per_s > 0:
        gib = measured.sample_bytes / GIB
        reading = Reading(gib * samples, samples, measured.stored_per_s * gib, measured.process_gib)
    return MeasuredSensitivity.fit(_saturating(measured.rates), reading)


def _saturating(rates: Mapping[int, float]) -> list[tuple[float, float]]:
    """Return (CPUs, samples/s) of measured rates; those that noise tells apart from the greatest are the same.

    Else a job would ask for all CPUs of a node, as the rate with them is a little above that with half of them.
    """
    least = (1 - NOISE) * max(rates.values())
    same = [rate for rate in rates.values() if rate >= least]
    greatest = sum(same) / len(same)
    return [(cpus, greatest if rate >= least else rate) for cpus, rate in rates.items()]


def sensitivity_by(measured: Measurements | None) -> MeasuredSensitivity | None:
    """Return the sensitivity of a job by all that was measured of it; None: its input was not."""
    if measured is None:
        return None
    return sensitivity_of(measured.input, None if measured.info is None else measured.info.dataset_size)
