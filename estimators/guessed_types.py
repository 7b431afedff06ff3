"""Speeds on GPU types where a job has not run, from one where it has: for jobs that no profile run measures.

A guess is wrong for many a job. It is there so that the job is tried on that type at all. What it reports there
takes the place of the guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np

from .goodput import JobModel
from .pace import Pace, measured_profiles
from .throughput import ThroughputModel


@cache
def relative_speeds() -> dict[str, float]:
    """Return the speed of one GPU of each type that was measured, as the geometric mean over models; t4 is 1.

    Source: `core/pace_profiles.json`, Sia's measured models at the largest batch that fits the smallest GPU.
    """
    speeds: dict[str, list[float]] = {}
    for profile, types in measured_profiles().items():
        paces = {t: Pace.of(profile, t) for t in types}
        if "t4" not in paces:
            continue
        local_bsz = min(pace.max_local_bsz for pace in paces.values())
        slowest_s = paces["t4"].step_time_s(1, 1, local_bsz, 0)
        for gpu_type, pace in paces.items():
            speeds.setdefault(gpu_type, []).append(slowest_s / pace.step_time_s(1, 1, local_bsz, 0))
    return {gpu_type: float(np.exp(np.mean(np.log(ratios)))) for gpu_type, ratios in speeds.items()}


def with_guesses(model: JobModel, gpu_types: Iterable[str]) -> JobModel:
    """Return the model with a guess for each of these GPU types that it does not know.

    The best known type is scaled by relative speeds; types of which nothing is known count as equally fast.
    """
    missing = [t for t in gpu_types if t not in model.throughput]
    if not missing or not model.throughput:
        return model
    known = min(model.throughput, key=lambda t: (-model.throughput[t].max_replicas_measured, t))
    speeds = relative_speeds()
    guesses = {t: _scaled(model.throughput[known], speeds.get(t, 1.0) / speeds.get(known, 1.0)) for t in missing}
    each = model.gpus_per_replica.get(known, 1)
    return replace(
        model,
        throughput={**model.throughput, **guesses},
        gpus_per_replica={**dict.fromkeys(missing, each), **model.gpus_per_replica},
    )


def _scaled(model: ThroughputModel, speed: float) -> ThroughputModel:
    """Return a model whose compute is `speed` times as fast, with the same links."""
    params = model.params
    faster = replace(params, alpha_c=params.alpha_c / speed, beta_c=params.beta_c / speed)
    return replace(model, params=faster)
