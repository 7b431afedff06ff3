"""Shortest job first, by the expected time of jobs and without preemption."""

from __future__ import annotations

from .contract.traits import PolicyTraits
from .provisioning.options import provisioned
from .queueing import ProvisionedOptions, TimeLeftPolicy
from .registry import register


@register("sjf")
class SjfPolicy(TimeLeftPolicy):
    """Starts waiting jobs by their length. Jobs of unknown length come last."""

    Options = ProvisionedOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=False, needs_expected=True)
    rule = "The shortest jobs start first."

    def __init__(self, options: ProvisionedOptions | None = None) -> None:
        self.options = options or ProvisionedOptions()
        self.traits = provisioned(self.traits, self.options)
