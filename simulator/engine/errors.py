"""Why a run cannot go on; each error is one sentence."""

from __future__ import annotations


class RunFailed(RuntimeError):
    """The run cannot go on to its end."""


class Stuck(RunFailed):
    """Jobs wait for ever; which and why."""


class BadPlan(RunFailed):
    """A plan gives away what is not there; the policy, the time of the round, the node and the amounts."""
