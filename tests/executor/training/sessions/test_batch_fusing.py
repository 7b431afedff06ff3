"""A loop is given larger batches where that was asked for, or all have seen that it does not count its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from coadapt.core.training_config import TrainingConfig
from coadapt.executor.training.sessions.batch_fusing import BatchFusing
from coadapt.executor.training.sessions.loop_state import LoopState
from coadapt.executor.training.sessions.step_in_hand import StepInHand
from coadapt.executor.training.state.training_state import Position


@dataclass
class Data:
    fusable: bool = True


def fusing(data: Data | None = None, steps: float | None = None, **config: Any) -> BatchFusing:
    fields = {"initial_batch_size": 32, "max_batch_size": 128} | config
    loop = LoopState(Position(), StepInHand(), step_count=steps)
    return BatchFusing(TrainingConfig.model_validate(fields), 32, loop, data or Data(), False)


@pytest.mark.parametrize(
    ("found", "possible"),
    [
        (fusing(), True),
        (fusing(max_batch_size=32), False),
        (fusing(max_batch_size=None), False),
        (fusing(adaptivity="strong-scaling", max_batch_size=None), False),
        (fusing(fuse_batches="never"), False),
        (fusing(steps=100), False),
        (fusing(Data(fusable=False)), False),
    ],
)
def test_larger_batches_are_an_option_where_all_allow_them(found: BatchFusing, possible: bool) -> None:
    assert found.is_possible is possible


@pytest.mark.parametrize(
    ("config", "all_looked", "position", "fused"),
    [
        ({}, True, {}, True),
        ({}, False, {}, False),
        ({}, True, {"counted": True}, False),
        ({"fuse_batches": "always"}, False, {"counted": True}, True),
        ({}, True, {"per_step": 2}, False),
        ({"fuse_batches": "never"}, True, {}, False),
    ],
)
def test_they_are_chosen_after_a_pass_in_which_all_have_looked(
    config: dict[str, Any], all_looked: bool, position: dict[str, Any], fused: bool
) -> None:
    found = fusing(**config)
    found.all_looked = all_looked
    for name, value in position.items():
        setattr(found._loop.position, name, value)
    found.choose()
    assert found._loop.position.whole is not fused


def test_a_loop_is_looked_at_only_while_that_can_matter() -> None:
    found, never = fusing(), fusing(fuse_batches="never")
    for batch in range(5):
        for one in (found, never):
            one._loop.position.batch = batch
            one.look([0.1])
    assert (found.habits.looked, never.habits.looked) == (True, False)
