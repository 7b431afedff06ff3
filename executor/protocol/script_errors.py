"""What a training process and its executor both say of errors of a script. Pure."""

from __future__ import annotations

import signal

NEVER_PREPARED = "never called coadapt.prepare"
# Part of what gloo says when replicas send each other amounts that differ: they make different collectives.
MIXED_UP = "preamble.length"
SHARE_DECISIONS = "decide by values that all share, such as coadapt.combine(value)"


def different_ways(told: str) -> str:
    return f"replicas have gone different ways: {told}; {SHARE_DECISIONS}"


def error_behind(code: int, output: str) -> str:
    """The script's error behind a signal that ended its process after this output; "" where none is known.

    A thread of gloo's ends the process where another replica sends more than this one is to receive.
    """
    if code == -signal.SIGABRT and MIXED_UP in output:
        return different_ways("what they send each other differs in size")
    return ""
