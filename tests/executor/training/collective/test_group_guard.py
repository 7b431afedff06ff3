"""Replicas whose scripts go different ways are told so in a sentence, instead of waiting for ever."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from coadapt.executor.training.collective.group import (
    SHARE_DECISIONS,
    Abandoned,
    Disagreement,
    Group,
    GroupBroken,
    describe_place,
)
from coadapt.executor.training.sessions.parameter_samples import alike, sample_of
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ranks import on_ranks


def outcome(act: Any) -> tuple[str, str]:
    """Return what comes of waiting: "" or a kind of exception, and its words."""
    try:
        act()
    except (Disagreement, Abandoned, GroupBroken) as told:
        return type(told).__name__, str(told)
    return "", ""


def test_everyone_has_what_everyone_said() -> None:
    def act(group: Group) -> list[Any]:
        ints = group.gather_ints([group.rank, 10 + group.rank])
        mixed = group.gather_objects({"rank": group.rank, "text": "x" * group.rank})
        return [ints, mixed, group.broadcast_ints([7 + group.rank], source=1)]

    said = [[[0, 10], [1, 11], [2, 12]], [{"rank": rank, "text": "x" * rank} for rank in range(3)], [8]]
    assert on_ranks(3, act) == [said] * 3


def test_tensors_of_several_types_are_overwritten_by_those_of_one_rank() -> None:
    def act(group: Group) -> list[Any]:
        tensors = [
            torch.full((3,), float(group.rank)),
            torch.tensor([group.rank]),
            torch.zeros(0),
            torch.ones(2, 2),
        ]
        group.broadcast_tensors(tensors, source=1)
        return [tensor.tolist() for tensor in tensors]

    assert on_ranks(2, act) == [[[1.0] * 3, [1], [], [[1.0, 1.0]] * 2]] * 2


def gone_another_way(group: Group, place: tuple[Any, ...]) -> tuple[str, str]:
    """Let rank 0 wait for rank 1 before a batch, while rank 1 waits for it at `place`."""
    if group.rank == 0:
        group.place = ("batch", 3, 1)
        return outcome(lambda: group.gather_ints([1]))
    group.place = place
    return outcome(lambda: group.broadcast_ints([0], source=0))


def test_a_replica_that_waits_elsewhere_is_named() -> None:
    found = on_ranks(2, lambda group: gone_another_way(group, ("call of coadapt.combine",)))
    sentence = (
        "replicas have gone different ways: replica 0 waits before batch 3 in epoch 1, "
        f"replica 1 waits at the call of coadapt.combine; {SHARE_DECISIONS}"
    )
    assert ("Disagreement", sentence) in found
    assert {kind for kind, _ in found} <= {"Disagreement", "GroupBroken"}


def test_a_replica_that_has_left_its_loop_is_named() -> None:
    def act(group: Group) -> tuple[str, str]:
        if group.rank == 1:
            group.leave_loop("its loop at epoch 2 of 5")
        return gone_another_way(group, ("leaves",))

    kind, told = on_ranks(2, act)[0]
    assert (kind, told) == (
        "Disagreement",
        "replica 1 has left its loop at epoch 2 of 5, replica 0 waits before batch 3 in epoch 1; "
        + SHARE_DECISIONS,
    )


def test_where_rank_0_has_left_its_loop_the_others_leave_it_too() -> None:
    def act(group: Group) -> tuple[str, str]:
        if group.rank == 1:
            group.place = ("batch", 3, 1)
            return outcome(lambda: group.gather_ints([1]))
        group.leave_loop("its loop at epoch 2 of 5")
        group.place = ("leaves",)
        return outcome(lambda: group.broadcast_ints([0], source=1))

    assert on_ranks(2, act)[1] == ("Abandoned", "its loop at epoch 2 of 5")


def test_a_group_that_broke_completes_nothing_any_more() -> None:
    def act(group: Group) -> list[str]:
        group.gather_ints([1])
        group.fail()
        group.fail()
        return [outcome(lambda: group.gather_ints([1]))[0], outcome(lambda: group.look_up())[0]]

    assert on_ranks(2, act) == [["GroupBroken", "GroupBroken"]] * 2


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("backward", 1, 7, 2), "waits to combine gradients of backward 2 of batch 7 in epoch 2"),
        (("batch", 7, 2), "waits before batch 7 in epoch 2"),
        (("end of the epoch",), "waits at the end of the epoch"),
        (("leaves",), "leaves its loop"),
    ],
)
def test_places_are_told_in_words(place: tuple[Any, ...], words: str) -> None:
    assert describe_place(place) == words


@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=50), st.integers(0, 49))
def test_parameters_that_moved_apart_are_told_from_round_off(values: list[float], place: int) -> None:
    parameter = torch.tensor(values)
    size = float(parameter.abs().max())
    near = parameter * (1 + 1e-6)
    assert alike(sample_of(parameter), sample_of(near))
    apart = parameter.clone()
    apart[place % len(values)] += 10 * size + 1
    assert not alike(sample_of(parameter), sample_of(apart))


def test_parameters_that_are_no_numbers_anywhere_are_nobodys_disagreement() -> None:
    """A loss that is NaN is the script's matter, and the same on all replicas."""
    nothing, something = sample_of(torch.tensor([float("nan")])), sample_of(torch.tensor([1.0]))
    assert alike(nothing, nothing)
    assert not alike(nothing, something)
    assert not alike(something, nothing)
