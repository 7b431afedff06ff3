"""A batch of the script is divided over replicas and passes so that each of its samples counts once."""

from collections import Counter
from fractions import Fraction
from itertools import chain

import pytest
from coadapt.core.batch_plan import BatchPlan
from coadapt.executor.training.data.units import Part, Split
from hypothesis import given
from hypothesis import strategies as st

SPLITS = st.builds(
    Split,
    replicas=st.integers(1, 6),
    unit=st.integers(1, 60),
    passes=st.integers(1, 4),
    merged=st.integers(1, 3),
    least=st.integers(1, 9),
)


def all_parts(split: Split, samples: int) -> list[Part]:
    return list(chain.from_iterable(split.parts(samples, rank) for rank in range(split.replicas)))


@given(SPLITS, st.integers(1, 60))
def test_the_parts_that_count_hold_each_sample_once(split: Split, samples: int) -> None:
    parts = [part for part in all_parts(split, samples) if part.counts]
    held = [part.of(range(samples)) for part in parts]
    assert sorted(chain.from_iterable(held)) == list(range(samples))
    assert [len(part) for part in held] == [part.samples for part in parts]
    assert max(map(len, held)) - min(map(len, held)) <= 1
    assert sum(split.local_samples(samples, rank) for rank in range(split.replicas)) == samples


@given(SPLITS, st.integers(1, 60))
def test_what_several_replicas_compute_alike_weighs_as_much_as_what_one_does(split: Split, samples: int) -> None:
    weights: Counter[int] = Counter()
    for part in all_parts(split, samples):
        weights[part.index] += Fraction(1, part.copies)  # type: ignore[assignment]
    assert set(weights.values()) == {1}


@given(SPLITS, st.integers(1, 60))
def test_every_replica_makes_as_many_passes_and_none_is_empty(split: Split, samples: int) -> None:
    passes = {len(split.parts(samples, rank)) for rank in range(split.replicas)}
    assert passes == {split.passes_for(samples)}
    assert all(part.samples > 0 for part in all_parts(split, samples))


@given(SPLITS, st.integers(1, 60))
def test_no_part_is_smaller_than_the_least_unless_the_batch_is(split: Split, samples: int) -> None:
    assert min(part.samples for part in all_parts(split, samples)) >= min(split.least, samples)


def test_the_rest_of_an_epoch_takes_no_more_passes_than_it_needs() -> None:
    split = Split(replicas=2, unit=24, passes=3)
    assert [split.passes_for(samples) for samples in (24, 20, 16, 9, 8, 1)] == [3, 3, 2, 2, 1, 1]
    assert split.parts(1, 0) == [Part(0, 1, 1, copies=2)]
    assert split.parts(1, 1) == [Part(0, 1, 1, copies=2, counts=False)]


def test_with_one_pass_a_replica_gets_every_nth_sample_as_from_a_distributed_sampler() -> None:
    split = Split(replicas=3, unit=7)
    assert [split.parts(7, rank)[0].of("abcdefg") for rank in range(3)] == ["adg", "be", "cf"]


@pytest.mark.parametrize(
    ("plan", "replicas", "asks", "expected"),
    [
        # (unit, passes, merged) of the split that carries the plan out, for a script with batches of 32
        (BatchPlan(16, 0, 32), 2, {}, (32, 1, 1)),
        (BatchPlan(8, 1, 32), 2, {}, (32, 2, 1)),
        (BatchPlan(16, 3, 128), 2, {}, (32, 1, 4)),
        (BatchPlan(16, 3, 128), 2, {"fused": True}, (128, 4, 1)),
        (BatchPlan(16, 1), 4, {}, (32, 1, 4)),
        (BatchPlan(16, 1), 4, {"fused": True}, (128, 2, 1)),
        (BatchPlan(16, 3, 128), 2, {"per_step": 2}, (32, 1, 2)),
        (BatchPlan(4, 7, 64), 2, {"undivided": True}, (32, 1, 2)),
        (BatchPlan(4, 7, 64), 2, {"undivided": True, "fused": True}, (32, 1, 2)),
        (BatchPlan(4, 7, 64), 2, {"single": True}, (32, 1, 1)),
        (BatchPlan(5, 0, 32), 6, {}, (32, 2, 1)),  # 5 x 6 is less than 32
        (BatchPlan(1, 0, 8), 2, {"undivided": True}, (32, 1, 1)),  # never less than one batch
    ],
)
def test_a_plan_splits_batches_and_merges_steps(
    plan: BatchPlan, replicas: int, asks: dict[str, int], expected: tuple[int, int, int]
) -> None:
    split = Split.of(plan, replicas, 32, **asks)  # type: ignore[arg-type]
    assert (split.unit, split.passes, split.merged) == expected


@given(st.integers(1, 200), st.integers(1, 8), st.integers(1, 80))
def test_no_part_of_a_batch_is_larger_than_the_plan_allows(batch: int, replicas: int, local_bsz: int) -> None:
    split = Split.of(BatchPlan(local_bsz, 0, batch), replicas, batch)
    assert max(part.samples for part in all_parts(split, batch)) == split.local_bsz <= local_bsz
