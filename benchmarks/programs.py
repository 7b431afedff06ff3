"""Integer programs of rounds that follow each other, in files, for solvers to be compared on.

A file `round-SECONDS.npz` is one round:

    now_s                    seconds of the trace
    ids                      (jobs,) in the order of the rows, which is that of submission
    start                    (jobs + 1,) where each job's options begin in the next two
    column, gain             (options,) configuration, and what it adds to the objective over leaving the job out
    usage                    (limits, columns) what a configuration takes of each limit
    capacity                 (limits,)
    gpu_type, gpus, nodes    (columns,) of the configurations
    before, choice           (jobs,) column that each job ran in before the round, and was given by it; -1: none
    objective, bound         of that choice
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from coadapt.core.placement import Placement
from coadapt.optimizer.allocation import ChoiceProblem
from coadapt.policies.contract.round import Plan, Planner, Round


@dataclass
class Dumped:
    """A policy whose programs are written to a folder: each, or one of `every`, from a time of the trace on.

    Of policies whose plans hold the gains of every job, and of jobs that may be preempted.
    """

    policy: Planner
    folder: Path
    every: int = 1
    from_s: float = 0.0
    seen: int = 0
    written: int = 0

    def plan(self, round: Round) -> Plan:
        before = {job.id: job.placement for job in round.jobs}
        plan = self.policy.plan(round)
        if round.now >= self.from_s and plan.gains:
            if self.seen % self.every == 0:
                write(self.folder / f"round-{int(round.now):06d}.npz", round.now, plan, before)
                self.written += 1
            self.seen += 1
        return plan


def write(path: Path, now_s: float, plan: Plan, before: dict[str, Placement | None]) -> None:
    """Write a round's program. Raises ValueError for a plan that has no configurations."""
    configurations = plan.configurations
    if configurations is None:
        raise ValueError("plan: has no configurations, and so no program")
    gains = np.stack(list(plan.gains.values()))
    row, column = np.nonzero(np.isfinite(gains))
    limits, arrays = configurations.limits(), configurations.arrays
    np.savez_compressed(
        path,
        now_s=now_s,
        ids=np.array(list(plan.gains)),
        start=np.searchsorted(row, np.arange(len(gains) + 1)),
        column=column.astype(np.int32),
        gain=gains[row, column],
        usage=limits.usage,
        capacity=limits.capacity,
        gpu_type=np.array(arrays.gpu_types)[arrays.type_index],
        gpus=arrays.gpus,
        nodes=arrays.nodes,
        before=np.array([configurations.index(before[id]) for id in plan.gains], np.int32),
        choice=np.array([configurations.index(plan.placements.get(id)) for id in plan.gains], np.int32),
        objective=plan.objective,
        bound=plan.bound,
    )


def read(path: Path) -> tuple[tuple[str, ...], ChoiceProblem]:
    """Return the ids of a round's jobs, and its program with a row for each."""
    with np.load(path) as found:
        ids = tuple(found["ids"].tolist())
        gains = np.full((len(ids), found["usage"].shape[1]), -np.inf)
        gains[np.repeat(np.arange(len(ids)), np.diff(found["start"])), found["column"]] = found["gain"]
        return ids, ChoiceProblem(gains, np.isfinite(gains), found["usage"], found["capacity"])
