"""An object of a script draws again what it drew before, once its generators and numbers are put back."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from coadapt.executor.training.variables.script_random import (
    alike,
    as_text,
    capture,
    from_text,
    generators_of,
    put_back,
    restore,
    state_of,
)

OUTSIDE = np.random.default_rng(3)


def torch_generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)


GENERATORS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "numpy": (lambda: np.random.default_rng(1), lambda one: one.normal()),
    "numpy, another algorithm": (lambda: np.random.Generator(np.random.MT19937(1)), lambda one: one.normal()),
    "numpy, legacy": (lambda: np.random.RandomState(1), lambda one: one.normal()),
    "python": (lambda: random.Random(1), lambda one: one.gauss()),
    "torch": (torch_generator, lambda one: torch.rand(1, generator=one).item()),
}
each_kind = pytest.mark.parametrize(("make", "draw"), GENERATORS.values(), ids=GENERATORS.keys())


@each_kind
def test_a_generator_draws_again_what_it_drew(make: Callable[[], Any], draw: Callable[[Any], Any]) -> None:
    one = make()
    draw(one)
    state, text = state_of(one), as_text(one)
    once = [draw(one) for _ in range(5)]
    put_back(one, state)
    assert [draw(one) for _ in range(5)] == once
    other = make()
    from_text(other, json.dumps(json.loads(text)))
    assert [draw(other) for _ in range(5)] == once


def test_a_state_of_another_kind_leaves_a_generator_as_it_is() -> None:
    one = random.Random(1)
    before = one.getstate()
    from_text(one, as_text(np.random.default_rng(1)))
    assert one.getstate() == before


class Shuffles:
    """A sampler with a generator, a counter and something that holds a generator itself."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)
        self.epoch = 0
        self.order = list(range(8))
        self.inner = Inner()
        self.model = torch.nn.Dropout()

    def draw(self) -> list[Any]:
        self.epoch += 1
        return [self.epoch, self.rng.permutation(self.order).tolist(), self.inner.rng.random()]


class Inner:
    def __init__(self) -> None:
        self.rng = random.Random(2)


def test_an_object_draws_again_by_all_that_decides_what_it_draws() -> None:
    one = Shuffles()
    one.draw()
    state = capture(one)
    assert set(state) == {".rng", ".epoch", ".inner.rng"}
    once = [one.draw() for _ in range(3)]
    restore(one, state)
    assert [one.draw() for _ in range(3)] == once


def test_what_a_function_encloses_decides_what_it_draws_and_generators_of_its_module_do() -> None:
    rng, count = np.random.default_rng(1), 0

    def draw() -> list[float]:
        nonlocal count
        count += 1
        return [count, rng.random(), OUTSIDE.random()]

    draw()
    state = capture(draw)
    once = draw()
    restore(draw, state)
    assert draw() == once


def test_a_method_draws_by_its_object() -> None:
    one = Shuffles()
    state = capture(one.draw)
    once = one.rng.random()
    restore(one.draw, state)
    assert one.rng.random() == once


def test_what_is_gone_or_has_become_something_else_is_left_alone() -> None:
    one = Shuffles()
    state = capture(one)
    one.epoch, one.rng = "none", None
    del one.inner
    restore(one, state)
    assert (one.epoch, one.rng) == ("none", None)


def test_objects_that_hold_each_other_are_looked_at_once() -> None:
    one, other = Inner(), Inner()
    one.other, other.other = other, one
    assert set(capture(one)) == {".rng", ".other.rng"}


def test_a_closure_that_is_not_bound_yet_holds_nothing() -> None:
    def draw() -> Any:
        return later

    assert capture(draw) == {}
    later = 1
    assert capture(draw) == {".cell:later": {"plain": later}}


def test_generators_that_things_hold_are_found_by_identity() -> None:
    one = Shuffles()
    assert generators_of([one, one.draw]) == {id(one.rng), id(one.inner.rng)}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ({"x": torch.tensor([1, 2])}, {"x": torch.tensor([1, 2])}, True),
        ({"x": torch.tensor([1, 2])}, {"x": torch.tensor([1, 3])}, False),
        ({"x": torch.tensor([1])}, {"x": torch.tensor([1, 1])}, False),
        ({"x": np.ones(2)}, {"x": torch.ones(2)}, False),
        ({"x": 1}, {"x": 1, "y": 2}, False),
        ([1, [2, 3]], [1, [2, 3]], True),
        ([1], (1,), False),
        ({"best": math.nan}, {"best": math.nan}, True),
        (math.nan, 1.0, False),
    ],
)
def test_states_are_alike_where_all_in_them_is(a: Any, b: Any, expected: bool) -> None:
    assert alike(a, b) is expected
