"""What the loops of `coadapt.integrations` ask of the session; a script has no need for it."""

from __future__ import annotations

from . import api
from .sessions.framework_session import FrameworkSession
from .sessions.group_session import GroupSession


def in_job() -> bool:
    """Return whether a worker manages this process: it is one of a job, measured or tried."""
    return api.is_managed()


def leave_to_framework() -> None:
    """Let a framework train as it does without a job; what else a script asks of `coadapt` is answered."""
    if api.current() is None:
        api.use_session(FrameworkSession())


def is_last_pass() -> bool:
    """Return whether the script's batch is over with the part that it was given last."""
    return not _session().loop.partial


def batch_number() -> int:
    """Return the number of the script's batch within its loop over the data, from 1."""
    return _session().loop.number


def pass_number() -> int:
    """Return the number of the pass over the data, from 0."""
    return _session().position.epoch


def _session() -> GroupSession:
    session = api.current()
    if not isinstance(session, GroupSession):
        raise RuntimeError("no job runs in this process; call coadapt.prepare first")
    return session
