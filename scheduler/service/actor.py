"""The scheduler service: one detached Ray actor around a `SchedulingCycle`. It decides nothing itself.

A thread runs a cycle whenever something happened or time has passed. Users' questions, which desks answer, and
executors' events come in between. The actor may be killed at any moment. It starts again from the store and the
executors that answer.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.logs import write_logs
from ...core.settings import Settings
from ...core.wording import in_words
from ...estimators.measurements import Measurements
from ...executor.protocol.envelope import UnknownMessage, unpacked
from ...executor.protocol.job_events import Sent
from ...policies.catalogue import live_policy
from ..changes.rest import may_have_executor
from ..runtime.loop import Loop
from ..runtime.patience import Patience
from .assembly import CLOCK, assembled
from .desks_of import desks_of

log = logging.getLogger(__name__)

SAVE_CLOCK_S = 60.0  # how often the time is stored
REATTACH_TRIES, REATTACH_S = 5, 1.0  # while Ray's control plane starts again with the service


class SchedulerService:
    """The class of the actor. Its public methods are its interface. All but `shutdown` return at once.

    The API asks by `ask`, executors tell by `on_event`, and `coadapt up` and `down` call the others.

    Args:
        begun: names the `coadapt up` at which these settings were typed.

    Raises: ValueError for options that the policy does not accept; StoreError for a store of another version.
    """

    def __init__(self, settings: Settings, begun: str = "") -> None:
        write_logs("scheduler", settings.log_format)
        live_policy(settings.policy, **settings.policy_options)
        self._parts = parts = assembled(settings, begun)
        self._clock_saved_s = -math.inf
        begin = (
            parts.folders.clean_rest,
            parts.forks.begin_rest,
            self._reattach,
            parts.readiness.warm_up,
        )
        patience = Patience(Path(settings.state_dir) / "ended_in_ticks")
        self._loop = Loop(
            parts.store,
            parts.watch,
            parts.clock,
            begin,
            self._step,
            parts.cycle.idle_s,
            parts.wake,
            patience=patience,
        )
        self._desks = desks_of(parts, self._loop.health)
        parts.view.start()
        parts.housekeeping.start()
        parts.deliveries.start()
        self._loop.start()
        log.info("begun with policy %s and the store %s", settings.policy, settings.store)

    # --- what the API and executors call --------------------------------------------------------------------

    def ask(self, method: str, args: Sequence[Any] = ()) -> Any:
        """Return what a method of a desk returns, as `Desks.ask` does."""
        return self._desks.ask(method, args)

    def on_event(self, job_id: str, message: object, life: int = 0) -> Sent:
        """Take in an event of the executor of one life of a job. Repeated and late ones do no harm.

        Return what its job was sent by then. A message that only a later version knows is logged.
        """
        try:
            event = unpacked(message, Measurements.from_json)
        except (UnknownMessage, ValueError, KeyError, TypeError, AttributeError) as error:
            return self._parts.cycle.not_understood(job_id, in_words(error))
        return self._parts.cycle.on_event(job_id, event, life)

    # --- what `coadapt up` and `down` call, also of the version before ----------------------------------------

    def settings(self) -> dict[str, Any]:
        """Return all settings, by name."""
        return self.ask("settings")

    def settings_rows(self) -> Sequence[dict[str, Any]]:
        """Return a `core.schemas.SettingRow` of each setting."""
        return self.ask("settings_rows")

    def ping(self) -> bool:
        """Return whether rounds can run."""
        return self.ask("ping")

    def compiling(self) -> bool:
        """Return whether the first round waits only for its kernels."""
        return self.ask("compiling")

    def cluster(self) -> dict[str, Any]:
        """Return `core.schemas.ClusterView`."""
        return self.ask("cluster")

    def authenticate(self, token: str) -> dict[str, Any] | str:
        """Return whose token it is, as `Identities.authenticate` does."""
        return self.ask("authenticate", (token,))

    def put_user(self, name: str, role: str) -> bool:
        """Make a user or change its role. Raises: IdentityError; StateError."""
        return self.ask("put_user", (name, role))

    def issue_token(self, user: str, label: str) -> dict[str, Any]:
        """Make a token that does not expire. Raises: IdentityError; StateError."""
        return self.ask("issue_token", (user, label))

    def others(self, user: str) -> dict[str, int]:
        """Return how many active jobs each other user has; "" stands for those of nobody known."""
        jobs = self._parts.store.unretired.values()
        return dict(sorted(Counter(job.owner for job in jobs if job.active and job.owner != user).items()))

    def shutdown(self, grace_s: float = 30.0, *, keep_jobs: bool = False) -> None:
        """Checkpoint and stop every job, then give the nodes back. The jobs go on at the next start.

        Args:
            keep_jobs: whether executors train on and find the next service. Then only this service ends.
        """
        parts = self._parts
        self._loop.stop()
        parts.housekeeping.stop()
        parts.pruning.stop()
        parts.forecaster.stop()
        parts.asker.stop()
        if keep_jobs:
            parts.executors.drain(grace_s)
        else:
            self._stop_jobs(grace_s)
        parts.deliveries.stop()  # after the last of what jobs were told
        parts.listeners.stop()
        parts.view.stop(drop_leases=not keep_jobs)
        with parts.cycle.lock:
            parts.store.write_fact(CLOCK, parts.clock.saved())
            parts.store.close()  # what is told from now on is told again to the next service

    def _stop_jobs(self, grace_s: float) -> None:
        parts = self._parts
        parts.cycle.stop_all()
        deadline_s = parts.clock.monotonic_s() + grace_s
        # Only a group that trains has something to save. Profile runs and starting workers just end.
        while parts.clock.monotonic_s() < deadline_s and any(job.group for job in parts.store.unretired.values()):
            parts.wake.wait(0.1)
            parts.wake.clear()
        jobs = [job for job in parts.store.unretired.values() if may_have_executor(job)]
        parts.executors.end_all(jobs, grace_s)

    # --- the loop -------------------------------------------------------------------------------------------

    def _reattach(self) -> None:
        """Find the executors again. Ray's control plane may start again together with the service."""
        tries = 1
        while not self._loop.guard(self._parts.cycle.reattach) and not self._loop.stopping:
            if tries >= REATTACH_TRIES and self._parts.watch.degraded is None:
                break
            tries += 1
            self._parts.wake.wait(REATTACH_S)

    def _step(self) -> None:
        parts = self._parts
        if parts.clock.monotonic_s() - self._clock_saved_s > SAVE_CLOCK_S:
            parts.store.write_fact(CLOCK, parts.clock.saved())
            self._clock_saved_s = parts.clock.monotonic_s()
        with parts.cycle.lock:
            if parts.closing.tick(parts.in_use):
                parts.nodes_changed()
        parts.listeners.look(parts.closing.snapshot)
        parts.cycle.step()
        with parts.cycle.lock:
            now, last = parts.clock.steady_s(), parts.cycle.last_round
            changed = parts.power.tick(parts.in_use, now)
            done = None if last is None else (last.number, last.round, last.plan)
            changed = parts.scaling.tick(parts.in_use, done, now) or changed
        if changed:
            parts.nodes_changed()
