"""A rank whose own connections still live stops waiting as soon as a collective has failed for another rank."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from coadapt.executor.protocol.messages import Join
from coadapt.executor.training.collective.group import GroupBroken
from coadapt.executor.training.collective.sharded_group import ASK_S, ShardedGroup
from coadapt.executor.training.sharding.shards import Shards


def groups(store: dist.Store) -> list[ShardedGroup]:
    """Return the groups of two replicas of one process each, without connections."""
    return [
        ShardedGroup(Join(1, rank, 2, 1, rank, 2, "", 0), torch.device("cpu"), Shards(0, 1), {}, store)
        for rank in range(2)
    ]


@pytest.mark.parametrize("column", [False, True], ids=["of all ranks", "of a column"])
def test_a_rank_that_waits_hears_of_a_failure_elsewhere(column: bool) -> None:
    failing, waiting = groups(dist.HashStore())
    waits = waiting.column if column else waiting
    waits.look_up(ASK_S)
    with pytest.raises(GroupBroken), failing.collective():
        raise RuntimeError("connection closed by peer")
    waits.look_up()  # a short wait asks nobody
    with pytest.raises(GroupBroken, match="for another process of this group"):
        waits.look_up(ASK_S)
    with pytest.raises(GroupBroken):
        waits.look_up()


def test_a_failure_ends_one_generation_only() -> None:
    store = dist.HashStore()
    failing, _ = groups(dist.PrefixStore("g1/", store))
    _, waiting = groups(dist.PrefixStore("g2/", store))
    with pytest.raises(GroupBroken), failing.collective():
        raise RuntimeError("connection closed by peer")
    waiting.look_up(ASK_S)
