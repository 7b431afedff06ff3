"""Groups fit into memory, never mix what cannot be fused, and use the GPUs that are there."""

from __future__ import annotations

import pytest
from coadapt.tuning.planner import (
    UNBOUNDED,
    EpochTime,
    GroupMemory,
    gpus_by_kind,
    kind_of,
    merges,
    plan_groups,
    split,
    splits,
    spread,
    work_of,
    worth_splitting,
)

B64, B128, B256 = [(("batch_size", size),) for size in (64, 128, 256)]


def test_two_measurements_tell_the_most_trials_of_a_group() -> None:
    assert GroupMemory(2, 3, 80 / 0.95).most == 79  # of 80 GiB that may be used
    assert GroupMemory(1482 / 1024 + 0.1, 1482 / 1024 + 0.2, 80).most > 600  # ResNet-18 of width 1/8 on an A100


@pytest.mark.parametrize(
    ("memory", "most"),
    [
        (GroupMemory(90, 91, 80), 0),
        (GroupMemory(1, 1, 80), UNBOUNDED),
        (GroupMemory(76, 80, 80), 1),
        (GroupMemory(70, 76, 80), 2),
    ],
)
def test_memory_at_its_ends(memory: GroupMemory, most: int) -> None:
    assert memory.most == most


def test_gpus_go_by_batch_size_times_trials() -> None:
    work = {kind: work_of(kind, 10) for kind in (B64, B128, B256)}
    assert gpus_by_kind(work, 7) == {B64: 1, B128: 2, B256: 4}
    assert sum(gpus_by_kind(work, 8).values()) == 8
    assert gpus_by_kind({B64: 1.0, B256: 1000.0}, 3) == {B64: 1, B256: 2}  # nobody goes without
    assert gpus_by_kind(work, 2) == {B64: 0, B128: 1, B256: 1}  # the lightest waits


def test_trials_spread_evenly_and_in_whole_waves() -> None:
    assert [len(one) for one in spread(range(10), 4, 100)] == [3, 3, 2, 2]
    assert [len(one) for one in spread(range(1000), 8, 676)] == [125] * 8
    assert [len(one) for one in spread(range(1000), 4, 220)] == [125] * 8  # two waves, none of them nearly empty
    assert [len(one) for one in spread(range(3), 8, 100)] == [1, 1, 1]
    assert spread([], 3, 5) == []


def test_groups_never_mix_batch_sizes_nor_exceed_the_most() -> None:
    kinds = {i: (B64, B128, B256)[i % 3] for i in range(60)}
    groups = plan_groups(kinds, {B64: 4, B128: 9, B256: 50}, 7)
    assert sorted(one for _, members in groups for one in members) == list(range(60))
    for kind, members in groups:
        assert {kinds[one] for one in members} == {kind}
        assert len(members) <= {B64: 4, B128: 9, B256: 50}[kind]
    assert groups[0][0] == B256  # what has the most work starts first


def test_the_kind_of_a_trial_is_what_cannot_differ() -> None:
    values = {"lr": 0.1, "batch_size": 64, "opt": "sgd"}
    assert kind_of(values, {"opt", "batch_size", "unknown"}) == (("batch_size", 64), ("opt", "sgd"))
    assert work_of((("opt", "sgd"),), 3) == 3


def test_an_idle_gpu_takes_half_of_the_largest_group() -> None:
    assert splits({"a": 8}, 1) == {"a": 2}
    assert split(range(8), 2) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert splits({"a": 8, "b": 20}, 1) == {"b": 2}
    assert splits({"a": 8, "b": 20}, 3) == {"b": 3, "a": 2}
    assert splits({"a": 1, "b": 1}, 3) == {}
    assert splits({"a": 8}, 5, least=4) == {"a": 2}


def test_a_split_must_be_worth_its_start() -> None:
    time = EpochTime(4.0, 0.36)
    assert worth_splitting(time, 200, 10, 30)
    assert not worth_splitting(time, 200, 1, 40)
    assert not worth_splitting(time, 4, 20, 30)


def test_thinned_groups_of_one_kind_and_epoch_merge() -> None:
    at = {"a": (B64, 3), "b": (B64, 3), "c": (B64, 9), "d": (B128, 3), "e": (B64, 3)}
    assert merges({"a": 3, "b": 2, "c": 1, "d": 1, "e": 1}, at, {B64: 5, B128: 5}) == [["a", "b"]]
    assert merges({"a": 3, "b": 2, "c": 1, "d": 1, "e": 1}, at, {B64: 50, B128: 5}) == [["a", "b", "e"]]
    assert merges({"a": 4, "b": 4}, {"a": (B64, 3), "b": (B64, 3)}, {B64: 6}) == []
