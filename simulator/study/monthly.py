"""The months of a cluster: submissions and use, of jobs with one GPU and with several."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..traces.tables import DAY_S, Floats
from ..traces.workload import Ints
from .jobs import StudiedJobs
from .time_bins import Window, months

LEAST_DAYS = 20  # that a month must have in the trace to be compared with others
LEAST_MONTHS = 3


@dataclass(frozen=True, eq=False)
class Monthly:
    """One value per month. Use is the mean number of GPUs; nan: not known."""

    names: tuple[str, ...]
    days: Floats  # of the month that lie in the trace
    single: Ints  # submissions of jobs with one GPU
    multi: Ints
    use_single: Floats
    use_multi: Floats
    mean_gpus: Floats  # per submitted job; nan: none was

    @property
    def whole(self) -> NDArray[np.bool_]:
        """(months,) whether a month may be compared with others."""
        return self.days >= LEAST_DAYS

    def variation(self, counts: Ints) -> float:
        """Return standard deviation over mean of submissions per day over whole months; nan: too few months."""
        rates = (counts / self.days)[self.whole]
        return float(rates.std() / rates.mean()) if len(rates) >= LEAST_MONTHS and rates.any() else float("nan")


def monthly(jobs: StudiedJobs, window: Window) -> Monthly:
    """Return the months of a trace. Raise ValueError for a trace of more than 50 years."""
    bins, names = months(window, jobs.began_s)
    one = jobs.gpus == 1
    single, count = bins.count(jobs.submit_s[one]), bins.count(jobs.submit_s)
    gpus = np.histogram(jobs.submit_s, bins.edges_s, weights=jobs.gpus.astype(float))[0]
    use = bins.gpu_s(jobs.held) / bins.width_s
    use_single = bins.gpu_s(jobs.select(one).held) / bins.width_s
    known = 1.0 if jobs.lengths_known else np.nan
    return Monthly(
        names=names,
        days=bins.width_s / DAY_S,
        single=single,
        multi=count - single,
        use_single=use_single * known,
        use_multi=np.maximum(use - use_single, 0.0) * known,
        mean_gpus=np.where(count > 0, gpus / np.maximum(count, 1), np.nan),
    )
