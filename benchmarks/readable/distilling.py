"""Distillation: three rules, and a tree that orders jobs as `shockwave` does."""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from coadapt.estimators.interpretable import tree_fit
from coadapt.estimators.interpretable.distil import Distilled, Policy, Visited, distilled, distilled_policy
from coadapt.estimators.interpretable.table import Floats, Table, named
from coadapt.estimators.interpretable.tree import TreeModel
from coadapt.policies.contract.explanation import Explanation, explained
from coadapt.policies.contract.round import Plan, Round
from coadapt.policies.contract.traits import PolicyTraits
from coadapt.policies.queueing import preempting
from coadapt.policies.registry import register
from coadapt.policies.shockwave import ShockwaveOptions, ShockwavePolicy
from coadapt.simulator.conditions import Conditions
from coadapt.simulator.engine.engine import Timing
from coadapt.simulator.engine.outcome import Outcome
from coadapt.simulator.replay import simulation, source_of
from coadapt.simulator.traces.cluster_file import read_cluster
from coadapt.simulator.traces.readers import read_trace
from coadapt.simulator.traces.workload import Workload

from ..harness import DATA, needs, table

TRACES = DATA / "shockwave" / "traces.tar.xz"
TAUGHT, JUDGED = ("120_0.2_5_100_40", "220_0.2_5_100_25"), "460_0.2_5_100_10"
CLUSTER = "8x v100:4"
ROUND_S = 120.0
LEAVES = 64
ROUNDS = 4
STATE = named([
    "left_rounds", "had_rounds", "age_rounds", "gpus", "held", "crowding", "progress", "unfairness",
])  # fmt: skip
ACTIONS = ("waits", "runs")


def figures() -> dict[str, float]:
    needs(TRACES)
    found = three_rules()
    environment = Shockwaves()
    rows = []
    for name, rounds in (("aggregated", ROUNDS), ("without", 1)):
        environment.planning_s, began = 0.0, time.perf_counter()
        student = distilled_policy(environment, STATE, pruned, rounds=rounds, runs=len(TAUGHT), classes=ACTIONS)
        minutes = (time.perf_counter() - began - environment.planning_s) / 60
        told = judged(student)
        rows.append([name, *told.values(), student.student.leaves, minutes])
        found |= {f"distil/{key}" if rounds > 1 else f"distil_{name}/{key}": value for key, value in told.items()}
        if rounds > 1:
            found |= {"distil/leaves": student.student.leaves, "distil/minutes": minutes}
    table(f"A tree that orders jobs as shockwave does; {JUDGED} jobs that it has not seen",
          ["states of students", "JCT over shockwave's", "time over its", "agreement", "leaves", "minutes"],
          rows)  # fmt: skip
    return found


def three_rules() -> dict[str, float]:
    """Return the agreement with three rules on fresh states."""

    def rules(states: Floats) -> Floats:
        gpus, waited_h, left_h = states.T
        return np.where(waited_h > 6, 1.0, np.where(gpus > 8, 0.0, (left_h < 2).astype(float)))

    def states(count: int, seed: int) -> Floats:
        random = np.random.default_rng(seed)
        return np.column_stack([
            random.integers(1, 17, count), random.exponential(4, count), random.exponential(3, count)
        ]).astype(float)  # fmt: skip

    taught = Table(
        named(["gpus", "waited_h", "left_h"]), states(20_000, 0), np.arange(20_000) % 2.0, "action", ACTIONS
    )
    student = distilled(rules, taught, lambda of: tree_fit.fit(of, 1e-4))
    fresh = states(100_000, 1)
    agreement = float((student.predict(fresh) == rules(fresh)).mean())
    return {"distil/rule_agreement": agreement, "distil/rule_leaves": student.leaves}


def pruned(of: Table, weights: Floats | None) -> TreeModel:
    """Return a tree of at most 64 leaves."""
    grown = tree_fit.grow(of, least_rows=20, weights=weights)
    step = next((step for step in grown.path() if step.leaves <= LEAVES), None)
    return grown if grown.leaves <= LEAVES or step is None else grown.pruned(step.alpha)


def states_of(round: Round) -> Floats:
    """Return (jobs, features of `STATE`) of a round."""
    columns, length = round.columns, round.length
    gpus, capacity = columns.gpus.astype(float), float(sum(round.cluster.capacity().values()))
    left = np.nan_to_num(columns.remaining_s, nan=length) / length
    had = columns.attained_gpu_s / gpus / length
    age = (round.now - columns.submitted_s) / length
    crowding = max(float(gpus.sum()) / capacity, 1.0)
    unfairness = (age + left * crowding) / ((had + left) * crowding)
    columns_of = (
        left,
        had,
        age,
        gpus,
        columns.held > 0,
        np.full(len(gpus), crowding),
        had / (had + left),
        unfairness,
    )
    return np.stack(columns_of, axis=1).astype(float)


@dataclass
class Record:
    """What a run has visited, and what the teacher would have done. asks: whether the teacher is asked."""

    policy: TreeModel | Policy | None
    asks: bool = True
    states: list[Floats] = field(default_factory=list)
    actions: list[Floats] = field(default_factory=list)
    planning_s: float = 0.0


_RECORDS: list[Record] = []  # that of the run under way


@register("readable_tree")
class ReadablePolicy:
    """Runs the jobs of which a student is surest; without a student it follows the teacher."""

    Options = ShockwaveOptions
    traits = PolicyTraits(fixed_sizes=True, uses_models=True, preempts=True, needs_expected=True)

    def __init__(self, options: ShockwaveOptions | None = None) -> None:
        self._teacher, self._record = ShockwavePolicy(options), _RECORDS[-1]

    def plan(self, round: Round) -> Plan:
        record, states = self._record, states_of(round)
        taught: Plan | None = None
        if record.asks and len(states):
            began = time.perf_counter()
            taught = self._teacher.plan(round)
            record.planning_s += time.perf_counter() - began
            record.states.append(states)
            record.actions.append(np.array([id in taught.placements for id in round.columns.ids], float))
        if record.policy is None:
            return taught or self._teacher.plan(round)
        tree = record.policy
        surest = tree.probabilities(states)[:, 1] if isinstance(tree, TreeModel) else tree(states)
        order = np.lexsort((round.columns.submitted_s, round.columns.held == 0, -surest))
        return preempting(round, order)

    def explain(self, job: str, round: Round, plan: Plan) -> Explanation:
        return explained(job, round, plan)


@cache
def workload(name: str) -> Workload:
    """Return a trace of the file: arrivals, isolated lengths and GPUs."""
    with tarfile.open(TRACES) as archive, TemporaryDirectory() as folder:
        member = next(one for one in archive.getmembers() if Path(one.name).name.startswith(f"{name}_"))
        opened = archive.extractfile(member)
        assert opened is not None
        rows = [line.decode().rstrip("\n").split("\t") for line in opened]
        path = Path(folder) / "trace.jsonl"
        path.write_text("\n".join(
            json.dumps({"id": f"j{n}", "submit_s": float(row[11]), "duration_s": float(row[10]),
                        "gpus": int(row[6])})
            for n, row in enumerate(rows)
        ))  # fmt: skip
        return read_trace(path)


def ran(name: str, policy: str) -> Outcome:
    nodes = read_cluster(CLUSTER)
    under = Conditions(Timing(interval_s=ROUND_S))
    return simulation(workload(name), nodes, policy, {}, source_of(False, None, nodes), under).run()


class Shockwaves:
    """The simulator with `shockwave` as the teacher; a seed chooses among the traces that teach."""

    planning_s = 0.0

    def run(self, policy: Policy | None, seed: int) -> Visited:
        record = Record(getattr(policy, "args", [policy])[0])
        _RECORDS.append(record)
        outcome = ran(TAUGHT[seed % len(TAUGHT)], "readable_tree")
        self.planning_s += record.planning_s
        return Visited(np.concatenate(record.states), -float(outcome.jct_s.mean()), np.concatenate(record.actions))


def judged(found: Distilled[TreeModel]) -> dict[str, float]:
    """Return what the student is worth on a trace that it has not seen, beside its teacher."""
    teacher = [ran(JUDGED, "shockwave") for _ in range(2)]
    _RECORDS.append(Record(found.student, asks=False))
    student = [ran(JUDGED, "readable_tree") for _ in range(2)]
    beside = Record(found.student)
    _RECORDS.append(beside)
    ran(JUDGED, "readable_tree")
    states, actions = (np.concatenate(parts) for parts in (beside.states, beside.actions))
    return {
        "jct_ratio": float(student[0].jct_s.mean() / teacher[0].jct_s.mean()),
        "policy_time_ratio": min(map(_mean_s, student)) / min(map(_mean_s, teacher)),
        "agreement": float((found.student.predict(states) == actions).mean()),
    }


def _mean_s(outcome: Outcome) -> float:
    times: Sequence[float] = outcome.policy_s
    return float(np.mean(times))
