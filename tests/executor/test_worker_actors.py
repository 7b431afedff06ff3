"""The end of a worker actor is told in words for the job's owner, and whether its GPUs were shared is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coadapt.core.slot import Slot
from coadapt.executor.files.job_folder import FolderError
from coadapt.executor.protocol.worker_events import Gone
from coadapt.executor.requirements import RequirementsError, first_error
from coadapt.executor.sandbox.line import IsolationError
from coadapt.executor.worker_actors import WorkerActors, gone
from ray.exceptions import ActorUnavailableError, RayTaskError

PIP_OUTPUT = """Run cmd[7] failed with the following details.
Last 50 lines of stdout:
    Looking in indexes: https://pypi.org/simple
    ERROR: Could not find a version that satisfies the requirement nonsense==9 (from versions: none)
    ERROR: No matching distribution found for nonsense==9

    [notice] A new release of pip is available
"""


@pytest.mark.parametrize(
    ("error", "reason", "setup_failed"),
    [
        (
            RayTaskError("run", "a long traceback", RequirementsError(first_error(PIP_OUTPUT))),
            "could not set up its environment: "
            "Could not find a version that satisfies the requirement nonsense==9 (from versions: none)",
            True,
        ),
        (
            RayTaskError("run", "a long traceback", IsolationError("isolation: user needs a cluster of root")),
            "could not be set apart: isolation: user needs a cluster of root",
            True,
        ),
        (
            RayTaskError("run", "a long traceback", FolderError("/w/j on host cannot be made: the disk is full")),
            "could not set up its folder: /w/j on host cannot be made: the disk is full",
            True,
        ),
        (ActorUnavailableError("RpcError: rpc_code: 14", None), "was lost: it no longer answers", False),
        (OSError("disk\nand more"), "was lost with its worker (disk)", False),
        (None, "was lost with its worker", False),
    ],
)
def test_the_end_of_a_worker_is_told_in_a_line(error: Exception | None, reason: str, setup_failed: bool) -> None:
    assert gone(error) == Gone(reason, setup_failed)


class Handle:
    """What Ray gives for an actor, as far as a share is told."""

    def __init__(self) -> None:
        self.told: list[float] = []
        self.share = self

    def remote(self, part: float) -> None:
        self.told.append(part)


def test_whoever_had_a_partner_since_the_last_report_was_not_alone() -> None:
    actors, handle = WorkerActors("job-1", lambda worker, why: None), Handle()
    whole = Slot("n0", "lease", (0,), "t4")
    half = replace(whole, share=0.5)
    actors._actors["w"], actors._slots["w"] = handle, whole
    assert actors.alone()
    actors.share([half])
    assert not actors.alone(), "a partner came"
    assert not actors.alone(), "it is still there"
    actors.share([whole])
    assert not actors.alone(), "it was there for a part of the time"
    assert actors.alone()
    assert handle.told == [0.5, 1.0]
