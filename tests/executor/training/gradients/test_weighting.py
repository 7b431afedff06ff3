"""A backward is weighted by its part's share, and what counts for nothing brings no gradient."""

from __future__ import annotations

import torch
from coadapt.executor.training.gradients.weighting import none_where, scaled, times, to_one


def test_zero_times_a_gradient_that_is_no_number_is_zero() -> None:
    gradient = torch.tensor([float("nan"), float("inf"), 1.0])
    (weighted, missing) = times(0.0)((gradient, None))
    assert torch.equal(weighted, torch.zeros(3))
    assert missing is None
    assert torch.equal(none_where(torch.tensor(0.0))((gradient,))[0], torch.zeros(3))


def test_a_gradient_is_multiplied_by_its_share() -> None:
    (weighted,) = times(torch.tensor(0.5))((torch.tensor([2.0, 4.0]),))
    assert torch.equal(weighted, torch.tensor([1.0, 2.0]))


def test_a_backward_starts_with_its_share_of_one_or_of_what_the_script_gives() -> None:
    loss, given = torch.tensor(3.0), torch.tensor(4.0)
    assert scaled(loss, None, 1.0) is None
    assert scaled(loss, None, 0.25) == 0.25
    assert scaled(loss, given, 0.25) == 1.0
    assert scaled(torch.ones(2), None, 0.25) is None


def test_weights_are_brought_to_one_where_there_are_any() -> None:
    assert to_one(4.0) == 0.25
    assert to_one(1.0) is None
    assert to_one(0.0) is None
    assert to_one(torch.tensor(2.0)) == 0.5
