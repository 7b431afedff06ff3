"""Shortest job first, without preemption: the time is what is expected of a job."""

from __future__ import annotations

from .contract.traits import PolicyTraits
from .queueing import QueueingOptions, TimeLeftPolicy
from .registry import register


@register("sjf")
class SjfPolicy(TimeLeftPolicy):
    """Waiting jobs start by their length; those of unknown length come last."""

    Options = QueueingOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True)
    rule = "The shortest jobs start first."

    def __init__(self, options: QueueingOptions | None = None) -> None:
        self.options = options or QueueingOptions()
