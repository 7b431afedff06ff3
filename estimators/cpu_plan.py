"""At which numbers of CPUs the input of a job is measured (Synergy, OSDI'22, section 3.1). Pure.

Bisection puts the points where the rate changes: from all CPUs down to half of them as long as the rate stays, and
up again where it falls by more than a threshold. 1 CPU and the share are added. The plan is a function of what was
measured. So a process that replaces one that was killed goes on where that one ended, and points above the CPUs
that were free are added once more are.
"""

from __future__ import annotations

from collections.abc import Mapping

THRESHOLD = 0.1


def next_cpus(
    measured: Mapping[int, float], most: int, share: int = 1, threshold: float = THRESHOLD
) -> int | None:
    """Return the number of CPUs to measure next; None: all that are needed were.

    Args:
        measured: CPUs -> samples/s.
        most: CPUs that may be used now.
        share: the GPUs' part of the node.

    Raises: ValueError, one sentence, for fewer than 1 CPU.
    """
    if most < 1:
        raise ValueError(f"most: {most} CPUs to measure on; 1 or more is accepted")
    low, high = 1, most
    if high not in measured:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if middle not in measured:
            return middle
        if measured[high] < (1 + threshold) * measured[middle]:
            high = middle
        else:
            low = middle
    return next((cpus for cpus in (1, min(max(share, 1), most)) if cpus not in measured), None)
