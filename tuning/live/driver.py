"""Drives one study on a cluster: looks, decides, writes down, and only then acts.

It may be killed at any moment. What was decided and not done is decided again, with the same keys.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from ...core.phase import Phase
from ..actions import Action, Cancel, Finish, Keep, Submit, Weigh
from ..state import StudyState
from ..study import decide
from .epoch_clock import EpochClock
from .jobs import job_of, kept_epochs
from .seen import all_emulated, idle_gpus, others_wait, seen
from .store import Known, StudyStore

log = logging.getLogger(__name__)

EVENTS = 1000  # of a group at a time
_TERMINAL = ("succeeded", "failed", "cancelled")


class Cluster(Protocol):
    """The verbs of `client.Client` that a study needs."""

    def submit_told(self, told: Mapping[str, Any], idempotency_key: str) -> str: ...

    def keep_trials(self, job_id: str, trials: Sequence[int], *, with_state: bool = False) -> bool: ...

    def set_weight(self, job_id: str, weight: float) -> bool: ...

    def cancel(self, job_id: str, *, now: bool = False) -> bool: ...

    def jobs(self, *, ids: Sequence[str] = (), phases: Sequence[Phase] = ()) -> Sequence[Any]: ...

    def events(
        self,
        job_id: str | None = None,
        *,
        last: int = 200,
        kinds: Sequence[str] = (),
        since_s: float | None = None,
    ) -> Sequence[dict[str, Any]]: ...

    def cluster(self) -> Any: ...


class Driver:
    """Takes one study on, a tick at a time.

    Args:
        refused: errors of the cluster's verbs that mean no, and not that it is away.
    """

    def __init__(
        self,
        store: StudyStore,
        cluster: Cluster,
        refused: tuple[type[Exception], ...] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._cluster, self._refused, self._clock = store, cluster, refused, clock
        self.asked = store.asked
        self._study = self.asked.study
        self._base = dict(self.asked.told["spec"])
        self._last_s: float | None = None
        self._epochs = EpochClock()

    def tick(self) -> bool:
        """Look, decide and act; return whether the study is over, and nothing of it runs."""
        store, now_s = self._store, self._clock()
        state = store.state
        rows = self._look(state, now_s)
        known = store.known()
        if store.cancelled:
            return self._end(known, rows)
        nodes = self._cluster.cluster()["nodes"]
        idle = idle_gpus(nodes, self._base.get("pool"), self._base.get("resources", {}).get("gpu_types"))
        others = others_wait(self._cluster.jobs(phases=[Phase.QUEUED]), known.jobs.values())
        found = seen(self._study, state, known, rows, idle, now_s, all_emulated(nodes), self._epochs, others)
        state, actions = decide(self._study, state, found)
        store.save(state)
        store.note(f"trials run apart: {state.unfused}" if state.unfused else "")
        store.note(state.warning)
        for action in actions:
            self._act(action, actions, state, known, rows)
        return state.finished and all(self._is_over(job, rows) for job in known.jobs.values())

    def _look(self, state: StudyState, now_s: float) -> dict[str, dict[str, Any]]:
        """Return rows of the study's jobs by id, having written down what these have told."""
        known = self._store.known()
        rows = {row["id"]: row for row in self._cluster.jobs(ids=[*known.jobs.values()])} if known.jobs else {}
        used = {}
        for group, job in known.jobs.items():
            row = rows.get(job)
            if row is None or (group in state.groups and state.groups[group].state.over):
                continue
            if self._last_s is not None:
                used[group] = row["gpus"] * row.get("share", 1.0) * (now_s - self._last_s)
            self._time(state, group, row, now_s)
            epochs = known.epochs.get(group)
            since_s = epochs[-1][1] - 1.0 if epochs else None
            events = self._cluster.events(job, last=EVENTS, kinds=["trials"], since_s=since_s)
            self._store.hear(group, events)
        self._store.used(used)
        self._last_s = now_s
        return rows

    def _time(self, state: StudyState, group: str, row: Mapping[str, Any], now_s: float) -> None:
        """Time the epochs of a group; the least of the target is kept for later studies of the same job."""
        own = state.groups.get(group)
        if own is None or "fraction" not in row:
            return
        self._epochs.look(group, row["fraction"] * own.until, row["gpus"], now_s)
        found = self._epochs.of(group)
        if found is not None and own.shrink == 1 and len(own.runs) == 1:
            self._store.target_took(found)

    def _act(
        self,
        action: Action,
        actions: Sequence[Action],
        state: StudyState,
        known: Known,
        rows: Mapping[str, Mapping[str, Any]],
    ) -> None:
        match action:
            case Submit():
                if self._may_begin(action, known, rows):
                    self._submit(action, known)
            case Keep(group, runs):
                moved = {
                    origin.run
                    for one in actions
                    if isinstance(one, Submit)
                    for origin in one.origins.values()
                    if origin.group == group and origin.epoch not in kept_epochs(self._study)
                }
                self._ask(lambda: self._cluster.keep_trials(known.jobs[group], runs, with_state=bool(moved)))
            case Weigh(group, weight):
                self._ask(lambda: self._cluster.set_weight(known.jobs[group], weight))
            case Cancel(group):
                self._ask(lambda: self._cluster.cancel(known.jobs[group]))
            case Finish():
                pass  # the state says so

    def _may_begin(self, asked: Submit, known: Known, rows: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether the states are there that a group goes on from."""
        kept = kept_epochs(self._study)
        for origin in asked.origins.values():
            if asked.elastic or origin.epoch in kept:
                continue
            left = origin.run in known.left.get(origin.group, set())
            if not left and not self._is_over(known.jobs.get(origin.group, ""), rows):
                return False
        return True

    def _submit(self, asked: Submit, known: Known) -> None:
        told = self.asked.told
        spec = job_of(self.asked.id, self._study, self._base, asked, known.jobs)
        # Groups of another size or width are as fast as others of theirs, and not as the job alone.
        key = told.get("script_key", "")
        if not asked.elastic:
            key = f"{key[:180]}/{len(asked.runs)}/{asked.shrink}" if key else ""
        try:
            job = self._cluster.submit_told(
                {"spec": spec, "package": told["package"], "script_key": key}, f"{self.asked.id}/{asked.group}"
            )
        except self._refused as error:
            self._store.note(f"{asked.group} is not submitted: {error}")
            return
        self._store.submitted(asked.group, job)
        known.jobs[asked.group] = job

    def _end(self, known: Known, rows: Mapping[str, Mapping[str, Any]]) -> bool:
        """End all jobs of a study that its user has cancelled; return whether all have ended."""
        running = [job for job in known.jobs.values() if not self._is_over(job, rows)]
        for job in running:
            self._ask(lambda job=job: self._cluster.cancel(job))  # type: ignore[misc]
        return not running

    def _is_over(self, job: str, rows: Mapping[str, Mapping[str, Any]]) -> bool:
        return job not in rows or rows[job]["phase"] in _TERMINAL

    def _ask(self, order: Callable[[], bool]) -> None:
        """Have something done; a job that has ended meanwhile is seen at the next look."""
        try:
            order()
        except self._refused as error:
            log.info("study %s: %s", self.asked.id, error)
