"""What a job has done is told alike by its session, by the scheduler and by the simulator."""

import pytest
from coadapt.core.completion import fraction_done, samples_left
from coadapt.core.training_config import Count
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("count", "asked", "progress", "passes", "fraction"),
    [
        (Count.PROGRESS, 60, 15.0, 20.0, 0.25),  # larger batches made less of 20 passes than 20 epochs
        (Count.PASSES, 60, 15.0, 20.0, 1 / 3),
        (Count.PROGRESS, 60, 59.0, 80.0, 59 / 60),  # it goes on, however many passes that takes
        (Count.PASSES, 60, 45.0, 60.0, 1.0),
        (Count.PROGRESS, 60, 60.4, 80.0, 1.0),  # the last pass made more than was asked for
        (Count.PROGRESS, 60, 0.0, 0.0, 0.0),
        (Count.PROGRESS, 0, 0.0, 0.0, 0.0),  # nothing was asked for yet
    ],
)
def test_the_part_done_counts_what_ends_the_training(
    count: Count, asked: float, progress: float, passes: float, fraction: float
) -> None:
    assert fraction_done(count, asked, progress, passes) == pytest.approx(fraction)


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(1, 1e3), st.sampled_from(Count))
def test_the_part_done_is_between_nothing_and_all(
    progress: float, passes: float, asked: float, count: Count
) -> None:
    assert 0.0 <= fraction_done(count, asked, progress, passes) <= 1.0


@given(st.floats(1, 1e9), st.floats(0.001, 1.0))
def test_where_progress_counts_what_is_left_is_exact(total: float, part: float) -> None:
    progress = total * part
    left = samples_left(progress, fraction_done(Count.PROGRESS, total, progress, 0.0))
    assert left == pytest.approx(total - progress, abs=1e-6 * total)


def test_nothing_is_said_of_what_is_left_before_anything_is_done() -> None:
    assert samples_left(0.0, 0.0) is None
    assert samples_left(100.0, 0.0) is None
    assert samples_left(100.0, 1.0) == 0.0
