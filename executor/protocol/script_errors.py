"""Sentences about errors of a script that a training process and its executor share. Pure."""

from __future__ import annotations

import signal

NEVER_PREPARED = "never called coadapt.prepare"
OTHER_SCRIPT = "checkpoint: "  # begins the sentences on a checkpoint that is of another script
# Gloo says so when replicas send amounts that differ, since they make different collectives.
MIXED_UP = "preamble.length"
SHARE_DECISIONS = "decide by values that all share, such as coadapt.combine(value)"


def different_ways(told: str) -> str:
    """Return the sentence for replicas that took different branches; `told` says how that was seen."""
    return f"replicas have gone different ways: {told}; {SHARE_DECISIONS}"


def error_behind(code: int, output: str) -> str:
    """Return the script's error behind a signal that ended its process after this output, or "".

    A thread of gloo aborts the process if another replica sends more than this one expects.
    """
    if code == -signal.SIGABRT and MIXED_UP in output:
        return different_ways("what they send each other differs in size")
    return ""
