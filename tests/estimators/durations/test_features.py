"""Rolling estimates follow the three cases of Helios, and a row knows only of jobs that ended before."""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
import pytest
from coadapt.estimators.durations import name_clusters
from coadapt.estimators.durations.features import COLUMNS, PROFILE, JobFeatures
from coadapt.estimators.job_history import EndedJob, SubmittedJob


def job(id: str, owner: str = "ann", name: str = "", gpus: int = 1, at_s: float = 2500.0) -> SubmittedJob:
    return SubmittedJob(id, owner, name, "vc", gpus, 4.0 * gpus, at_s)


def history(*ended: tuple[SubmittedJob, float], decay: float = 0.5) -> JobFeatures:
    features = JobFeatures(decay=decay)
    for one, seconds in ended:
        features.ended(EndedJob(replace(one, submitted_s=0.0), seconds, seconds))
    return features


def test_a_new_owner_gets_the_mean_of_all_jobs_of_that_size() -> None:
    features = history((job("a", "bob", gpus=8), 100.0), (job("b", "cid", gpus=8), 300.0), (job("c", "bob"), 9.0))
    row = features.row(job("new", "ann", gpus=8))
    assert (row.rolling_s, row.basis) == (200.0, "2 earlier jobs of its size")


def test_a_known_owner_without_a_similar_name_gets_the_mean_of_the_owners_jobs_of_that_size() -> None:
    features = history((job("a", name="eval"), 100.0), (job("b", name="eval"), 300.0), (job("c", gpus=2), 9.0))
    row = features.row(job("new", name="train_bert"))
    assert (row.rolling_s, row.basis) == (200.0, "2 earlier jobs of its owner and size")


def test_of_a_similar_name_the_newest_weighs_most() -> None:
    lengths = (100.0, 100.0, 1000.0)
    features = history(*((job(f"j{n}", name="train_r50_v2"), s) for n, s in enumerate(lengths)))
    row = features.row(job("new", name="train_r50_v3"))
    assert row.rolling_s == pytest.approx((0.25 * 100 + 0.5 * 100 + 1000) / 1.75)
    assert row.rolling_s > np.mean(lengths)
    assert row.basis == "3 earlier jobs of its owner and name"


def test_without_decay_all_weigh_alike_and_without_history_nobody_can_tell() -> None:
    features = history(*((job(f"j{n}", name="x"), s) for n, s in enumerate((100.0, 400.0))), decay=1.0)
    assert features.row(job("new", name="x")).rolling_s == 250.0
    row = JobFeatures().row(job("new"))
    assert (row.rolling_s, row.basis) == (None, "a guess, as no earlier job has ended")


def test_a_row_does_not_change_when_jobs_end_later() -> None:
    features = history((job("a"), 100.0))
    before = features.row(job("new")).numbers.copy()
    kept = features.row(job("new")).numbers
    features.ended(EndedJob(job("b"), 5000.0, 77.0))
    assert np.array_equal(kept, before, equal_nan=True)
    assert not np.array_equal(features.row(job("new", at_s=5000.0)).numbers, before, equal_nan=True)


def test_what_is_known_only_at_the_end_is_no_part_of_a_submission() -> None:
    assert {field.name for field in fields(SubmittedJob)} == {
        "id", "owner", "name", "pool", "gpus", "cpus", "submitted_s", "use", "team", "tag"
    }  # fmt: skip


def test_the_calendar_is_that_of_the_people_who_submit() -> None:
    monday_s = 1_600_000_000.0 - 1_600_000_000.0 % 86_400 + 86_400  # 2020-09-14 00:00 UTC
    names = ("month", "day", "weekday", "hour", "minute")
    for offset_h, wanted in ((0.0, (9, 14, 0, 0, 0)), (-1.0, (9, 13, 6, 23, 0)), (8.5, (9, 14, 0, 8, 30))):
        row = JobFeatures(utc_offset_s=3600 * offset_h).row(job("new", at_s=monday_s)).numbers
        assert tuple(row[COLUMNS.index(name)] for name in names) == wanted


@pytest.mark.parametrize("decay", [-0.1, 1.5, float("nan")])
def test_a_decay_outside_0_to_1_is_refused(decay: float) -> None:
    with pytest.raises(ValueError, match=r"decay: .* must be from 0 to 1"):
        JobFeatures(decay=decay)


def test_use_of_gpus_is_a_part_of_the_row_once_it_is_known() -> None:
    at = [COLUMNS.index(name) for name in PROFILE]
    of = JobFeatures()
    plain = SubmittedJob("a", "ann", "train", "", 1, 4, 0.0)
    assert np.isnan(of.row(plain).numbers[at]).all()
    known = replace(plain, use=(0.5, 0.25, 3.0, math.nan))
    np.testing.assert_array_equal(of.row(known).numbers[at], known.use)
    with pytest.raises(ValueError, match="must be 4 numbers of 0 or more"):
        replace(plain, use=(0.5,))
    with pytest.raises(ValueError, match="must be 4 numbers of 0 or more"):
        replace(plain, use=(0.5, 0.2, -1.0, 0.0))


def test_buckets_of_names_may_be_learned_and_shared_by_owners() -> None:
    names = name_clusters.fit([*(f"train_{i}" for i in "abc"), *(f"evaluate_it_{i}" for i in "abc")])
    of = JobFeatures(names=names)
    of.ended(EndedJob(SubmittedJob("a", "ann", "train_a", "", 1, 4, 0.0), 50.0, 50.0))
    row = of.row(SubmittedJob("b", "ann", "train_z", "", 8, 4, 60.0))
    assert row.basis == "1 earlier job of its owner and name"
    assert row.rolling_s == 50.0
