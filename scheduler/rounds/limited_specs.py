"""A job's spec as a round may use it: with no more GPUs of a type than limits allow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...core.job import JobSpec


def limited_spec(spec: JobSpec, most: Mapping[str, int], gpu_types: Iterable[str]) -> JobSpec:
    """Return a spec that no policy can plan beyond a limit.

    Args:
        most: GPUs by GPU type; a type that is absent has no limit.
        gpu_types: of the nodes.
    """
    resources = spec.resources
    wide = resources.gpus or resources.max_gpus
    types = [t for t in gpu_types if spec.gpus_per_replica(t) is not None]
    if all(most.get(t, wide) >= wide for t in types):
        return spec
    open_ = [t for t in types if most.get(t, wide) > 0]
    if resources.gpus is not None:
        open_ = [t for t in open_ if most.get(t, wide) >= resources.gpus]
        return _with(spec, open_)
    if resources.gpus_per_replica == 1:
        counts = {t: _counts(spec, t, min(most.get(t, wide), wide)) for t in open_}
        counts = {t: some for t, some in counts.items() if some}
        return _with(spec, list(counts)).model_copy(update={"sizes": counts or spec.sizes})
    # Replicas of several GPUs have counts of their own, so all types share the tightest limit.
    return _with(spec, open_, max_gpus=min((most.get(t, wide) for t in open_), default=wide))


def _counts(spec: JobSpec, gpu_type: str, most: int) -> list[int]:
    """Return the counts of a type that are within the limit: those that the job names, or else powers of two."""
    sizes, least = spec.sizes_on(gpu_type), spec.resources.min_gpus
    if sizes is not None:
        return [gpus for gpus in sizes if gpus <= most]
    powers = {1 << n for n in range(most.bit_length())}
    return sorted(gpus for gpus in powers | {least, most} if least <= gpus <= most)


def _with(spec: JobSpec, types: list[str], **more: int) -> JobSpec:
    resources = spec.resources.model_copy(update={"gpu_types": types, **more})
    return spec.model_copy(update={"resources": resources})
