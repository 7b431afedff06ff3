"""A small cluster on which the groups of a study train, an epoch a tick."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from coadapt.tuning.actions import Action, Cancel, Finish, GroupState, Keep, Seen, SeenGroup, Submit, Weigh
from coadapt.tuning.planner import GroupMemory
from coadapt.tuning.state import StudyState
from coadapt.tuning.study import decide
from coadapt.tuning.study_file import StudyFile, from_values

Metric = Callable[[Mapping[str, Any], int, int], float]  # values, divisor of the width, epoch
FIELDS: dict[str, Any] = {
    "name": "digits",
    "job": "job.yaml",
    "space": {"lr": {"log": [0.001, 1.0]}, "momentum": {"uniform": [0.5, 0.99], "step": 0.01}},
    "metric": "val_acc",
    "mode": "max",
    "trials": 16,
    "epochs": 9,
}


def study_of(**fields: Any) -> StudyFile:
    """Return a study with these fields."""
    return from_values({**FIELDS, **fields})


def near(values: Mapping[str, Any], shrink: int, epoch: int) -> float:
    """Return a metric that grows with epochs, and is the best at lr 0.1; narrow models are worse."""
    return round(1.0 - 0.2 * abs(math.log10(values["lr"]) + 1) - 0.3 / (epoch + 1) - 0.02 * (shrink - 1), 9)


@dataclass
class Job:
    """A group as the cluster has it."""

    submit: Submit
    runs: list[int]
    at: dict[int, int]
    state: GroupState = GroupState.WAITING
    weight: float = 1.0
    gpu_s: float = 0.0
    message: str = ""
    metrics: dict[int, dict[int, float]] = field(default_factory=dict)


@dataclass
class Cluster:
    """GPUs that train a study's groups in the order in which they were asked for.

    `fails`: says of a job why it fails in its first epoch, or "".
    """

    study: StudyFile
    gpus: int = 2
    metric: Metric = near
    fails: Callable[[Submit], str] = lambda submit: ""
    memory_gib: tuple[float, float, float] | None = (1.0, 1.1, 10.0)
    tick_s: float = 10.0
    merge: bool = True
    others_wait: bool = False
    state: StudyState = field(default_factory=StudyState)
    jobs: dict[str, Job] = field(default_factory=dict)
    now_s: float = 0.0
    asked: list[Action] = field(default_factory=list)
    finish: Finish | None = None

    def seen(self) -> Seen:
        held = sum(job.state is GroupState.RUNNING for job in self.jobs.values())
        memory: dict[Any, GroupMemory] = {}
        if self.memory_gib is not None:
            kinds = {(place[0], place[1]) for place in self._places()}
            memory = dict.fromkeys(kinds, GroupMemory(*self.memory_gib))
        return Seen(
            self.now_s,
            {"t4": self.gpus - held},
            {
                id: SeenGroup(
                    job.state, tuple(job.runs), job.metrics, job.gpu_s, job.message, ("val_acc",), job.weight
                )
                for id, job in self.jobs.items()
            },
            memory,
            others_wait=self.others_wait,
        )

    def _places(self) -> set[Any]:
        sizes = self.study.space.get("batch_size", {})
        kinds = [(("batch_size", one),) for one in sizes["choice"]] if sizes else [()]
        return {(kind, shrink) for kind in kinds for shrink in (1, 2, 8)}

    def decide(self) -> list[Action]:
        """Decide once, and do what is asked for."""
        state = StudyState.from_json(self.state.to_json())
        self.state, actions = decide(self.study, state, self.seen(), self.merge)
        self.asked += actions
        for action in actions:
            self.do(action)
        return actions

    def do(self, action: Action) -> None:
        if isinstance(action, Submit):
            at = {run: action.origins[run].epoch if run in action.origins else 0 for run in action.runs}
            for run, origin in action.origins.items():
                source = self.jobs[origin.group]
                assert run in source.submit.runs
                assert source.at[run] >= origin.epoch
            self.jobs.setdefault(action.group, Job(action, list(action.runs), at, weight=action.weight))
        elif isinstance(action, Keep):
            assert set(action.runs) < set(self.jobs[action.group].runs)
            self.jobs[action.group].runs = list(action.runs)
        elif isinstance(action, Cancel):
            self.jobs[action.group].state = GroupState.CANCELLED
        elif isinstance(action, Weigh):
            self.jobs[action.group].weight = action.weight
        else:
            self.finish = action

    def tick(self) -> None:
        """Let every running group train an epoch, and start what waits where GPUs are idle."""
        self.now_s += self.tick_s
        for job in self.jobs.values():
            held = sum(one.state is GroupState.RUNNING for one in self.jobs.values())
            if job.state is GroupState.WAITING and held < self.gpus:
                job.state = GroupState.RUNNING
        for job in self.jobs.values():
            if job.state is not GroupState.RUNNING:
                continue
            job.gpu_s += self.tick_s
            job.message = self.fails(job.submit)
            if job.message:
                job.state = GroupState.FAILED
                continue
            for run in job.runs:
                job.at[run] += 1
                values = job.submit.runs[run]
                found = self.metric(values, job.submit.shrink, job.at[run])
                job.metrics.setdefault(run, {})[job.at[run]] = found
            if all(job.at[run] >= job.submit.until for run in job.runs):
                job.state = GroupState.ENDED

    def play(self, most: int = 2_000) -> Finish:
        """Go on until the study has finished."""
        for _ in range(most):
            self.decide()
            if self.finish is not None:
                return self.finish
            self.tick()
        raise AssertionError(f"not finished: {self.state.runs}")

    def submits(self) -> list[Submit]:
        """Return all that was started, each once."""
        return [job.submit for job in self.jobs.values()]
