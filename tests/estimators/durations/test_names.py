"""Names that differ by a number or a few letters are one name. They are made up, as Helios' are not public."""

from __future__ import annotations

import pytest
from coadapt.estimators.durations.names import NameBuckets


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("train_r50_v2", "train_r50_v3", True),
        ("Train_R50_v2", "train_r50_v11", True),
        ("train_r50_lr0.1", "train_r50_lr0.01_wd", True),
        ("train_r50", "eval_bert", False),
        ("a", "b", False),
        ("", "train", False),
    ],
)
def test_similar_names_of_an_owner_share_a_bucket(first: str, second: str, same: bool) -> None:
    buckets = NameBuckets(0.6)
    assert (buckets.of("ann", first) == buckets.of("ann", second)) is same


def test_owners_have_buckets_of_their_own_and_a_job_without_a_name_has_none() -> None:
    buckets = NameBuckets(0.6)
    assert buckets.of("ann", "train_r50") == "train_r#"
    assert buckets.of("bob", "train_r51x") == "train_r#x", "of bob's names it is the first"
    assert buckets.of("ann", "  ") == ""


def test_the_bucket_of_a_name_never_changes_while_it_is_remembered() -> None:
    buckets = NameBuckets(0.8)
    names = [f"{stem}_{kind}" for stem in ("resnet", "bert", "gan") for kind in ("a", "ab", "abc")]
    first = [buckets.of("ann", name) for name in names]
    assert [buckets.of("ann", name) for name in names] == first


@pytest.mark.parametrize("similarity", [-0.1, 1.1, float("nan")])
def test_a_similarity_outside_0_to_1_is_refused(similarity: float) -> None:
    with pytest.raises(ValueError, match=r"similarity: .* must be from 0 to 1"):
        NameBuckets(similarity)
