"""An abort by a library is explained to the owner of the script if its reason is known."""

from __future__ import annotations

import signal

from coadapt.executor.protocol.script_errors import MIXED_UP, SHARE_DECISIONS, error_behind

GLOO = f"[enforce fail at pair.cc] op.preamble.length <= op.nbytes. 8 vs 4 {MIXED_UP}"


def test_replicas_that_took_different_branches_hear_so_instead_of_a_signal() -> None:
    error = error_behind(-signal.SIGABRT, GLOO)
    assert error.startswith("replicas have gone different ways")
    assert error.endswith(SHARE_DECISIONS)


def test_any_other_end_is_not_explained_away() -> None:
    assert error_behind(-signal.SIGABRT, "Fatal Python error: Aborted") == ""
    assert error_behind(-signal.SIGSEGV, GLOO) == ""
    assert error_behind(1, GLOO) == ""
