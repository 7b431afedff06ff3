"""How a job of a trace ended. It is known only afterwards, so no estimator may see it."""

from __future__ import annotations

from enum import StrEnum


class FinalState(StrEnum):
    """As Slurm names it (Helios, SC'21, section 2.3)."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    TIMEOUT = "timeout"
    NODE_FAIL = "node_fail"

    @property
    def counted_as(self) -> FinalState:
        """Return the one of three as which the paper counts it: time-outs and lost nodes are failures."""
        return FinalState.FAILED if self in (FinalState.TIMEOUT, FinalState.NODE_FAIL) else self


def final_state(text: str) -> FinalState | None:
    """Return the state of a log's word, such as `COMPLETED` or `CANCELLED by 1000`; None: it is none of them."""
    words = text.strip().lower().replace("canceled", "cancelled").split()
    if not words or words[0] not in _BY_VALUE:
        return None
    return _BY_VALUE[words[0]]


_BY_VALUE = {state.value: state for state in FinalState}
