"""One scheduling cycle: observe, keep records true, snapshot, plan, place and diff, apply.

A cycle knows neither Ray nor threads. Whoever runs it calls `step` when something happened or time has passed.
Executors' events and users' verbs come in between, also while a policy plans: the lock is not held then.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..core.deadline_answer import DeadlineAnswer
from ..core.events import EventKind
from ..core.job import Phase
from ..core.logs import about
from ..core.settings import Settings
from ..core.slot import Slot
from ..core.wording import pool_called
from ..estimators.run_lengths import RunLengthLearner
from ..executor.protocol.job_events import NOTHING_SENT, ExecutorEvent, Released, Sent
from ..policies.contract.plan_check import WrongPlan, check_plan
from ..policies.contract.round import Plan, Planner, Round
from ..policies.contract.traits import ORDINARY, PolicyTraits
from .changes.deadlines import with_answer
from .changes.drain import stays
from .changes.reactions import claim, end, force_out, lose_everything, react, start_profile, with_forecast
from .changes.rest import leaves_node, may_have_executor
from .changes.upkeep import steps
from .executors.executor_backend import ExecutorBackend
from .guarding import Guard, log_error
from .job_orders import JobOrders
from .jobs.fitting_types import allowed_types
from .jobs.limits import EVERYTHING, admission
from .jobs.own_order import in_own_order
from .jobs.record import JobRecord, Stopped
from .nodes.node_source import NodeSource
from .nodes.node_view import NodesSnapshot
from .observers.causes import Causes, facts
from .observers.foresight import Foresight
from .observers.gpu_time import GpuTimeHook
from .observers.hooks import CycleHook, HookError, Hooks, IntervalHook, PlanLogHook, RoundDone
from .observers.known_profiles import KnownProfiles
from .observers.known_uses import KnownUses
from .observers.learning import LearningHook
from .observers.mean_prices import MeanPrices
from .observers.phase_times import PhaseTimes
from .observers.round_log import RoundLog
from .observers.spending import Spending
from .observers.tallies import Tallies
from .reattachment import reattach
from .records import Records
from .rounds.borrowers import changed_by
from .rounds.expectations import NO_LENGTHS
from .rounds.launcher import ForceOut
from .rounds.models import ModelCache
from .rounds.round_times import RoundTimes
from .rounds.snapshot import TRAINED_IN, Snapshot, take_snapshot
from .rounds.team_shares import TeamShares
from .rounds.transition import CycleAction, StartProfile, Wanted, actions, in_use, plan_slots, without_given_up
from .runtime.applied_teams import AppliedTeams
from .runtime.clock import Clock
from .runtime.degraded import StoreWatch
from .runtime.garbage import not_collected
from .services.contract import Advice
from .store.events import Event
from .store.failures import StoreError
from .store.store import Store

log = logging.getLogger(__name__)

MOST_EXECUTOR_LOSSES = 3  # without progress between them; after one more the job fails


@dataclass(frozen=True)
class CycleResult:
    """What one cycle saw, decided and sent.

    `changed`: jobs that upkeep looked at. `round`, `plan`: None where no round was due, `plan` also where the
    policy raised. `timings`: seconds of each phase that ran.
    """

    number: int
    observed: NodesSnapshot
    changed: tuple[str, ...] = ()
    round: Round | None = None
    plan: Plan | None = None
    actions: tuple[CycleAction, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)


class SchedulingCycle:
    """The control loop of one cluster over one store.

    Args:
        advised: takes what services advise on machines after a round, with the time.
        answers: returns what jobs are told of their deadlines by now, by id.
        woken: called when there is something to do before the next look at the nodes.
        watch: knows whether the store writes.
        traits: returns what the policy declares that plans now.
        strict: whether hooks that raise end the cycle, as tests want it.
    """

    def __init__(
        self,
        store: Store,
        policy: Planner,
        nodes: NodeSource,
        executors: ExecutorBackend,
        clock: Clock,
        settings: Settings,
        *,
        hooks: Sequence[CycleHook] = (),
        advised: Callable[[Advice, float], None] = lambda advice, now: None,
        answers: Callable[[RoundDone | None, float], Mapping[str, DeadlineAnswer]] = lambda last, now: {},
        strict: bool = False,
        woken: Callable[[], None] = lambda: None,
        watch: StoreWatch | None = None,
        traits: Callable[[], PolicyTraits] = lambda: ORDINARY,
    ) -> None:
        self._answers = answers
        self._watch, self._traits = watch or StoreWatch(clock), traits
        self._store, self._policy, self._nodes, self._executors = store, policy, nodes, executors
        self._planner: Planner = policy  # that made, or makes, the newest plan
        self._clock, self._settings, self._woken = clock, settings, woken
        self._known, self._uses = KnownProfiles(store), KnownUses(store)
        self._log = partial(log_error, store, clock)
        failed = partial(self._log, None)
        self.learning = LearningHook(store, RunLengthLearner(), NO_LENGTHS, settings.learned_dir, clock, failed)
        self.teams, self.mean_prices = AppliedTeams(store), MeanPrices(store)
        self._shares = TeamShares(store, lambda: self.mean_prices.now)
        self.spending = Spending(store, clock, lambda: self.mean_prices.now)
        self._admission = EVERYTHING  # of the newest round
        self.phase_times, self.tallies = PhaseTimes(), Tallies(clock, store.unretired.values())
        self.foresight = Foresight(settings.services, store, settings.learned_dir, advised, failed)
        own = (IntervalHook(store), PlanLogHook(store), self._known, self._uses, self.learning, self.foresight)
        hooks = (
            *own,
            self.mean_prices,
            GpuTimeHook(store, clock, store.unretired.values()),
            self.phase_times,
            self.tallies,
            RoundLog(store, clock),
            *hooks,
        )
        self._hooks = Hooks(hooks, strict=strict)
        self._records = Records(store, executors, self._hooks, settings)
        self._models = ModelCache()
        self._wanted: Wanted | None = None
        self._losses: dict[str, tuple[int, float]] = {}  # losses in a row, and the job's progress at the last
        self._observed = NodesSnapshot()
        self._known_version = 0
        self._times = RoundTimes(clock, settings)
        self._number = 0
        self._stopped = False
        self.unplanned: str | None = None  # why the policy did not plan the last round; None: it did
        self.rounds = 0
        self._planned_s: float | None = None  # when the last round was
        self.last_round: RoundDone | None = None
        self._done: RoundDone | None = None  # as `last_round`, whichever policy planned it
        self._causes: Causes | None = None  # what differs between the last two rounds
        self.lock = threading.RLock()
        self._guard = Guard(store, self._records, clock, self.lock)
        self.orders = JobOrders(
            store,
            self._records,
            clock,
            self._watch,
            self.tallies,
            self.lock,
            lambda: self._wanted,
            self.ask_round,
        )

    # --- one cycle ------------------------------------------------------------------------------------------

    @not_collected()
    def step(self) -> CycleResult:
        """Run one cycle. Nothing happens before the nodes are known."""
        nodes = self._nodes.snapshot
        self._number += 1
        if not nodes.ready:
            return CycleResult(self._number, nodes)
        now, timings = self._clock.steady_s(), dict[str, float]()
        plan: Plan | None = None
        snapshot: Snapshot | None = None

        with self.lock:
            # 1. Observe: what has happened since the last cycle.
            with self._timed("observe", timings):
                to_look_at = self._observe(nodes, now)
            # 2. Keep records true: what nodes, time and other jobs' measurements make of them.
            with self._timed("upkeep", timings), self._guard.guarded(None), self._records.together():
                for job_id in to_look_at:
                    self._keep(job_id, nodes, now)
                for job_id, foretold in self.foresight.foretell(now).items():
                    self._records.apply(with_forecast(self._store.get(job_id), foretold), now)
                for job_id, told in self._answers(self._done, now).items():
                    self._records.apply(with_answer(self._store.get(job_id), told, now), now)
            due = self._round_due()

        if due:
            # 3. Snapshot: everything that wants GPUs, as one value.
            with self._timed("snapshot", timings):
                snapshot = self._snapshot(nodes, now)
            # 4. Plan: the policy decides, and nobody waits for it.
            with self._timed("plan", timings), about(round=self.rounds + 1):
                plan = self._plan(snapshot.round)

        with self.lock:
            # 5. Place and diff: slots of the plan, and which commands may be sent at once.
            with self._timed("place", timings):
                if snapshot is not None and plan is not None:
                    self._place(snapshot, plan, nodes, timings["snapshot"] + timings["plan"])
            with self._timed("diff", timings):
                news = due or to_look_at or self._records.changed
                sent = self._diff(nodes, now) if news and not self._stopped else []
            # 6. Apply: write first, then send.
            with self._timed("apply", timings), self._guard.guarded(None), self._records.together():
                for action in sent:
                    self._apply(action, nodes, now)

        if due:
            self._times.end()
        self._hooks.stepped(timings)
        if self._records.changed:
            self._woken()
        round = snapshot.round if snapshot is not None else None
        return CycleResult(self._number, nodes, tuple(to_look_at), round, plan, tuple(sent), timings)

    def _observe(self, nodes: NodesSnapshot, now: float) -> list[str]:
        """Return the jobs to look at, in submission order."""
        before, self._observed = self._observed, nodes
        records = self._records
        anew = nodes.differ_from(before)
        ids, records.changed = records.changed | records.due(now), set()
        jobs = self._store.unretired
        self._losses = {job_id: lost for job_id, lost in self._losses.items() if job_id in jobs}
        if self._known.version != self._known_version:
            self._known_version = self._known.version
            ids |= records.to_measure
        if anew:
            self.ask_round()
            return list(jobs)
        return sorted(ids & jobs.keys(), key=lambda job_id: jobs[job_id].number)

    def _keep(self, job_id: str, nodes: NodesSnapshot, now: float) -> None:
        job = self._store.get(job_id)
        if job.quarantine and job.active:
            return
        with self._guard.guarded(job_id):
            serves, known = self._traits().serves_deadlines, self._known.with_known
            for step in steps(job, nodes, self._settings, known, now, self._store.find, serves):
                reaction = step(self._store.get(job_id))
                if reaction.job is not job or reaction.events:
                    job = self._records.apply(reaction, now)

    def _snapshot(self, nodes: NodesSnapshot, now: float) -> Snapshot:
        self._records.round_asked = False
        self._times.begin()
        taking_part = in_own_order([job for job in self._store.unretired.values() if _takes_part(job, nodes)])
        kept = {job.id for job in taking_part if job.quarantine or stays(job, nodes)}
        jobs = [job for job in taking_part if job.id not in kept]
        set_aside = [job for job in taking_part if job.id in kept]
        trained, teams = [job for job in jobs if job.phase in TRAINED_IN], self.teams.now
        spent, cluster = self.spending.now(teams), nodes.cluster
        self._admission = limits = admission(
            trained, teams, spent, lambda job: allowed_types(job.spec, cluster), set_aside
        )
        jobs, trained = ([job for job in some if job.id not in limits.held_out] for some in (jobs, trained))
        models = self._models.models(trained, nodes.cluster.gpu_types, self._guard.quarantine)
        lengths = self.learning.model
        asleep, store = nodes.asleep, self._store
        return take_snapshot(
            jobs,
            models,
            cluster,
            store,
            self._settings,
            now,
            lengths,
            asleep,
            set_aside=set_aside,
            most=limits.most,
            sharing=self._shares.now(teams, [*jobs, *set_aside], limits.least, now),
            uses=self._uses.of,
            arriving=self.foresight.arriving(now),
            foresight=self.foresight.of_teams(now),
            provisions=self._traits().provisions,
        )

    def _plan(self, round: Round) -> Plan | None:
        try:
            self._planner = self._policy
            plan = self._planner.plan(round)
            check_plan(plan, round, self._traits().crosses_pools)
        except Exception as error:
            self._unplanned(f"round {self.rounds + 1}: {_with_line(error)}")
            return None
        if plan.failures:
            failures = sorted(plan.failures.items())
            self._unplanned("; ".join(f"{pool_called(pool)}: {_with_line(error)}" for pool, error in failures))
        elif self.unplanned is not None:
            self.unplanned = None
            text = f"the policy plans again, from round {self.rounds + 1} on"
            self._store.log(Event(EventKind.PLANNED, self._clock.steady_s(), None, {"text": text}))
        return plan

    def _unplanned(self, why: str) -> None:
        """Log why a round, or a part of it, has no plan; once if the next rounds fail alike.

        What was wanted before stays wanted, and the next round tries again.
        """
        self.tallies.rounds_failed += 1
        told = f"the policy did not plan {why}"
        self._hooks.unplanned(told)
        if told != self.unplanned:
            log.error("%s", told)
            self._log(None, told)
        self.unplanned = told

    def _place(self, snapshot: Snapshot, plan: Plan, nodes: NodesSnapshot, seconds: float) -> None:
        self._times.ask_again(plan.again_s, snapshot.round.now)
        jobs, traits = self._store.unretired.values(), self._traits()
        failed = self._guard.failed
        self._wanted = plan_slots(snapshot, plan, nodes, jobs, failed, traits.tenants, traits.provisions)
        if changed := changed_by(plan, jobs):
            self._store.save_all(changed, (), self._clock.steady_s())
        self.rounds += 1
        self._planned_s = self._clock.monotonic_s()
        done = RoundDone(
            self.rounds, snapshot.round, plan, dict(self._wanted.slots), seconds, self._admission.held_out
        )
        self.last_round = done if self._planner is self._policy else None  # another one could not explain it
        self._causes = None if self._done is None else Causes(self._done, done, self._became)
        self._done = done
        self._hooks.planned(done)

    def _became(self, job_id: str) -> str:
        """Return what became of a job that takes part in rounds no longer."""
        job = self._store.find(job_id)
        return "ended" if job is None or not job.active else "was paused" if job.paused else "left"

    def _diff(self, nodes: NodesSnapshot, now: float) -> list[CycleAction]:
        jobs, holding = self._store.unretired, self._store.holding
        late_s, teams = self._settings.release_timeout_s, self.teams.now
        return actions(jobs, holding, self._wanted, nodes, late_s, now, teams)

    def _apply(self, action: CycleAction, nodes: NodesSnapshot, now: float) -> None:
        job_id = action.work.job_id if isinstance(action, StartProfile) else action.job_id
        with self._guard.guarded(job_id):
            job = self._store.get(job_id)
            if isinstance(action, StartProfile):
                job = _on_machines(job, [action.slot], nodes)
                job = self._records.apply(start_profile(job, action.work.gpu_type, action.slot, now), now)
                self._send(job, lambda: self._executors.profile(job, action.slot, job.profile_sequence))
            elif isinstance(action, ForceOut):
                self._records.apply(force_out(job, now), now)
            else:
                going = any(slot.node_id in nodes.draining for slot in job.target)
                self._assign(job, action.slots, Stopped.DRAINED if going else Stopped.EVICTED, nodes)

    def _assign(self, job: JobRecord, slots: tuple[Slot, ...], why: Stopped, nodes: NodesSnapshot) -> None:
        """Have a job use other slots; `why` it leaves its GPUs, where it gets none."""
        now = self._clock.steady_s()
        causes = facts(self._causes, job.id, job.target)
        job = self._records.apply(claim(_on_machines(job, slots, nodes), slots, now, why, causes), now)
        self._send(job, lambda: self._executors.assign(job, slots, job.sequence))

    def _send(self, job: JobRecord, command: Callable[[], None]) -> None:
        def send() -> None:
            try:
                command()
            except Exception as error:
                self.executor_lost(job.id, f"its executor could not be reached: {error}")

        self._records.send(send)

    # --- what happens between cycles ------------------------------------------------------------------------

    def on_event(self, job_id: str, event: ExecutorEvent, life: int = 0) -> Sent:
        """Apply an event of the executor of one life of a job; repeated and late ones do no harm.

        Return what the job was sent until now. Raises: StateError where nothing can be stored; send it again.
        """
        with self._watch.storing(), self.lock:
            before = self._store.find(job_id)
            if before is None or life != before.life:
                return NOTHING_SENT
            sent, now = Sent(before.sequence, before.profile_sequence), self._clock.steady_s()
            try:
                after = self._records.apply(react(before, event, now), now, event)
            except (HookError, StoreError):
                raise
            except Exception as error:
                self._guard.failed(job_id, error)  # its executor would send it again for ever
                return sent
            if after.phase in TRAINED_IN:
                self._models.refresh(after, self._observed.cluster.gpu_types, self._guard.quarantine)
            if isinstance(event, Released) and self._wanted is not None:
                without_given_up(self._wanted, job_id, before, after)
        self._woken()
        return sent

    def not_understood(self, job_id: str, why: str) -> Sent:
        """Log a message of an executor that cannot be read. Return what its job was sent until now."""
        with self.lock:
            if (job := self._store.find(job_id)) is None:
                return NOTHING_SENT
            log.error("job %s: %s", job_id, why)
            newest = self._store.events(job_id, last=1)
            if not newest or newest[0].data.get("text") != why:
                self._log(job_id, why)
            return Sent(job.sequence, job.profile_sequence)

    def executor_lost(self, job_id: str, reason: str) -> None:
        """Take note of an executor that cannot be made or died for good. Too many losses in a row fail its job."""
        with self.lock:
            job = self._store.find(job_id)
            if job is None or not job.active:
                return
            self.tallies.executors_lost += 1
            done = float(job.report.get("progress_samples", 0.0))
            losses, done_before = self._losses.get(job_id, (0, done))
            losses = 1 if done > done_before else losses + 1
            self._losses[job_id] = losses, done
            now = self._clock.steady_s()
            job = self._records.apply(lose_everything(job, reason, now), now)
            if losses > MOST_EXECUTOR_LOSSES:
                self._records.apply(end(job, Phase.FAILED, reason, now), now)
        self._woken()

    def reattach(self) -> None:
        """Find out, after a restart, which executors still answer; send again what may not have arrived."""
        for job_id in sorted(self._store.unreadable):
            self._log(job_id, self._store.get(job_id).quarantine)
        jobs = list(self._store.unretired.values())
        with_executor = [job for job in jobs if may_have_executor(job)]
        # Those of jobs that were retired, or rested, just before the service died, too.
        self._executors.retire_others(with_executor)
        statuses = self._executors.statuses(with_executor, timeout_s=10.0)
        with self.lock:
            for job in jobs:
                with self._guard.guarded(job.id):
                    job = self._store.get(job.id)
                    unnamed, now = job.id in self._store.unnamed, self._clock.steady_s()
                    reattach(job, statuses, self._records, self._executors, now, unnamed)

    def stop_all(self) -> None:
        """Tell every job to save and to leave its GPUs; jobs go on when a new cycle begins."""
        with self.lock:
            self._stopped = True
            for job in self._store.unretired.values():
                if job.active and job.target:
                    with self._guard.guarded(job.id):
                        self._assign(job, (), Stopped.DOWN, self._nodes.snapshot)

    def plan_by(self, policy: Planner) -> None:
        """Have later rounds planned by another policy, which does not know the last one's plan."""
        with self.lock:
            self._policy, self.last_round = policy, None

    def in_use(self) -> dict[str, str]:
        """Return what jobs have, or are to have, of each node. A node without a job is absent."""
        with self.lock:
            return in_use(self._store.unretired, self._wanted)

    def ask_round(self) -> None:
        """Have a round soon; several reasons within the debounce time share one."""
        self._times.ask()
        self._woken()

    def round_age_s(self) -> float | None:
        """Return seconds since the last round was planned; None before the first."""
        return None if self._planned_s is None else self._clock.monotonic_s() - self._planned_s

    def idle_s(self) -> float:
        """Return seconds until the next cycle is due at the latest."""
        return self._times.idle_s

    # --- inside ---------------------------------------------------------------------------------------------

    def _round_due(self) -> bool:
        if self._records.round_asked:
            self._records.round_asked = False
            self.ask_round()
        return self._times.due

    @contextmanager
    def _timed(self, phase: str, timings: dict[str, float]) -> Iterator[None]:
        began_s = self._clock.monotonic_s()
        try:
            yield
        finally:
            timings[phase] = self._clock.monotonic_s() - began_s


def _takes_part(job: JobRecord, nodes: NodesSnapshot) -> bool:
    held_back = job.paused or job.cancelled_s is not None or (job.on_hold and not job.target)
    return job.active and not held_back and not leaves_node(job, nodes.left_by_executors)


def _with_line(error: Exception) -> str:
    """Return an error of a policy in words, with the line that raised it; a wrong plan has no line."""
    if isinstance(error, WrongPlan):
        return str(error)
    raised = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(raised.filename).name}, line {raised.lineno})"


def _on_machines(job: JobRecord, slots: Sequence[Slot], nodes: NodesSnapshot) -> JobRecord:
    """Return the job with the machines of these slots among those that it has run on."""
    machines = {*job.machines, *(nodes.names[slot.node_id] for slot in slots if slot.node_id in nodes.names)}
    return replace(job, machines=tuple(sorted(machines)))
