"""A model one can read in place of one that nobody can: of any function, and of a policy in an environment.

Source: Primo, ATC'22, section on distillation; Bastani et al., NeurIPS'18 (Viper); Ross et al., AISTATS'11 (data
aggregation). What the student does leads to other states than what the teacher does. So states that the student
visits are collected, and the teacher says what it would have done there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np

from .additive import AdditiveModel
from .corrections import Model
from .table import Feature, Floats, Table

Policy = Callable[[Floats], Floats]
Student = TypeVar("Student", bound=Model)


@dataclass(frozen=True)
class Visited:
    """A run of a policy in an environment.

    states: (steps, features) that were visited. returned: what the run was worth, higher is better.
    actions: (steps,) what the teacher would do there. weights: (steps,) what a wrong action costs; None: alike.
    """

    states: Floats
    returned: float
    actions: Floats
    weights: Floats | None = None


class Environment(Protocol):
    """Where policies act. It knows the teacher, which may see more than the features of a state."""

    def run(self, policy: Policy | None, seed: int) -> Visited:
        """Let a policy act; None: the teacher. What the teacher would do is told of every state visited."""


@dataclass(frozen=True)
class Round:
    """One round of collecting. agreement: share of the visited states where the student did as the teacher."""

    rows: int
    agreement: float
    returned: float


@dataclass(frozen=True)
class Distilled(Generic[Student]):
    """The best student by what its runs were worth, and the rounds."""

    student: Student
    returned: float
    rounds: tuple[Round, ...]


def distilled(teacher: Policy, table: Table, fit: Callable[[Table], Student]) -> Student:
    """Return a student of what a teacher says of rows. It learns the teacher's bias as well.

    Args:
        table: its rows are labelled anew; its target counts for nothing.

    Raises:
        ValueError: in one sentence, for a teacher that says something that is not finite, or always the same.
    """
    return fit(replace(table, target=np.asarray(teacher(table.rows), float)))


def distilled_policy(
    environment: Environment,
    features: Sequence[Feature],
    fit: Callable[[Table, Floats | None], Student],
    *,
    rounds: int = 5,
    runs: int = 1,
    classes: tuple[str, ...] = (),
    seed: int = 0,
) -> Distilled[Student]:
    """Return the best of the students of all rounds. With one round no states of students are collected.

    Args:
        fit: of a table, with weights of its rows.
        rounds: of collecting. runs: of the environment in each round, each with a seed of its own.

    Raises:
        ValueError: in one sentence, for fewer than one round or run.
    """
    for name, value in (("rounds", rounds), ("runs", runs)):
        if value < 1:
            raise ValueError(f"{name}: {value} is not accepted, must be a whole number of at least 1")
    seen = [environment.run(None, seed + run) for run in range(runs)]
    best: Student | None = None
    most, told = -np.inf, list[Round]()
    for number in range(rounds):
        states = np.concatenate([one.states for one in seen])
        actions = np.concatenate([one.actions for one in seen])
        weights = _weights(seen)
        student = fit(Table(tuple(features), states, actions, "action", classes), weights)
        tried = [
            environment.run(partial(answers, student), seed + 1000 * (number + 1) + run) for run in range(runs)
        ]
        agreement = np.concatenate([answers(student, one.states) == one.actions for one in tried])
        returned = float(np.mean([one.returned for one in tried]))
        told.append(Round(len(states), float(agreement.mean()), returned))
        if returned > most:
            best, most = student, returned
        seen += tried
    if best is None:
        raise ValueError("returned: no run of a student was worth a number; NaN is not accepted")
    return Distilled(best, most, tuple(told))


def answers(model: Model, rows: Floats) -> Floats:
    """Return (rows,) numbers, or positions of classes."""
    if isinstance(model, AdditiveModel) and model.classes:
        return model.classified(rows)
    return model.predict(rows)


def _weights(seen: Sequence[Visited]) -> Floats | None:
    if all(one.weights is None for one in seen):
        return None
    return np.concatenate([np.ones(len(one.states)) if one.weights is None else one.weights for one in seen])
