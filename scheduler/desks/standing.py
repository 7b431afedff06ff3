"""Takes what users want of how their jobs stand among others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...core.team_rules import check_priority
from ...core.teams import Priority
from ..changes import standing_verbs
from ..changes.trials import keep
from ..changes.verbs import Verb
from ..cycle import SchedulingCycle
from ..runtime.applied_teams import AppliedTeams
from ..store.store import Store


class StandingDesk:
    """Changes jobs, once for the same key. Each method returns False if there is nothing to do.

    Raises: KeyError, JobStateError; JobLimitError for what the job's team does not allow.
    """

    def __init__(self, store: Store, cycle: SchedulingCycle, teams: AppliedTeams) -> None:
        self._store, self._cycle, self._teams = store, cycle, teams

    def set_priority(self, job_id: str, priority: str, key: str) -> bool:
        """Let the progress of a job be worth more or less."""
        wanted = Priority(priority)
        check_priority(wanted, self._store.get(job_id).spec.team, self._teams.now)
        return self._do(job_id, partial(standing_verbs.set_priority, priority=wanted), key)

    def set_weight(self, job_id: str, weight: float, key: str) -> bool:
        """Let the progress of a job be worth more or less beside others of its priority."""
        return self._do(job_id, partial(standing_verbs.set_weight, weight=weight), key)

    def hold(self, job_id: str, key: str, operator: str = "") -> bool:
        """Let a job start on no GPUs until it is released. `operator`: who asks as one; "": its user does."""
        return self._do(job_id, partial(standing_verbs.hold, operator=operator), key)

    def release(self, job_id: str, key: str, operator: str = "") -> bool:
        """Let a job that is on hold start again. What an operator holds only an operator releases."""
        return self._do(job_id, partial(standing_verbs.release, operator=operator), key)

    def bump(self, job_id: str, key: str) -> bool:
        """Let a job come first among those of its user that wait."""
        return self._do(job_id, standing_verbs.bump, key)

    def extend(self, job_id: str, by_s: float, key: str) -> bool:
        """Move the time limit of a job."""
        return self._do(job_id, partial(standing_verbs.extend, by_s=by_s), key)

    def keep_trials(self, job_id: str, trials: Sequence[int], with_state: bool, key: str) -> bool:
        """Let a group train only these of its trials on."""
        return self._do(job_id, partial(keep, numbers=trials, with_state=with_state), key)

    def _do(self, job_id: str, verb: Verb, key: str) -> bool:
        return self._cycle.orders.do(job_id, verb, key, keeps=True)
