"""The mechanisms by name."""

from __future__ import annotations

from enum import StrEnum

from .greedy import Greedy
from .mechanism import Mechanism
from .optimal import Optimal
from .priced import Priced
from .proportional import Proportional
from .tune import Tune


class Provisioning(StrEnum):
    """How CPUs and memory are chosen, and nodes with them."""

    PROPORTIONAL = "proportional"  # everybody gets the share of its GPUs
    GREEDY = "greedy"  # the best-case demand on the first node that has it, or nothing
    TUNE = "tune"  # best-case demands, and shares where they do not fit
    OPTIMAL = "optimal"  # by two linear programs; a yardstick
    PRICED = "priced"  # by prices for all jobs together


def mechanism_of(name: Provisioning, *, hands_out: bool = True) -> Mechanism:
    """Return the mechanism of a name. `hands_out`: whether the jobs that gain most get what is left over."""
    if name is Provisioning.PROPORTIONAL:
        return Proportional()
    if name is Provisioning.GREEDY:
        return Greedy()
    if name is Provisioning.TUNE:
        return Tune(hands_out=hands_out)
    return Optimal(hands_out=hands_out) if name is Provisioning.OPTIMAL else Priced(hands_out=hands_out)
