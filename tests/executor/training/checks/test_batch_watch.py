"""What a script does with parts of a batch tells whether it may be given parts."""

from __future__ import annotations

import pytest
from coadapt.executor.training.checks.batch_watch import _are_of_pieces


@pytest.mark.parametrize(
    ("whole", "part", "share", "of_pieces"),
    [
        ([2], [1], 1 / 2, True),  # pieces as large as the part
        ([4, 4], [2, 2], 1 / 2, True),
        ([4], [2], 1 / 3, True),  # the last piece is shorter
        ([3], [3], 1 / 2, False),  # several steps of each batch, whatever its size
        ([1], [1], 1 / 2, False),
        ([5, 3], [2], 1 / 2, False),  # as many as the losses need
        ([8], [7], 1 / 2, False),
        ([], [1], 1 / 2, False),
    ],
)
def test_steps_that_go_by_the_size_of_a_batch_are_of_its_pieces(
    whole: list[int], part: list[int], share: float, of_pieces: bool
) -> None:
    assert _are_of_pieces(whole, part, share) is of_pieces
