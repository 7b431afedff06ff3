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


def mechanism_of(name: Provisioning) -> Mechanism:
    """Return the mechanism of a name."""
    found: dict[Provisioning, type[Mechanism]] = {
        Provisioning.PROPORTIONAL: Proportional,
        Provisioning.GREEDY: Greedy,
        Provisioning.TUNE: Tune,
        Provisioning.OPTIMAL: Optimal,
        Provisioning.PRICED: Priced,
    }
    return found[name]()
