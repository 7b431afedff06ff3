"""Rounds in virtual time: jobs advance exactly between rounds, and the policy decides as in the live service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core.cluster import Cluster
from ...core.placement import Placement, same_place
from ...core.usage import UsageOn
from ...core.wording import in_words, n_gpus, pool_called
from ...policies.contract.foresight import Foresight
from ...policies.contract.plan_check import checked_form
from ...policies.contract.round import JobColumns, JobView, Plan, Planner, Round, objects
from ...policies.contract.traits import TENANTS
from ...policies.registry import name_of
from ...policies.warm_up import stopwatch
from ..jobs.shared_speeds import JobProfiles
from ..jobs.world import BadJob, World
from ..traces.tables import Floats
from ..traces.workload import Ints
from .errors import BadPlan, PolicyFailed, Stuck
from .foreseeing import ForesightSource
from .handover import Handovers, Move, Wait, counted
from .job_states import Begun, JobStates, RunLog
from .node_states import NodeStates, Power
from .outages import Failures
from .outcome import Outcome
from .plan_ledger import PlanLedger
from .round_clock import AtEvents, AtIntervals, EarlyRounds, RoundClock
from .shares import SimulatedShares
from .tenancy import SharedSpeeds, Tenancy
from .views import Views

if TYPE_CHECKING:  # learners load much that a run without services does not need
    from .services import SimulatedServices


@dataclass(frozen=True)
class Timing:
    """When the policy is asked.

    `interval_s`: rounds are at its multiples, counted from `first_s` of the trace.
    `events`: rounds are when a job arrives or ends instead, as for policies that only admit jobs.
    `early_s`: a round comes so long after a job arrives or ends, as in the live service. The others come
        `interval_s` after the last round. None: rounds are at fixed times only.

    Raise ValueError for a time that is negative, not finite, or at odds with `events`.
    """

    interval_s: float = 60.0
    events: bool = False
    first_s: float = 0.0
    early_s: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.interval_s < np.inf:
            raise ValueError(f"interval_s: {self.interval_s} must be more than 0 seconds, and finite")
        if self.early_s is not None and not 0 <= self.early_s < np.inf:
            raise ValueError(f"early_s: {self.early_s} must be 0 seconds or more")
        if self.events and self.early_s is not None:
            raise ValueError("early_s: rounds at events have no fixed times to be earlier than")
        if not 0 <= self.first_s < np.inf:
            raise ValueError(f"first_s: {self.first_s} must be 0 seconds or more")

    def clock(self) -> RoundClock:
        """Return the clock that holds rounds at these times."""
        if self.events:
            return AtEvents()
        if self.early_s is not None:
            return EarlyRounds(self.interval_s, self.early_s)
        return AtIntervals(self.interval_s, self.first_s)


@dataclass
class Engine:
    """One run of a workload on a cluster under a policy: `run` once, or `step` up to `outcome`.

    An engine can be pickled between two steps, with its world and its policy. The copy goes on as if it had
    never stopped (`resume`).
    """

    world: World
    cluster: Cluster
    policy: Planner
    timing: Timing = Timing()
    failures: Failures | None = None  # of nodes; their jobs go on elsewhere, from the last checkpoint
    checkpoint_s: float = 600.0  # between checkpoints; each end of an epoch is one, too
    clock: RoundClock | None = None  # None: the clock of `timing`
    watch: Callable[[Round, Plan], None] | None = None  # sees every plan before it is carried out
    services: SimulatedServices | None = None  # of the whole cluster; several engines may share them
    shares: SimulatedShares | None = None  # of teams; None: there are none
    foresight: ForesightSource | None = None  # of what teams will submit; None: nobody knows
    pairs: SharedSpeeds | None = None  # how fast jobs are that share GPUs; None: no job may
    profiles: JobProfiles | None = None  # what jobs use of their GPUs; None: nobody knows
    nodes: NodeStates = field(init=False, repr=False)
    _jobs: JobStates = field(init=False, repr=False)

    def __post_init__(self) -> None:
        workload = self.world.workload
        self._jobs = JobStates.of(len(workload))
        self._asked = workload.gpus
        self._order = {id: i for i, id in enumerate(workload.ids)}
        self._ready_s = workload.submit_s + workload.ready_after_s
        self._arrivals = np.argsort(self._ready_s, kind="stable")
        self._arrival_s = self._ready_s[self._arrivals]
        self._active = np.zeros(0, np.int64)  # in order of arrival
        self._next = 0  # position in `_arrivals` of the first job that has not arrived
        self.nodes = NodeStates(self.cluster, self.failures)
        self._now = self.timing.first_s - self.timing.interval_s  # the first round may be at first_s
        self._ids = np.array(workload.ids, object)
        self._rewards = objects(workload.rewards) if any(workload.rewards) else None
        self._handovers = Handovers()
        self._clock = self.clock or self.timing.clock()
        self._held = PlanLedger(self.cluster, name_of(self.policy), 1 if self.pairs is None else TENANTS)
        self._tenancy = Tenancy()
        self._again_s = np.inf  # when the policy wants to be asked again
        self._power_s = np.inf  # when the power adviser wants to be asked again
        self._log = RunLog()

    def let_sleep(self, power: Power) -> None:
        """Let nodes sleep and wake as an adviser says, from the next round on."""
        self.nodes.let_sleep(power)
        self._held.change_nodes(self.nodes.up)

    def let_share(self, pairs: SharedSpeeds) -> None:
        """Let jobs share GPUs, as fast as these say. Call it before the first step."""
        self.pairs = pairs
        self._held = PlanLedger(self.cluster, name_of(self.policy), TENANTS)

    def take_up(self, now_s: float, begun: Mapping[int, Begun]) -> None:
        """Begin in the middle: at `now_s`, with jobs that have come so far. A placement without room is left out.

        Call it once, before the first step. `begun`: by position in the workload.
        """
        self._now = now_s
        self._arrive()
        for job, one in begun.items():
            id, placement = self.world.workload.ids[job], one.placement
            self._jobs.begin(job, one)
            if placement is None:
                continue
            try:
                self._held.apply(Plan({}), now_s, (), {id: placement})
            except BadPlan:
                continue
            self._jobs.hold(job, placement, now_s)
            if self.pairs is not None:
                self._tenancy.take(job, placement)
            self._set_rate(job, placement)
            self._jobs.pause_s[job] = one.pause_s
            self._log.holds(job, placement, now_s)

    def run(self) -> Outcome:
        """Run until every job has ended. Raise RunFailed as `step` does."""
        while self.step():
            pass
        return self.outcome()

    def step(self) -> bool:
        """Go on to the next round and hold it. Return False, and do nothing, if every job has ended.

        Raise RunFailed as `decide` does.
        """
        if not self.to_round():
            return False
        self.decide()
        return True

    def to_round(self) -> bool:
        """Let time pass until the next round, which `decide` then holds. Return False if every job has ended."""
        if self._next >= len(self.world.workload) and not len(self._active):
            return False
        self._clock.to_round(self)
        self._arrive()
        return True

    def decide(self) -> None:
        """Hold the round that `to_round` has come to.

        Raise Stuck if no job runs and none will arrive, so that time would go on for ever. Raise BadPlan if the
        policy gives away what is not there, and PolicyFailed if it raises.
        """
        if len(self._active):
            self._decide()
        elif self.nodes.power is not None:
            self._act(self._round(()), Plan({}))
        total = len(self.world.workload)
        waits = len(self._active) and not self._jobs.gpus[self._active].any()
        stays = not self.nodes.some_return and not self._now < self._again_s < np.inf
        if self._next >= total and waits and stays:
            raise Stuck(self._waiting())

    def _waiting(self) -> str:
        """Say which jobs wait for ever."""
        ids = self.world.workload.ids
        waiting = ", ".join(f"{ids[i]} (asks for {n_gpus(self._asked[i])})" for i in self._active[:3])
        where, most = self.cluster.called, max(self.cluster.capacity().values(), default=0)
        return (
            f"no job runs under {name_of(self.policy)} and none is to come; waiting: {len(self._active)}, "
            f"first {waiting}; {where} has at most {n_gpus(most)} of one type, or the policy gives them none"
        )

    @property
    def now_s(self) -> float:
        """The time now, seconds of the trace."""
        return self._now

    @property
    def active(self) -> int:
        """The number of jobs that have arrived and not ended."""
        return len(self._active)

    @property
    def ended(self) -> int:
        """The number of jobs that have ended."""
        return self._next - len(self._active)

    def finished_s(self, job: str) -> float:
        """Return when a job ended, seconds of the trace; nan: it has not ended."""
        return float(self._jobs.finished_s[self._order[job]])

    def cancel(self, job: str) -> None:
        """End a job now, whatever it has left. One that has not come or has ended stays as it is."""
        at = self._order[job]
        if at not in self._active:
            return
        if self._jobs.placements[at] is not None:
            self._log.holds(at, None, self._now)
            self._forget(at)
        self._jobs.placements[at], self._jobs.gpus[at], self._jobs.finished_s[at] = None, 0, self._now
        self._active = self._active[self._active != at]

    def has_begun(self, job: str) -> bool:
        """Return whether a job had GPUs at any time."""
        return not np.isnan(self._jobs.started_s[self._order[job]])

    # --- time -----------------------------------------------------------------------------------------------

    def next_arrival_s(self) -> float:
        """Return when the next job arrives, seconds of the trace; inf: none does."""
        return float(self._arrival_s[self._next]) if self._next < len(self._arrival_s) else np.inf

    def asked_again_s(self) -> float:
        """Return when the policy, with jobs there, or the power adviser asked to be called again; inf: not."""
        policy_s = self._again_s if self._again_s > self._now and len(self._active) else np.inf
        return min(policy_s, self._power_s if self._power_s > self._now else np.inf)

    def expected_end_s(self) -> float:
        """Return when the first running job ends at its current rate, at least 0.1 s from now; inf: none runs."""
        jobs, running = self._jobs, self._running()
        if not len(running):
            return np.inf
        with np.errstate(divide="ignore"):
            left_s = (self.world.ends(running) - jobs.progress[running]) / jobs.rate[running]
        return max(float((self._now + jobs.pause_s[running] + left_s).min()), self._now + 0.1)

    def boundaries_s(self) -> Floats:
        """Return (running jobs,) when each reaches its next boundary, seconds of the trace."""
        jobs, running = self._jobs, self._running()
        left = (jobs.boundary[running] - jobs.progress[running]) / jobs.rate[running]
        return self._now + jobs.pause_s[running] + left

    def pass_until(self, until_s: float, *, or_change: bool = False) -> bool:
        """Let time pass and apply the changes of nodes on the way. Return whether there were any.

        `or_change`: stop after the first of these.
        """
        changed = False
        while (change_s := self.nodes.next_s()) <= until_s:
            self._advance(max(change_s, self._now))
            self._change_node()
            changed = True
            if or_change:
                return True
        self._advance(until_s)
        return changed

    def _change_node(self) -> None:
        if (failed := self.nodes.change()) is not None:
            for job in self._running().tolist():
                placement = self._jobs.placements[job]
                if placement is not None and failed in placement.by_node:
                    self._lose(job)
        self._held.change_nodes(self.nodes.up)

    def _lose(self, job: int) -> None:
        """Take the GPUs from a job whose node failed, and its progress since the last checkpoint."""
        jobs = self._jobs
        trained_s = max(self._now - float(jobs.saved_s[job]), 0.0)
        lost = float(jobs.rate[job]) * (trained_s % self.checkpoint_s)
        jobs.progress[job] = max(float(jobs.progress[job]) - lost, float(jobs.saved[job]))
        self._log.holds(job, None, self._now)
        self._forget(job)
        jobs.placements[job], jobs.gpus[job] = None, 0
        jobs.failures[job] += 1

    def _forget(self, job: int) -> None:
        """Drop what a job that stopped or ended holds and waits for."""
        self._handovers.forget(job)
        self._tenancy.leave(job)
        self._held.release(self.world.workload.ids[job])

    def _running(self) -> np.ndarray:
        return self._active[self._jobs.gpus[self._active] > 0]

    def _advance(self, until_s: float) -> None:
        """Advance every running job to `until_s`. Where jobs share GPUs, who stays is faster once another ends."""
        while len(sharing := np.array(self._tenancy.sharing, np.int64)):
            jobs = self._jobs
            with np.errstate(divide="ignore"):
                left_s = (jobs.boundary[sharing] - jobs.progress[sharing]) / jobs.rate[sharing]
            first_s = float((self._now + jobs.pause_s[sharing] + left_s).min())
            if not first_s < until_s:
                break
            self._pass(max(first_s, float(np.nextafter(self._now, np.inf))))
        self._pass(until_s)

    def _pass(self, until_s: float) -> None:
        """Advance every running job to `until_s`. Jobs that end on the way free their GPUs."""
        jobs, running = self._jobs, self._running()
        if len(running):
            left = np.full(len(running), until_s - self._now)
            paused = np.minimum(jobs.pause_s[running], left)
            jobs.pause_s[running] -= paused
            left -= paused
            moving = np.flatnonzero(jobs.pause_s[running] <= 0)
            learning = running[left > 0] if self.world.learns else running[:0]
            while len(moving):
                at = running[moving]
                reach = (jobs.boundary[at] - jobs.progress[at]) / jobs.rate[at]
                # The tolerance is the clock's resolution; a shorter remainder would never pass.
                arrives = reach <= left[moving] + 2 * np.spacing(until_s)
                on = at[~arrives]
                jobs.progress[on] += jobs.rate[on] * left[moving[~arrives]]
                moving = moving[arrives]
                left[moving] = np.clip(left[moving] - np.maximum(reach[arrives], 0.0), 0.0, None)
                moving = moving[self._cross(running[moving], until_s - left[moving])]
            held = np.where(np.isnan(jobs.finished_s[running]), until_s, jobs.finished_s[running]) - self._now
            jobs.held_s[running] += held
            jobs.attained_gpu_s[running] += held * jobs.weight[running]
            idle = (jobs.rate[running] == 0) & np.isnan(jobs.finished_s[running])
            if idle.any():  # such a job has nothing to do until the next round, and holds nothing
                jobs.held_s[running[idle]] -= left[idle]
                jobs.attained_gpu_s[running[idle]] -= left[idle] * jobs.weight[running[idle]]
            ended = running[~np.isnan(jobs.finished_s[running])]
            if len(ended):
                for job in ended.tolist():
                    self._log.holds(job, None, float(jobs.finished_s[job]))
                    if self.services is not None:
                        finished_s, trained_s = float(jobs.finished_s[job]), float(jobs.held_s[job])
                        self.services.ended(self.world.workload, job, finished_s, trained_s)
                    self._forget(job)
                jobs.placements[ended] = None
                jobs.gpus[ended] = 0
                self._active = self._active[np.isnan(jobs.finished_s[self._active])]
            for job in learning.tolist():
                if (placement := jobs.placements[job]) is not None:
                    self.world.trained(job, placement)
        self._now = until_s
        self._set_rates_of_changed()

    def _cross(self, at: Ints, now_s: Floats) -> NDArray[np.bool_]:
        """Move jobs past their boundaries, each at its own time. Return (jobs,) a mask of those that go on."""
        jobs = self._jobs
        jobs.progress[at] = jobs.boundary[at]
        rates, boundaries = self.world.crosses(at, jobs.placements[at].tolist(), jobs.progress[at])
        goes_on = ~np.isnan(rates)
        if sharing := self._tenancy.sharing:
            for i in np.flatnonzero(goes_on & np.isin(at, sharing)).tolist():
                rates[i] *= self._speed(int(at[i]))
        jobs.finished_s[at[~goes_on]] = now_s[~goes_on]
        on = at[goes_on]
        jobs.rate[on], jobs.boundary[on] = rates[goes_on], boundaries[goes_on]
        jobs.saved[on], jobs.saved_s[on] = jobs.progress[on], now_s[goes_on]
        return goes_on

    def _arrive(self) -> None:
        end = int(np.searchsorted(self._arrival_s, self._now, side="right"))
        if end > self._next:
            self._active = np.concatenate([self._active, self._arrivals[self._next : end]])
            if self.services is not None:
                for job in self._arrivals[self._next : end].tolist():
                    self.services.arrived(self.world.workload, job)
            self._next = end

    # --- rounds -----------------------------------------------------------------------------------------------

    def _decide(self) -> None:
        jobs, active = self._jobs, np.sort(self._active)  # in order of submission, as live
        if self.services is not None:
            self.services.advance(self._now)
        self.world.told.learn(self._now, jobs.finished_s, jobs.held_s)
        columns = JobColumns(
            ids=self._ids[active],
            placements=jobs.placements[active],
            submitted_s=self.world.workload.submit_s[active],
            gpus=self._asked[active],
            held=jobs.gpus[active],
            attained_gpu_s=jobs.attained_gpu_s[active],
            remaining_s=self.world.told.remaining_s(active, jobs.progress[active]),
            preemptible=self.world.workload.preemptible[active],
            rewards=None if self._rewards is None else self._rewards[active],
            borrows=jobs.borrows[active] if jobs.borrows.any() else None,
            exact=self.world.told.exact,
            high_s=None if self._rewards is None else self.world.told.high_s(active, jobs.progress[active]),
        )
        views = Views(columns, lambda at: self._view(int(active[at])))
        round = self._round(views)
        plan, took_s = _asked(self.policy, round)
        self._log.policy_s.append(took_s)
        if self.watch is not None:
            self.watch(round, plan)
        self._again_s = np.inf if plan.again_s is None else float(plan.again_s)
        self._log.contention.append((self._now, len(active)))
        wanted = {self._order.get(id, -1): placement for id, placement in plan.placements.items()}
        moved = _changed(wanted, jobs.placements)
        stopped = [job for job in self._running().tolist() if job not in wanted]
        self._check(plan, stopped, moved)
        for job in stopped:
            self._stop(job)
        for job in {self._order.get(id, -1) for id in plan.lost} & set(active.tolist()):
            self._jobs.progress[job] = self._jobs.saved[job] = 0.0
        for job in [job for job, placement in moved.items() if same_place(jobs.placements[job], placement)]:
            self._hold_another_part(job, moved.pop(job))
        waits = self._waits(moved)
        for job in moved:
            self._tenancy.leave(job)
        for job, placement in wanted.items():
            if job in moved:
                self._place(job, placement, waits.get(job, Wait()))
            elif self.world.learns:
                self._set_rate(job, placement)
        self._set_rates_of_changed()
        jobs.borrows[:] = False
        jobs.borrows[[self._order[id] for id in plan.borrowed]] = True
        if self.shares is not None:
            self.shares.decided(plan, self._now)
        if self.nodes.power is not None:
            self._act(round, plan)

    def _round(self, jobs: Sequence[JobView]) -> Round:
        sharing = None
        if self.shares is not None:
            sharing = self.shares.sharing([str(id) for id in self._ids[np.sort(self._active)]], self._now)
        arriving = None if self.services is None else self.services.arriving(self._now)
        nodes = self.nodes
        foresight: Foresight | None = None if self.foresight is None else self.foresight.at(self._now)
        if foresight is None and self.services is not None:
            foresight = self.services.foresight(self._now)
        return Round(self._now, self.timing.interval_s, nodes.up, jobs, nodes.asleep, sharing, arriving, foresight)

    def _act(self, round: Round, plan: Plan) -> None:
        """Let nodes sleep and wake as the power adviser says after a round."""
        self._power_s = self.nodes.follow(round, plan, self._jobs.placements[self._running()].tolist())
        self._held.change_nodes(self.nodes.up)

    def _check(self, plan: Plan, stopped: Sequence[int], moved: Mapping[int, Placement]) -> None:
        """Enter the changes of a plan into the ledger. Raise BadPlan if they are not possible."""
        ids, finished_s = self.world.workload.ids, self._jobs.finished_s
        for job in moved:
            if job < 0 or self._ready_s[job] > self._now or not np.isnan(finished_s[job]):
                strange = next(id for id in plan.placements if self._order.get(id, -1) == job)
                raise self._held.bad(self._now, f"job {strange!r} gets GPUs and is not in the round")
        changes = {ids[job]: placement for job, placement in moved.items()}
        self._held.apply(plan, self._now, [ids[job] for job in stopped], changes)
        for job, placement in moved.items():
            if self.world.spec(job).gpus_per_replica(placement.gpu_type) is None:
                wrong = f"job {ids[job]} gets {placement.gpu_type} GPUs, on which it cannot run"
                raise self._held.bad(self._now, wrong)

    def _waits(self, moved: Mapping[int, Placement]) -> dict[int, Wait]:
        """Return, by job, how long it waits for what others leave; empty if GPUs change hands at once."""
        jobs, moves = self._jobs, []
        for job, new in moved.items():
            if (keeps_s := self.world.keeps_s(job)) is not None:
                has = {} if (old := jobs.placements[job]) is None else counted(old)
                moves.append(Move(job, has, counted(new), bool(has) and jobs.pause_s[job] <= 0, keeps_s))
        if not moves:
            return {}
        ids = self.world.workload.ids
        nodes = dict.fromkeys(node for move in moves for node in move.gets)
        free = self._held.free_without([ids[move.job] for move in moves], nodes)
        return self._handovers.waits(moves, free, self._now)

    def _view(self, job: int) -> JobView:
        jobs, told, progress = self._jobs, self.world.told, float(self._jobs.progress[job])
        usage: Mapping[str, UsageOn] = {}
        if self.profiles is not None:
            usage = self.profiles.told(job, float(jobs.held_s[job]), self.cluster.gpu_types)
        return JobView(
            id=self.world.workload.ids[job],
            spec=self.world.spec(job),
            model=told.model(job),
            placement=jobs.placements[job],
            age_s=self._now - float(self.world.workload.submit_s[job]),
            restarts=int(jobs.restarts[job]),
            restart_cost_s=told.restart_cost_s(job, int(jobs.restarts[job])),
            largest_gpus=jobs.largest[job],
            attained_gpu_s=float(jobs.attained_gpu_s[job]),
            progress=progress,
            submitted_s=float(self.world.workload.submit_s[job]),
            expected=told.expected(job, progress),
            rates=told.rates(job),
            remaining=told.remaining(job, progress),
            usage=usage,
            sensitivity=told.sensitivity(job),
            rewards=self.world.workload.rewards[job],
            on_nodes=told.on_nodes(job),
            borrows=bool(jobs.borrows[job]),
            measured_on=told.measured_on(job),
            longest_s=told.longest_s(job, progress),
        )

    def _stop(self, job: int) -> None:
        jobs = self._jobs
        self._log.holds(job, None, self._now)
        self._forget(job)
        jobs.placements[job], jobs.gpus[job] = None, 0
        jobs.preemptions[job] += 1

    def _place(self, job: int, placement: Placement, wait: Wait) -> None:
        jobs = self._jobs
        left_s, rate = float(jobs.pause_s[job]), float(jobs.rate[job])
        first = bool(np.isnan(jobs.started_s[job]))
        old = jobs.placements[job] if wait.trains or not wait.seconds else None
        pause_s = 0.0 if wait.returns else self.world.pause_s(job, old, placement, left_s, first)
        if self.pairs is not None:
            self._tenancy.take(job, placement)
        self._set_rate(job, placement)
        # A job that trains meanwhile loses only the difference to its new rate.
        lost = max(1 - rate / float(jobs.rate[job]), 0.0) if wait.trains else 1.0
        jobs.pause_s[job] = pause_s + wait.seconds * lost
        if first:
            jobs.started_s[job] = self._now
            if self.services is not None:
                self.services.started(self.world.workload, job, self._now)
            if self.world.told.measured_on(job):
                jobs.measuring_wait_s[job] = self._now - float(self.world.workload.submit_s[job])
        elif pause_s > left_s:
            jobs.restarts[job] += 1
        self._log.holds(job, placement, self._now)
        jobs.hold(job, placement, self._now + float(jobs.pause_s[job]))

    def _set_rate(self, job: int, placement: Placement) -> None:
        rate = self.world.moves(job, placement, float(self._jobs.progress[job]))
        self._jobs.rate[job], self._jobs.boundary[job] = rate.per_s * self._speed(job), rate.boundary

    def _speed(self, job: int) -> float:
        """Return how fast a job is beside those on its GPUs, over how fast it is alone."""
        beside = self._tenancy.beside(job)
        return self.pairs.speed(job, beside) if beside and self.pairs is not None else 1.0

    def _set_rates_of_changed(self) -> None:
        """Set the rates of jobs beside whom somebody came or went, without a pause."""
        while self._tenancy.changed:
            job = self._tenancy.changed.pop()
            if (placement := self._jobs.placements[job]) is not None:
                self._set_rate(job, placement)

    def _hold_another_part(self, job: int, placement: Placement) -> None:
        """Let a job hold another part of its GPUs, or other CPUs and memory, for which it does not stop."""
        jobs, same_part = self._jobs, self._jobs.weight[job] == placement.weight
        jobs.placements[job], jobs.weight[job] = placement, placement.weight
        if same_part:
            self._set_rate(job, placement)
        else:
            self._log.holds(job, placement, self._now)

    def outcome(self) -> Outcome:
        """Return what came of a run that is at its end."""
        return self._log.outcome(self.world.workload, self.cluster, self._jobs)


def _changed(wanted: Mapping[int, Placement], placements: np.ndarray) -> dict[int, Placement]:
    """Return what a plan changes, by job; strange jobs and placements are kept, to be refused."""
    return {
        job: new
        for job, new in wanted.items()
        if job < 0 or new is None or (placements[job] is not new and placements[job] != new)
    }


def _asked(policy: Planner, round: Round) -> tuple[Plan, float]:
    """Return a policy's plan of a round, and the seconds that it took. Raise PolicyFailed without a plan."""
    told = f"policy {name_of(policy)}, round at {round.now:g} s"
    try:
        with stopwatch() as took_s:
            found = policy.plan(round)
        plan = checked_form(found)
    except BadJob:
        raise  # the trace is wrong, and not the policy
    except Exception as error:
        raise PolicyFailed(f"{told}: {in_words(error)}") from error
    for pool, failure in plan.failures.items():
        if isinstance(failure, BadJob):
            raise failure
        raise PolicyFailed(f"{told}, {pool_called(pool)}: {in_words(failure)}") from failure
    return plan, took_s()
