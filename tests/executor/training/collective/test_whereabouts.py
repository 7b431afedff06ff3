"""Replicas that wait for each other for ever are told so; those that wait for a third one are not."""

import torch.distributed as dist
from coadapt.executor.training.collective.group import Whereabouts

BATCH_3, BATCH_4 = ("batch", 3, 0), ("batch", 4, 0)
BACKWARD = ("backward", 0, 3, 0)


def told(mine: list[tuple[int, tuple[object, ...]]], theirs: list[tuple[int, tuple[object, ...]]]) -> str:
    """Return what rank 0 learns in a wait of some seconds, while rank 1 waits as long."""
    store = dist.HashStore()
    here, there = (Whereabouts(store, rank, 2) for rank in range(2))
    said = ""
    for second in range(6):
        there.tell(theirs)
        said = said or here.compare(mine, float(second))
    return said


def test_different_collectives_of_one_number_are_told_with_their_places() -> None:
    said = told([(7, BATCH_4)], [(7, BACKWARD)])
    assert "replica 0 waits before batch 4 in epoch 0" in said
    assert "replica 1 waits to combine gradients of backward 1 of batch 3 in epoch 0" in said
    assert said.endswith("decide by values that all share, such as coadapt.combine(value)")


def test_a_replica_that_is_ahead_of_one_that_waits_for_a_third_is_no_different() -> None:
    assert told([(6, BACKWARD), (7, BATCH_4)], [(7, BATCH_4), (8, ("backward", 0, 4, 0))]) == ""


def test_a_replica_that_is_ahead_by_another_way_is_told() -> None:
    assert "different ways" in told([(7, BATCH_4)], [(7, BACKWARD), (8, ("backward", 0, 4, 0))])


def test_one_that_does_not_wait_any_more_is_not_compared() -> None:
    store = dist.HashStore()
    here, there = (Whereabouts(store, rank, 2) for rank in range(2))
    there.tell([(7, BACKWARD)])
    assert [here.compare([(7, BATCH_4)], float(second)) for second in range(5)] == [""] * 5
