"""Buckets of names by affinity propagation: the right ones, unseen names, and the cap (LU-15)."""

import pytest
from coadapt.estimators.durations import name_clusters
from coadapt.estimators.durations.name_clusters import OTHER, NameClusters

NAMES = [
    *(f"train_r50_v{i}" for i in (1, 2, 3)), *(f"bert_eval_{i}" for i in "abc"),
    *(f"gan_lsun_0{i}" for i in (1, 2, 3)),
]  # fmt: skip


def test_names_alike_are_one_bucket() -> None:
    found = name_clusters.fit(NAMES)
    buckets = [found.of("anyone", name) for name in NAMES]
    assert len(set(buckets)) == 3
    assert [len(set(buckets[i : i + 3])) for i in (0, 3, 6)] == [1, 1, 1]


def test_unseen_names_go_to_the_nearest_bucket_or_to_other() -> None:
    found = name_clusters.fit(NAMES)
    assert found.of("", "Train_R50_v9") == found.of("", "train_r50_v1")
    assert found.of("", "quite another thing") == OTHER
    assert found.of("", "") == ""


def test_only_the_most_frequent_names_are_compared() -> None:
    many = [f"run_{'x' * (i % 40)}_{i}" for i in range(2000)]
    found = name_clusters.fit([*NAMES * 5, *many], most=9)
    assert sorted(found.buckets) == sorted(NAMES)


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b"], ["same"] * 9, ["aa", "bb", "cc"]])
def test_few_names_and_names_that_do_not_settle_have_buckets(names: list[str]) -> None:
    found = name_clusters.fit(names)
    assert all(found.of("", name) for name in names)


def test_buckets_come_back_from_json_and_others_are_refused() -> None:
    found = name_clusters.fit(NAMES)
    assert NameClusters.read(found.to_json()) == found
    for document in ({}, {"buckets": {"a": 1}, "similar": 0.5}, {"buckets": [], "similar": 2}, None):
        with pytest.raises(ValueError, match="no such buckets"):
            NameClusters.read(document)
    with pytest.raises(ValueError, match="must be at least 2"):
        name_clusters.fit(NAMES, most=1)
