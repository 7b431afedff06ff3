"""Choose the batch plan of a group by the job's goodput model. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..core.batch_plan import BatchPlan
from ..core.slot import Slot
from ..estimators.efficiency import efficiency
from ..estimators.goodput import BatchChoice, JobModel, best_batch
from ..estimators.throughput import step_time_s

# A change of batch also changes the learning rate and the noise estimate, so it must pay.
WORTH_CHANGING = 1.05


def group_shape(slots: Sequence[Slot]) -> tuple[str, int, int, int]:
    """Return (GPU type, nodes, replicas, replicas on the fullest node) of a group."""
    per_node = Counter(slot.node_id for slot in slots)
    return slots[0].gpu_type, len(per_node), len(slots), max(per_node.values())


def choose_batch(model: JobModel | None, slots: Sequence[Slot], input_rate: float = math.inf) -> BatchPlan | None:
    """Return the plan of highest goodput for a group on `slots`; None if the model cannot tell.

    Args:
        input_rate: samples/s that loader workers prepare for the group. A batch with which its GPUs are faster
            than that makes less progress by each sample, and trains no more of them.
    """
    if model is None or not slots:
        return None
    gpu_type, nodes, replicas, _ = group_shape(slots)
    choice = best_batch(model, gpu_type, nodes, replicas)
    if choice is not None and choice.throughput > input_rate:
        choice = _smallest_as_fast(model, choice, input_rate, gpu_type, nodes, replicas)
    if choice is None or choice.goodput <= 0:
        return None
    fixed = choice.batch_size if model.limits.fixed or model.limits.unit else None
    return BatchPlan(choice.local_bsz, choice.accumulation, fixed)


def _smallest_as_fast(
    model: JobModel, choice: BatchChoice, input_rate: float, gpu_type: str, nodes: int, replicas: int
) -> BatchChoice:
    """Return the choice of the smallest batch with which the GPUs are still as fast as the input."""
    low, high = model.limits.initial_batch_size, choice.batch_size
    while low < high:
        middle = (low + high) // 2
        limits = replace(model.limits, max_batch_size=middle)
        found = best_batch(replace(model, limits=limits), gpu_type, nodes, replicas)
        if found is not None and found.throughput >= input_rate:
            high, choice = middle, found
        else:
            low = middle + 1
    return choice


def better_batch(
    model: JobModel | None, slots: Sequence[Slot], current: BatchPlan, input_rate: float = math.inf
) -> BatchPlan | None:
    """Return a plan whose predicted goodput is more than 5 % above that of `current`, or None."""
    plan = choose_batch(model, slots, input_rate)
    if plan is None or plan == current or model is None or model.limits.fixed:
        return None
    now = goodput(model, slots, current, input_rate)
    return plan if goodput(model, slots, plan, input_rate) > WORTH_CHANGING * now else None


def goodput(model: JobModel, slots: Sequence[Slot], plan: BatchPlan, input_rate: float = math.inf) -> float:
    """Return the predicted goodput of a plan, in samples/s at the initial batch size."""
    gpu_type, nodes, replicas, _ = group_shape(slots)
    params = model.throughput[gpu_type].params
    samples = plan.batch_size or replicas * plan.local_bsz * (plan.accumulation + 1)
    step_s = float(step_time_s(params, nodes, replicas, plan.local_bsz, plan.accumulation))
    return min(samples / step_s, input_rate) * float(
        efficiency(samples, model.limits.initial_batch_size, model.noise_scale)
    )
