"""How long an executor waits for what it has asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """Bound each wait, in seconds. A worker that does not answer in time is killed; the rest goes on."""

    spawn_s: float = 600.0  # actor and its runtime environment
    start_s: float = 300.0  # from process start to `prepare`
    gather_s: float = 30.0  # ready workers wait for the others so long, then go ahead without them
    regroup_s: float = 60.0
    broken_s: float = 15.0  # survivors notice a lost member
    abort_s: float = 15.0  # whoever only waited for a hung rank answers, once the group is aborted
    stop_s: float = 120.0  # write a checkpoint and end
    exit_s: float = 15.0  # a leaver ends
    finish_s: float = 600.0  # what the script does after its last epoch
    last_s: float = 30.0  # others end so long after rank 0 has
    hang_s: float = 300.0
    profile_s: float = 900.0
