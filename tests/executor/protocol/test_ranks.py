"""Ranks of a new group: who stays keeps its place, and the ranks of a node lie together."""

from __future__ import annotations

from coadapt.executor.protocol.ranks import Rendezvous, joins, rank_order

from tests.support.simulated_workers import slot

A, B, C, D = slot("n1"), slot("n1", 1), slot("n2"), slot("n3", gpu_type="t4")


def test_ranks_follow_the_old_group_and_then_the_nodes() -> None:
    slots = {"a": C, "b": A, "c": B, "d": D}
    order = rank_order(slots, previous=["x", "d"])
    assert order == ["d", "b", "c", "a"]
    commands = joins(order, slots, 7, Rendezvous("h", 1), None)
    assert [commands[id].rank for id in order] == [0, 1, 2, 3]
    assert [commands[id].local_rank for id in order] == [0, 0, 1, 0]
    assert {join.nodes for join in commands.values()} == {3}
    assert [commands[id].local_world_size for id in order] == [1, 2, 2, 1]


def test_a_survivor_that_was_rank_0_stays_rank_0() -> None:
    assert rank_order({"new": A, "old": D, "next": C}, previous=["old", "next"])[0] == "old"
