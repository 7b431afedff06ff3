"""Gradients of earlier passes wait for the last one; the script may look at them and cannot count them twice."""

from __future__ import annotations

import torch
from coadapt.executor.training.gradients.kept_back import OWN, KeptBack
from coadapt.executor.training.gradients.parameter_list import ParameterList
from torch import Tensor, nn

A, B = 0, 1  # numbers of two parameters


class Kept:
    """Two parameters, and what is kept back of their gradients."""

    def __init__(self) -> None:
        self.parameters = [nn.Parameter(torch.zeros(2)) for _ in range(2)]
        listed = ParameterList(lambda: self.parameters)
        listed.refresh()
        self.kept = KeptBack(listed)

    def grads(self, **values: float | None) -> None:
        for name, value in values.items():
            self.parameters["ab".index(name)].grad = None if value is None else torch.full((2,), float(value))

    def shown(self) -> list[float | None]:
        return [None if p.grad is None else float(p.grad[0]) for p in self.parameters]


def numbers(gradients: dict[int, Tensor]) -> dict[int, float]:
    return {i: float(gradient[0]) for i, gradient in gradients.items()}


def test_parts_of_the_same_backward_add_up_with_their_weights() -> None:
    one = Kept()
    assert not one.kept
    one.grads(a=1.0, b=2.0)
    one.kept.add(0, 0.25)
    one.grads(a=10.0, b=None)
    one.kept.add(0, 0.5)
    assert one.kept
    assert numbers(one.kept.of(0)) == {A: 11.0, B: 2.0}
    assert one.kept.pop_weight(0) == 0.75
    assert numbers(one.kept.pop_gradients(0)) == {A: 11.0, B: 2.0}
    assert (one.kept.pop_gradients(0), one.kept.pop_weight(0), bool(one.kept)) == ({}, 0.0, False)


def test_what_is_kept_is_no_part_of_what_the_script_looks_at() -> None:
    one = Kept()
    one.grads(a=1.0)
    one.kept.add(0, 1.0)
    one.parameters[A].grad.mul_(100)
    assert numbers(one.kept.of(0)) == {A: 1.0}


def test_gradients_that_were_shown_give_way_to_what_was_accumulated_before() -> None:
    one = Kept()
    one.grads(a=1.0, b=2.0)
    one.kept.add(0, 1.0)
    one.kept.below[B] = torch.full((2,), 7.0)
    assert one.kept.reached == {A, B}
    one.kept.take_back()
    assert one.shown() == [None, 7.0]
    one.grads(a=3.0)
    one.kept.take_back()
    assert one.shown() == [3.0, 7.0], "once is enough"


def test_what_a_backward_of_nothing_shows_counts_for_nothing() -> None:
    one = Kept()
    one.grads(a=1.0)
    one.kept.show_all()
    assert not one.kept
    one.kept.take_back()
    assert one.shown() == [None, None]


def test_gradients_that_no_backward_brought_are_reached_by_none() -> None:
    one = Kept()
    one.grads(a=1.0)
    one.kept.add(OWN, 1.0)
    assert (one.kept.reached, numbers(one.kept.of(OWN))) == (set(), {A: 1.0})


def test_backwards_are_found_from_a_number_on_and_all_are_dropped_together() -> None:
    one = Kept()
    one.grads(a=1.0)
    for ordinal in (0, 2, 5):
        one.kept.add(ordinal, 1.0)
    one.kept.stale = 1.0
    assert one.kept.from_backward(2) == [2, 5]
    one.kept.clear()
    assert (bool(one.kept), one.kept.stale, one.kept.pop_weight(2)) == (False, 0.0, 0.0)
