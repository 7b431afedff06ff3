"""Multi-replica throughput on a GPU type that has only been measured with one replica (Sia, equation 3.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from .throughput import ThroughputModel, step_time_s


@lru_cache(maxsize=4096)  # a job's speeds are seldom fitted anew, its noise scale with every report
def bootstrap(own: ThroughputModel, donor: ThroughputModel) -> ThroughputModel:
    """Return `own`'s compute with `donor`'s links, scaled by the ratio of their one-replica step times.

    The step time is homogeneous in compute and link times. At the largest local batch size that both types hold
    this is therefore equation 3.1: est-xput_B(N) = xput_B(1)/xput_A(1) · xput_A(N). At other sizes it keeps B's
    own measured compute. `donor`'s slowdown of compute by replicas on the same node is taken over as well.
    """
    local_bsz = min(own.max_local_bsz, donor.max_local_bsz)
    ratio = float(step_time_s(own.params, 1, 1, local_bsz) / step_time_s(donor.params, 1, 1, local_bsz))
    links = donor.params
    params = replace(
        links,
        alpha_c=own.params.alpha_c,
        beta_c=own.params.beta_c,
        kappa=own.params.kappa,
        alpha_r=links.alpha_r * ratio,
        alpha_n=links.alpha_n * ratio,
    )
    return ThroughputModel(params, own.max_local_bsz, own.max_replicas_measured, own.spread)


def donor_of(models: Mapping[str, ThroughputModel]) -> str | None:
    """Return the GPU type whose links are known best: most replicas measured, ties by name; None without any."""
    known = [(-model.max_replicas_measured, name) for name, model in models.items() if model.knows_links]
    return min(known)[1] if known else None


def with_bootstrap(models: Mapping[str, ThroughputModel]) -> dict[str, ThroughputModel]:
    """Return every type's model to estimate with; types that have multi-replica measurements keep their own."""
    donor = donor_of(models)
    if donor is None:
        return dict(models)
    return {
        name: model if model.knows_links else bootstrap(model, models[donor]) for name, model in models.items()
    }
