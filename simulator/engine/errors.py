"""Reasons for which a run cannot go on; each error is one sentence."""

from __future__ import annotations


class RunFailed(RuntimeError):
    """The run cannot go on to its end."""


class Stuck(RunFailed):
    """Jobs wait for ever; the message says which and why."""


class BadPlan(RunFailed):
    """A plan gives away what is not there; the message names the policy, the round, the node and the amounts."""


class PolicyFailed(RunFailed):
    """The policy raised, or returned no plan; the message names the policy, the round and the error."""


class BadAdvice(RunFailed):
    """A machine is to sleep on which a job runs, or there is no such machine."""
