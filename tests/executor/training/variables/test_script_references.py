"""A variable that holds an object of the script is told to others by where that object stands, or by its name."""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Any

import pytest
import torch
from coadapt.executor.training.variables.script_classes import NotMade
from coadapt.executor.training.variables.script_frames import script_places
from coadapt.executor.training.variables.script_references import (
    OTHER,
    REFERENCE,
    References,
    is_referred,
    must_be,
    other,
    what,
)


class Phase(Enum):
    WARM = "warm"
    COLD = "cold"


def criterion(x: float) -> float:
    return x


class Scale:
    def by_two(self, x: float) -> float:
        return 2 * x


NAMED = [criterion, Phase.COLD, Phase, Scale.by_two, torch.nn.functional.relu]


@pytest.mark.parametrize("value", NAMED, ids=lambda value: getattr(value, "__qualname__", str(value)))
def test_what_has_a_name_is_found_by_it_in_any_process(value: Any) -> None:
    reference = References().to(value)
    assert reference is not None
    assert References().found(reference[REFERENCE]) is value


def test_what_has_none_is_found_where_it_stood_when_training_began() -> None:
    teacher, student = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    references = References()
    references.note("main/teacher", teacher)
    references.note("main/again", teacher)
    assert references.to(teacher) == {REFERENCE: "main/teacher"}
    assert references.found("main/teacher") is teacher
    assert references.to(student) is None
    with pytest.raises(NotMade, match="main/student is not found here"):
        references.found("main/student")


def test_whether_a_variable_still_holds_what_it_held_is_looked_up_once_until_it_is_looked_at_again() -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    holder: dict[str, Any] = {"models": [first], "queue": deque([first]), "held": Scale()}
    holder["held"].model = first
    place = next(place.path for place in script_places() if place.variables.get("holder") is holder)
    references = References()
    paths = [f"{place}/holder/{path}" for path in ("models/0", "queue/0", "held/model")]
    assert [references.is_at(path, first) for path in paths] == [True] * 3
    assert not references.is_at(f"{place}/holder/models/7", first)
    holder["models"][0] = second
    assert references.is_at(paths[0], first), "within one look it is the same"
    references.look_again()
    assert not references.is_at(paths[0], first)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (criterion, True),
        (lambda x: x, True),
        (torch.nn.Linear(1, 1), True),
        (Phase.WARM, True),
        (Scale, True),
        (Scale(), False),
        ([1], False),
    ],
)
def test_objects_of_each_process_are_told_by_a_reference(value: Any, expected: bool) -> None:
    assert is_referred(value) is expected


def test_a_model_that_training_has_made_is_told_by_what_it_is() -> None:
    model = torch.nn.Linear(2, 2)
    assert other(model) == {OTHER: "Linear"}
    assert other(Scale()) is None
    assert must_be(model, "Linear") is model
    assert what(criterion) == "criterion"


@pytest.mark.parametrize(
    ("mine", "told"),
    [
        (None, "it holds ReLU; make it before the loop, under a name of its own"),
        (criterion, "it holds ReLU, not the criterion that the script begins with; make it before the loop"),
    ],
)
def test_one_that_is_not_here_is_named(mine: Any, told: str) -> None:
    with pytest.raises(NotMade) as error:
        must_be(mine, "ReLU")
    assert str(error.value).startswith(told)
