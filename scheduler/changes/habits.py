"""Tells in sentences what a script was seen to do, and what that means for its batches and GPUs. Pure."""

from __future__ import annotations

from ...core.job import JobSpec
from ...estimators.measurements import Measurements


def habits_of(measured: Measurements | None, spec: JobSpec) -> list[str]:
    """Return one sentence per habit that limits how the job scales; none before it has trained."""
    if measured is None:
        return []
    limits, info = measured.batch_limits(spec.training, spec.fewest_replicas), measured.info
    if limits is None or info is None:
        return []
    told = []
    if info.undivided and info.least_local_bsz >= info.initial_batch_size > 1:
        told.append("its loss is one over whole batches: more GPUs would not make a step faster")
    elif limits.min_local_bsz > spec.training.min_local_batch_size:
        told.append(
            f"a replica is given at least {limits.min_local_bsz} samples of a batch: its model normalises over "
            "them, or fails with fewer"
        )
    if info.one_pass:
        told.append(
            "it changes its parameters several times a batch: its batch size stays, and a batch is one pass"
        )
    elif info.undivided:
        told.append("a batch is one pass on each replica; for a larger batch size several make one step")
    if info.per_step > 1:
        told.append(f"it makes a step of {info.per_step} batches, which counts as its initial batch size")
    if not info.whole_batches:
        told.append("its loop does not count its batches, and may be given larger ones")
    return told


def fits_nowhere(measured: Measurements | None, spec: JobSpec) -> str:
    """Return why no measured GPU type can run the job at any size; "" if one can."""
    measured = measured or Measurements()
    limits = measured.batch_limits(spec.training, spec.fewest_replicas)
    most = {gpu_type: measured.max_local_bsz(gpu_type, spec.training) for gpu_type in measured.profiles}
    if limits is None or not most or max(most.values()) >= limits.min_local_bsz:
        return ""
    fit = ", ".join(f"{gpu_type} {samples}" for gpu_type, samples in sorted(most.items()))
    return f"no batch fits: a replica needs at least {limits.min_local_bsz} samples, and at most these fit: {fit}"
