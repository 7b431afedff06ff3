"""3Sigma: jobs with deadlines by a program of when they start, over distributions of how long they take.

Park et al., EuroSys'18, as UniSched has it as a peer: they stop best effort, which takes what they leave.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ..optimizer.leases.problem import growing
from .choosing.decided import QueueReasons, decisions_of
from .contract.explanation import Explanation, expectation, explained, job_of
from .contract.round import Plan, Round
from .contract.traits import PolicyTraits
from .leases.due import planned
from .leases.grid import lease_at, leases_for
from .leases.kinds import kinds_of
from .leases.serving import Serving
from .leases.starts import Slots, Starts, Waiting, chosen_starts, lengths_of
from .placing.speeds import rates_of
from .queueing import QueueingOptions, served
from .registry import register

STAYS, STARTS, BEST_EFFORT, LATER = range(4)  # in which order kinds of jobs are served


class ThreeSigmaOptions(QueueingOptions):
    """What an operator may set.

    cycle_s: seconds between two decisions. Slots of the plan are as long, and longer with their distance.
    most_ahead_s: how far ahead is planned. gap, time_limit_s: of the program.
    """

    cycle_s: float = Field(default=60.0, gt=0)
    most_ahead_s: float = Field(default=180_000.0, gt=0)
    gap: float = Field(default=1e-3, ge=0)
    time_limit_s: float = Field(default=0.5, gt=0)


@register("three_sigma")
class ThreeSigmaPolicy:
    """Starts jobs with deadlines when that is worth most in the mean. Only best effort is stopped, for them."""

    Options = ThreeSigmaOptions
    traits = PolicyTraits(
        fixed_sizes=True, uses_models=False, preempts=True, needs_expected=True, serves_deadlines=True
    )

    def __init__(self, options: ThreeSigmaOptions | None = None) -> None:
        self.options = options or ThreeSigmaOptions()

    def plan(self, round: Round) -> Plan:
        kinds, columns, cycle_s = kinds_of(round), round.columns, self.options.cycle_s
        running, hopes = kinds.running, np.isfinite(kinds.due_s)
        stays, waiting = kinds.pinned | (running & hopes), np.flatnonzero(hopes & ~running)
        slots, starts = self._starts(round, waiting.tolist(), np.flatnonzero(stays).tolist())
        kind = np.where(stays, STAYS, BEST_EFFORT)
        kind[waiting] = np.where(starts.slot == 0, STARTS, np.where(starts.slot > 0, LATER, BEST_EFFORT))
        starts_in_s = np.full(len(kind), np.nan)
        starts_in_s[waiting] = np.where(starts.slot >= 0, slots.begin_s[starts.slot], np.nan)
        left_s = np.nan_to_num(columns.remaining_s, nan=np.inf)
        key = np.where(kind == BEST_EFFORT, np.where(running, -np.inf, left_s), starts_in_s)
        order = np.lexsort((columns.submitted_s, key, kind))
        if round.sharing is not None:
            plan = served(round, order, self.options, preempts=True)
        else:
            plan = self._placed(round, order, kind, running)
        return replace(
            plan, objective=starts.objective, bound=starts.bound,
            figures={"starts_in_s": starts_in_s, "kind": kind},
            deadlines=planned(columns, kinds.due_s),
            again_s=(lease_at(round.now, cycle_s) + 1) * cycle_s,
        )  # fmt: skip

    def _placed(self, round: Round, order: NDArray[np.int64], kind: np.ndarray, running: np.ndarray) -> Plan:
        """Return the plan in which jobs that start now take free GPUs, and else those of best effort."""
        serving, ranked = Serving(round), order.tolist()
        homeless = serving.keep([i for i in ranked if kind[i] == STAYS])  # their nodes are gone
        others = [i for i in ranked if kind[i] == BEST_EFFORT]
        starts = [i for i in ranked if kind[i] == STARTS]
        serving.start([*homeless, *starts], beside=[i for i in others if running[i]])
        serving.start(serving.keep(others))
        placements = dict(serving.ledger.held)
        several = len(round.cluster.gpu_types) > 1
        reasons = QueueReasons(round, placements, order, kind != LATER, several)
        return Plan(placements, order=order, decisions=decisions_of(round, placements, reasons.why))

    def _starts(self, round: Round, waiting: list[int], stays: list[int]) -> tuple[Slots, Starts]:
        """Return the slots of the plan, and in which one each waiting job starts beside those that stay."""
        options, columns, cluster = self.options, round.columns, round.cluster
        ahead_s = 0.0
        rows = list[Waiting]()
        for i in waiting:
            job, gpus = round.jobs[i], int(columns.gpus[i])
            rates = dict(zip(cluster.gpu_types, rates_of(job, gpus, cluster).tolist(), strict=True))
            best, lengths_s = max(rates.values(), default=0.0), lengths_of(job.expected, self._had_s(round, i))
            by_type = {t: lengths_s * (best / rate) for t, rate in rates.items() if rate > 0}
            age_s = round.now - float(columns.submitted_s[i])
            if (rewards := job.rewards) is None:
                continue  # no job waits for a deadline without one
            rows.append(Waiting(gpus, age_s, rewards, by_type))
            ahead_s = max(ahead_s, rewards.last_s - age_s)
        cycles = leases_for(min(ahead_s, options.most_ahead_s), options.cycle_s)
        slots = Slots.of(options.cycle_s, growing(cycles))
        if not rows:
            return slots, Starts(np.zeros(0, np.int64), ())
        free = {t: np.full(len(slots), float(gpus)) for t, gpus in cluster.capacity().items()}
        for i in stays:
            if (held := columns.placements[i]).gpu_type in free:
                lengths_s = lengths_of(round.jobs[i].expected, self._had_s(round, i))
                free[held.gpu_type] -= held.gpus * slots.used(np.zeros(1), lengths_s)[0]
        return slots, chosen_starts(rows, slots, free, gap=options.gap, time_limit_s=options.time_limit_s)

    def _had_s(self, round: Round, i: int) -> float:
        """Return how long a job has had GPUs, and at least a cycle: what it is taken to need if nobody knows."""
        columns = round.columns
        return max(float(columns.attained_gpu_s[i]) / max(int(columns.gpus[i]), 1), self.options.cycle_s)

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        """Explain a job by when it is planned to start."""
        i = job_of(job, round)
        starts_in_s, kind = float(plan.figures["starts_in_s"][i]), int(plan.figures["kind"][i])
        told = "It can meet no deadline, or has none: it takes what jobs with one leave, and is stopped for them."
        if kind == STAYS:
            told = "It runs, and is not stopped."
        elif kind in (STARTS, LATER):
            told = f"It is worth most if it starts in {starts_in_s:.0f} s, by the plan for all deadlines."
        length, facts = expectation(round.jobs[i], "it is taken to need as long as it has had")
        return explained(job, round, plan, [told, length], {"starts_in_s": starts_in_s, **facts})
