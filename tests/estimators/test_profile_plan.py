"""Profiling is short, finds the largest batch that fits, and goes on where a dead process ended."""

import pytest
from coadapt.core.reports import StepRow
from coadapt.estimators.profile_plan import ProfilePlan
from hypothesis import given
from hypothesis import strategies as st


def row(local_bsz: int, step_time_s: float, count: int) -> StepRow:
    return StepRow(1, 1, local_bsz, 0, step_time_s, 0.0, count)


def run(plan: ProfilePlan, fits: int, per_sample_s: float = 1e-4) -> tuple[list[int], list[int]]:
    """Return the sizes measured and those that did not fit, when `fits` is the largest that does."""
    measured, failed = [], []
    while (step := plan.next()) is not None:
        if step.local_bsz <= fits:
            measured.append(step.local_bsz)
            plan.record(row(step.local_bsz, per_sample_s * step.local_bsz, step.timed))
        else:
            failed.append(step.local_bsz)
            plan.out_of_memory(step.local_bsz)
    return measured, failed


def test_about_ten_sizes_from_smallest_to_largest() -> None:
    measured, failed = run(ProfilePlan(8, 512), fits=512)
    assert (measured[0], measured[-1], failed) == (8, 512, [])
    assert measured == sorted(set(measured))
    assert 8 <= len(measured) <= 11


@given(least=st.integers(1, 64), factor=st.integers(1, 64), fits=st.integers(0, 5000), step=st.floats(0, 1))
def test_every_plan_ends_within_its_limits(least: int, factor: int, fits: int, step: float) -> None:
    plan = ProfilePlan(least, least * factor)
    measured, failed = run(plan, fits, step)
    assert len(measured) + len(failed) <= 16
    assert all(least <= size <= least * factor for size in measured + failed)
    assert len(failed) <= 3, "each costs a process"
    if measured[1:]:
        assert plan.spent_s <= 20.0 + 1e-9


@pytest.mark.parametrize("most", [None, 100_000])
def test_memory_is_narrowed_down_to_within_a_fifth(most: int | None) -> None:
    plan = ProfilePlan(4, most, sizes=16)
    run(plan, fits=700, per_sample_s=1e-6)
    assert 700 / 1.25 <= (plan.largest or 0) <= 700


def test_a_new_process_goes_on_where_the_dead_one_ended() -> None:
    whole = run(ProfilePlan(4, 4096), fits=300)
    plan, rows, failed = ProfilePlan(4, 4096), [], []
    order = []
    while (step := plan.next()) is not None:
        order.append(step.local_bsz)
        if step.local_bsz <= 300:
            rows.append(row(step.local_bsz, 1e-4 * step.local_bsz, step.timed))
        else:
            failed.append(step.local_bsz)
        plan = ProfilePlan(4, 4096, measured=rows, failed=failed)  # every size in a process of its own
    assert (sorted(whole[0] + whole[1])) == sorted(order)


def test_not_even_the_smallest_size_fits() -> None:
    plan = ProfilePlan(64, 512)
    assert run(plan, fits=10) == ([], [64])
    assert plan.largest is None


def test_slow_models_are_measured_less() -> None:
    plan = ProfilePlan(1, 1024)
    measured, _ = run(plan, fits=1024, per_sample_s=0.2)
    assert 1 <= len(measured) < 10
    assert plan.spent_s <= 20


def test_limits_that_contradict_are_named() -> None:
    with pytest.raises(ValueError, match="max_local_batch_size: 4 is less than min_local_batch_size 8"):
        ProfilePlan(8, 4)
