"""The exit status of every `coadapt` command, on which scripts may rely, and the errors behind it."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit statuses."""

    OK = 0
    JOB_FAILED = 1  # a job that was waited for did not succeed, or the request failed inside the cluster
    USAGE = 2  # wrong option, bad job file, bad node specification, or a verb that does not fit the job
    NO_CLUSTER = 3  # nothing runs, or it cannot be reached
    NOT_FOUND = 4  # no such job
    INTERRUPTED = 130  # Ctrl-C; jobs go on


class JobNotFound(LookupError):
    """No job has this id or name."""


class AmbiguousJob(LookupError):
    """Several jobs have this name."""


class Interrupted(Exception):
    """Ctrl-C was pressed while jobs were waited for. The message says how to come back to them."""


def code_of(error: BaseException) -> Exit | None:
    """Return the exit status of an error that a user may cause; None: it is a defect of ours."""
    from ..client.client import AccessError, NoClusterError, RequestError, UnknownJobError
    from ..client.cluster_record import LocalClusterError
    from ..client.jobfile import JobFileError
    from ..core.emulated_nodes import EmulationError
    from ..core.errors import (
        FunctionError,
        JobStateError,
        OutputError,
        PackageError,
        PowerError,
        SettingError,
        StateError,
        StoreError,
        TeamsError,
        WhatIfError,
    )
    from ..deploy.start_service import SettingsError

    kinds: list[tuple[tuple[type[BaseException], ...], Exit]] = [
        ((KeyboardInterrupt, Interrupted), Exit.INTERRUPTED),
        ((NoClusterError, LocalClusterError, AccessError), Exit.NO_CLUSTER),
        ((JobNotFound, UnknownJobError), Exit.NOT_FOUND),
        ((StateError,), Exit.JOB_FAILED),
        ((AmbiguousJob, EmulationError, JobFileError, OutputError, PackageError, SettingsError), Exit.USAGE),
        ((FunctionError, JobStateError, PowerError, RequestError, SettingError, StoreError), Exit.USAGE),
        ((TeamsError, WhatIfError), Exit.USAGE),
    ]
    return next((code for kind, code in kinds if isinstance(error, kind)), None)
