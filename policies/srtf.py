"""Shortest remaining time first, by the expected time of jobs and with preemption."""

from __future__ import annotations

from .contract.traits import PolicyTraits
from .provisioning.options import provisioned
from .queueing import ProvisionedOptions, TimeLeftPolicy
from .registry import register


@register("srtf")
class SrtfPolicy(TimeLeftPolicy):
    """Runs the jobs that end soonest. Jobs of unknown length come last."""

    Options = ProvisionedOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True)
    rule = "The jobs that end soonest run."

    def __init__(self, options: ProvisionedOptions | None = None) -> None:
        self.options = options or ProvisionedOptions()
        self.traits = provisioned(self.traits, self.options)
