"""Where a study's groups can train in the bubbles of a large model's pipeline, and how fast they are there."""

from __future__ import annotations

from ...core.one_f_one_b import OneForwardOneBackward
from ...tuning.bubbles import Place

# In the bubbles of the first of four stages a group of 16 had 15 % of its speed on a GPU of its own (Hydro,
# section 3.6.5). The thesis does not say how many micro-batches there were; with eight, 27 % of the time is idle.
EFFICIENCY = 0.15 / (3 / 11)


def places(
    pipeline: OneForwardOneBackward,
    replicas: int,
    gpu_gib: float,
    weights_gib: float,
    activations_gib: float,
    efficiency: float = EFFICIENCY,
) -> list[Place]:
    """Return the stages of a pipeline's replicas as places for groups. They are named `replica.stage`.

    Args:
        weights_gib: of a stage, with gradients and the optimizer's state.
        activations_gib: of a micro-batch. A stage holds those of several (Figure 3.9), the first one most.
        efficiency: a group's speed in bubbles, over the part of the time in which a stage is idle.
    """
    rate = pipeline.idle_part * efficiency
    free_gib = [gpu_gib - weights_gib - activations_gib * pipeline.held(stage) for stage in range(pipeline.stages)]
    return [
        Place(f"{replica}.{stage}", rate, max(gib, 0.0))
        for replica in range(replicas)
        for stage, gib in enumerate(free_gib)
    ]
