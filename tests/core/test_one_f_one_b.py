"""A pipeline's schedule: what each stage does when, and where it waits."""

from __future__ import annotations

from itertools import pairwise

import pytest
from coadapt.core.one_f_one_b import OneForwardOneBackward
from hypothesis import given
from hypothesis import strategies as st

PIPELINES = st.builds(
    lambda stages, more, forward_s, backward_s: OneForwardOneBackward(
        stages, stages + more, forward_s, backward_s
    ),
    st.integers(1, 6),
    st.integers(0, 8),
    st.floats(0.01, 2.0),
    st.floats(0.01, 2.0),
)


def test_four_stages_of_four_micro_batches_wait_as_the_figure_shows() -> None:
    pipeline = OneForwardOneBackward(4, 4, forward_s=1.0, backward_s=2.0)
    assert pipeline.iteration_s == 21.0
    assert pipeline.idle_part == pytest.approx(3 / 7)
    # Hydro, Figure 3.9: the first stage waits for its first backward pass, and then for each of the others.
    assert [end - start for start, end in pipeline.bubbles(0)] == pytest.approx([6.0, 1.0, 1.0, 1.0])
    assert [pipeline.held(stage) for stage in range(4)] == [4, 3, 2, 1]
    assert pipeline.order(3) == [(step % 2 == 1, step // 2) for step in range(8)]


@given(PIPELINES)
def test_every_stage_waits_as_long_as_all_others(pipeline: OneForwardOneBackward) -> None:
    for stage in range(pipeline.stages):
        waits_s = sum(end - start for start, end in pipeline.bubbles(stage))
        assert waits_s == pytest.approx(pipeline.idle_part * pipeline.iteration_s, abs=1e-9)


@given(PIPELINES)
def test_a_pass_begins_when_its_input_is_there_and_no_two_overlap(pipeline: OneForwardOneBackward) -> None:
    stages = pipeline.chunks()
    ends = {
        (stage, chunk.backward, chunk.micro_batch): chunk.end_s
        for stage, chunks in enumerate(stages)
        for chunk in chunks
    }
    assert len(ends) == 2 * pipeline.stages * pipeline.micro_batches
    for stage, chunks in enumerate(stages):
        for before, after in pairwise(chunks):
            assert after.start_s >= before.end_s
        for chunk in chunks:
            if chunk.backward and stage < pipeline.stages - 1:
                assert chunk.start_s >= ends[stage + 1, True, chunk.micro_batch]
            if not chunk.backward and stage:
                assert chunk.start_s >= ends[stage - 1, False, chunk.micro_batch]


@given(PIPELINES, st.integers(0, 5))
def test_a_stage_holds_no_more_activations_than_it_says(pipeline: OneForwardOneBackward, stage: int) -> None:
    if stage >= pipeline.stages:
        return
    held = most = 0
    for backward, _ in pipeline.order(stage):
        held += -1 if backward else 1
        most = max(most, held)
    assert most == pipeline.held(stage)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((0, 4, 1.0, 1.0), "pipeline: stages 0 and micro_batches 4; it has a stage or more, and no fewer"),
        ((4, 3, 1.0, 1.0), "pipeline: stages 4 and micro_batches 3; it has a stage or more, and no fewer"),
        ((4, 4, 0.0, 1.0), "pipeline: forward_s 0 and backward_s 1; passes take longer than 0 s"),
    ],
)
def test_what_is_no_pipeline_is_refused(fields: tuple[int, int, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OneForwardOneBackward(*fields)
