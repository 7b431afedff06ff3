"""What Accelerate knows of its processes, in a job.

To Accelerate, a job is one process: it divides no batches and combines nothing, since the session does both.
Only the process's place is the job's, so that one replica logs and saves.
"""

from __future__ import annotations

from typing import Any

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

from ..executor.training import api


def be_one_process() -> None:
    """Let Accelerate be one process, whatever it has read from the environment."""
    for shared in (PartialState._shared_state, AcceleratorState._shared_state):
        if shared:
            shared.update(distributed_type=DistributedType.NO, backend=None, num_processes=1)
    follow_rank()


def follow_rank() -> None:
    """Tell Accelerate which replica this is; it may have become another one."""
    place: dict[str, Any] = {"process_index": api.rank(), "local_process_index": api.rank()}
    for shared in (PartialState._shared_state, AcceleratorState._shared_state):
        if shared:
            shared.update(place)
