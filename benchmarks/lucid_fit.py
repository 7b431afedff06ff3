"""How long what `lucid` learns takes to fit to 100,000 jobs: lengths, and arrivals of half a year."""

from __future__ import annotations

import time

import numpy as np
from coadapt.estimators import arrivals
from coadapt.scheduler.services.durations import DurationOptions, Durations

from .duration_prediction import HALF_YEAR, half_a_year
from .harness import needs, table

JOBS = 100_000


def figures() -> dict[str, float]:
    """Return seconds of a fit of lengths and arrivals together, and of each of its parts."""
    needs(HALF_YEAR)
    jobs = sorted(half_a_year(0)[:JOBS], key=lambda one: one.ended_s)
    seconds = dict[str, float]()
    for model in ("boosted", "additive"):
        service = Durations(DurationOptions.model_validate({"model": model}))
        for one in jobs:
            service.observe(one)
        began = time.perf_counter()
        service.take(service.fitting(2e9)())
        seconds[model] = time.perf_counter() - began
    submitted = np.array([one.job.submitted_s for one in jobs])
    series = arrivals.series_of(
        submitted, np.array([one.job.gpus for one in jobs]), float(submitted.min()), float(submitted.max())
    )
    began = time.perf_counter()
    arrivals.fit(series)
    seconds["arrivals"] = time.perf_counter() - began
    table(f"Fits to {JOBS:,} jobs", ["model", "seconds"], [[name, value] for name, value in seconds.items()])
    return {
        "lucid/fit_s": round(seconds["boosted"] + seconds["arrivals"], 2),
        "lucid/fit_additive_s": round(seconds["additive"] + seconds["arrivals"], 2),
        "lucid/fit_arrivals_s": round(seconds["arrivals"], 2),
    }


if __name__ == "__main__":
    print(figures())
