"""What a policy relies on, declared with its class."""

from __future__ import annotations

from dataclasses import dataclass, fields

TENANTS = 2  # jobs on one GPU; a third makes all three much slower (Lucid, section 4.2)


@dataclass(frozen=True, kw_only=True)
class PolicyTraits:
    """Facts about a policy that its caller must know.

    fixed_sizes: jobs get the number of GPUs they ask for, so a simulated job asks for what a tuned one would.
    uses_models: it plans with fitted goodput models, so jobs are measured before their first run.
    preempts: it stops or moves running jobs.
    early_rounds: it expects rounds soon after a job arrives or ends, as the live service has them.
    profile_cache: it expects jobs to know what earlier runs of their script measured, as live jobs do.
    needs_expected: it goes by the time that jobs still need, and assumes one where it is unknown.
    crosses_pools: it plans all pools of a cluster at once, and minds itself whose nodes are whose.
    shares_gpus: its placements name their GPUs, and up to `TENANTS` jobs may be on one.
    serves_deadlines: it looks at `JobView.rewards`.
    foresees_all: it must know all jobs to come, so it is for simulations only.
    provisions: it chooses CPUs and memory of jobs; else each gets its GPUs' part of its nodes after the plan.

    Raises TypeError, in one sentence, for a trait that is neither True nor False.
    """

    fixed_sizes: bool
    uses_models: bool
    preempts: bool
    early_rounds: bool = False
    profile_cache: bool = False
    needs_expected: bool = False
    crosses_pools: bool = False
    shares_gpus: bool = False
    provisions: bool = False
    serves_deadlines: bool = False
    foresees_all: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, bool):
                raise TypeError(f"traits: {field.name}: {value!r} is not accepted, must be True or False")

    @property
    def tenants(self) -> int:
        """How many jobs may be on one GPU."""
        return TENANTS if self.shares_gpus else 1


ORDINARY = PolicyTraits(fixed_sizes=False, uses_models=True, preempts=True)  # what callers assume of any planner
