"""Policies that solve a program for GPUs, and then hand out CPUs and memory by what jobs gain."""

from __future__ import annotations

from collections.abc import Callable

from .choosing.allocation_round import ProgramOptions, ProgramPolicy
from .contract.explanation import Explanation
from .contract.round import JobView, Plan, Round
from .contract.traits import PolicyTraits
from .program_explanation import Rules, explain_program
from .provisioning.options import ProvisioningOptions, provisioned, provisioner_of
from .provisioning.provisioner import gpus_alone
from .provisioning.told import explained_with


class ProvisionedProgramOptions(ProgramOptions, ProvisioningOptions):
    """What an operator may set for every policy of this kind."""


class ProvisionedProgram(ProgramPolicy):
    """The program decides on GPUs as if CPUs and memory were nobody's. Each job is as fast as at its share, at
    least, and what is left of each node goes to the jobs that gain most.
    """

    traits: PolicyTraits

    def __init__(self, options: ProvisionedProgramOptions) -> None:
        self._provisioner = provisioner_of(options)
        self.traits = provisioned(self.traits, options)
        super().__init__(options)

    def plan(self, round: Round) -> Plan:
        """Choose GPUs, and with the option `provisioning` CPUs and memory for the jobs that have some."""
        if self._provisioner is None:
            return super().plan(round)
        return self._provisioner.within(round, super().plan(gpus_alone(round)))

    def explained(self, job: str, round: Round, plan: Plan, rules: Callable[[JobView], Rules]) -> Explanation:
        """Explain a job by the program, and by the CPUs and memory that were chosen."""
        return explained_with(explain_program(job, round, plan, rules), job, round, plan)
