"""Objects of a script's classes and its containers are made by another process as they were."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import pytest
from coadapt.executor.training.variables.script_classes import NotMade, class_named, empty, kind_of, made

MODULE = __name__


class Meter:
    """Counts how often it was set up."""

    ups = 0

    class Inner:
        pass

    def __init__(self) -> None:
        Meter.ups += 1


class Needs:
    def __new__(cls, size: int) -> Needs:
        return super().__new__(cls)


@pytest.mark.parametrize(
    "value",
    [
        deque([1], 3),
        deque([1]),
        OrderedDict(a=1),
        defaultdict(int, a=1),
        defaultdict(list),
        defaultdict(Meter.Inner),
        defaultdict(None, a=1),
    ],
)
def test_a_container_that_is_made_anew_is_of_its_kind_and_empty(value: Any) -> None:
    kind = kind_of(value)
    assert kind is not None
    found = empty(kind)
    assert (type(found), len(found)) == (type(value), 0)
    for name in ("maxlen", "default_factory"):
        assert getattr(found, name, None) == getattr(value, name, None)


@pytest.mark.parametrize("value", [[], {}, (1,), Counter("a"), 3])
def test_plain_ones_need_no_kind(value: Any) -> None:
    assert kind_of(value) is None


def test_an_object_is_made_without_being_set_up() -> None:
    before = Meter.ups
    assert type(made(MODULE, "Meter", [])) is Meter
    assert type(made(MODULE, "Meter.Inner", [])) is Meter.Inner
    assert Meter.ups == before


def test_a_class_of_a_running_function_is_found_by_its_variable() -> None:
    class Local:
        pass

    assert class_named(MODULE, Local.__qualname__) is Local


@pytest.mark.parametrize(
    ("name", "left", "told"),
    [
        ("Meter", ["file", "lock"], "an object of Meter holds what cannot be handed on (file, lock)"),
        ("Gone", [], "the class Gone is not found here"),
        ("MODULE", [], "the class MODULE is not found here"),
        ("Needs", [], "an object of Needs cannot be made here"),
    ],
)
def test_what_cannot_be_made_is_named(name: str, left: list[str], told: str) -> None:
    with pytest.raises(NotMade) as error:
        made(MODULE, name, left)
    assert str(error.value) == told


def test_a_factory_without_a_name_is_named() -> None:
    kind = kind_of(defaultdict(lambda: 3))
    assert kind is not None
    with pytest.raises(NotMade, match="lambda"):
        empty(kind)
