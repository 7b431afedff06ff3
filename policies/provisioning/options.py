"""What an operator may set of how jobs get CPUs and memory."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, Field

from ..contract.traits import PolicyTraits
from .mechanisms import Provisioning
from .provisioner import Provisioner


class ProvisioningOptions(BaseModel):
    """Options of each policy that may choose CPUs and memory, too."""

    # How jobs get CPUs and memory. None: as many as they ask for beside each GPU.
    provisioning: Provisioning | None = None
    # By what part of its greatest speed a job may be slower with its best-case demand.
    saturation: float = Field(default=0.0, ge=0, lt=1, allow_inf_nan=False)
    # Whether CPUs and memory that are left over go to the jobs that gain most.
    leftovers: bool = True


def provisioned(traits: PolicyTraits, options: ProvisioningOptions) -> PolicyTraits:
    """Return the traits of a policy with these options: with a mechanism it chooses CPUs and memory."""
    return replace(traits, provisions=options.provisioning is not None)


def provisioner_of(options: ProvisioningOptions) -> Provisioner | None:
    """Return who chooses CPUs and memory by these options; None: nobody does."""
    if options.provisioning is None:
        return None
    return Provisioner(options.provisioning, options.saturation, options.leftovers)
