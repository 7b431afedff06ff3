"""Cells, shapes and what fits (spec, checks B1 to B4, and the brute force behind its section 6.2)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from coadapt.policies.placing.cells import (
    Shape,
    exact_shapes,
    fits,
    free_cells,
    gpus_in,
    is_friendly,
    levels_of,
    nodes_of,
    place,
    shapes_of,
    together,
    usage,
)

LEVELS = 4  # nodes of 8


def test_the_shapes_of_six_gpus_hold_those_that_the_paper_names() -> None:
    literal = shapes_of(6, LEVELS, returned=False, every=True)
    assert {(0, 0, 0, 1), (0, 1, 1, 0), (6, 0, 0, 0)} <= set(literal)
    assert literal[0] == (0, 0, 0, 1), "the one on fewest nodes is first"


def test_there_are_as_many_exact_sums_as_counted_by_hand() -> None:
    counts = [len(exact_shapes(gpus, LEVELS)) for gpus in range(1, 17)]
    assert counts == [1, 2, 2, 4, 4, 6, 6, 10, 10, 14, 14, 20, 20, 26, 26, 35]
    assert all(gpus_in(shape) == gpus for gpus in range(1, 17) for shape in exact_shapes(gpus, LEVELS))


def test_large_jobs_have_one_shape() -> None:
    assert shapes_of(17, LEVELS, every=True, returned=False) == ((0, 0, 0, 3),)
    assert shapes_of(17, LEVELS) == ((1, 0, 0, 2),)


def test_what_is_left_of_the_last_cell_is_given_back() -> None:
    found = {gpus: together(gpus, LEVELS) for gpus in (1, 2, 3, 4, 5, 6, 7, 8, 12, 13)}
    assert found == {
        1: (1, 0, 0, 0), 2: (0, 1, 0, 0), 3: (-1, 0, 1, 0), 4: (0, 0, 1, 0), 5: (-1, -1, 0, 1),
        6: (0, -1, 0, 1), 7: (-1, 0, 0, 1), 8: (0, 0, 0, 1), 12: (0, 0, 1, 1), 13: (-1, -1, 0, 2),
    }  # fmt: skip
    assert [nodes_of(found[gpus]) for gpus in (3, 6, 12, 13)] == [1, 1, 2, 2]


def test_friendly_jobs_leave_no_rest() -> None:
    assert [gpus for gpus in range(1, 33) if is_friendly(gpus)] == [1, 2, 4, 8, 16, 24, 32]
    assert [gpus for gpus in range(1, 9) if is_friendly(gpus, 4)] == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("taken", "free", "fit"),
    [
        ((0, 0, 2, 0), (0, 0, 0, 1), True),
        ((0, 1, 2, 0), (0, 0, 0, 1), False),
        ((0, 2, 0, 0), (4, 0, 0, 0), False),
        ((4, 0, 1, 0), (4, 0, 1, 0), True),
    ],
)
def test_equation_14(taken: Shape, free: Shape, fit: bool) -> None:
    assert fits([taken], free) is fit


def test_three_jobs_of_six_and_three_cells_of_two_fill_three_nodes_exactly() -> None:
    shapes = [(0, -1, 0, 1)] * 3 + [(0, 3, 0, 0)]
    assert [sum(usage(shape)[level] for shape in shapes) for level in range(LEVELS)] == [24, 12, 6, 3]
    assert fits(shapes, (0, 0, 0, 3))
    assert not fits([*shapes, (1, 0, 0, 0)], (0, 0, 0, 3))


def packed(jobs: Sequence[tuple[int, Shape]], free: Sequence[int]) -> bool:
    """Return whether jobs are placed one after another, the largest cells first."""
    left = {str(node): gpus for node, gpus in enumerate(free)}
    for gpus, shape in sorted(jobs, key=lambda job: job[1][::-1], reverse=True):
        found = place(gpus, shape, left)
        if found is None:
            return False
        assert sum(found.values()) == gpus
        for node, taken in found.items():
            left[node] -= taken
            assert left[node] >= 0
    return True


def test_powers_of_two_are_packed_just_when_equation_14_says_so() -> None:
    draw = random.Random(4)
    seen = set()
    for _ in range(2000):
        free = [draw.randint(0, 8) for _ in range(draw.randint(1, 4))]
        jobs = [(gpus, together(gpus, LEVELS)) for gpus in draw.choices([1, 2, 4, 8], k=draw.randint(1, 6))]
        promised = fits([shape for _, shape in jobs], free_cells(free, LEVELS).tolist())
        assert packed(jobs, free) is promised
        seen.add(promised)
    assert seen == {True, False}


def test_given_back_cells_promise_nothing_that_cannot_be_packed() -> None:
    kept = missed = 0
    for nodes in (1, 2):
        for count in range(1, 6):
            for sizes in itertools.combinations_with_replacement(range(1, 9), count):
                if sum(sizes) > 8 * nodes:
                    continue
                jobs = [(gpus, together(gpus, LEVELS)) for gpus in sizes]
                promised = fits([shape for _, shape in jobs], free_cells([8] * nodes, LEVELS).tolist())
                assert packed(jobs, [8] * nodes) or not promised, sizes
                kept += promised
                missed += not promised and packed(jobs, [8] * nodes)
    assert kept > 300
    assert missed > 0, "such as five and three GPUs of one node, which the condition does not see"


@pytest.mark.parametrize(("size", "levels"), [(1, 1), (2, 2), (4, 3), (6, 3), (8, 4), (16, 5)])
def test_nodes_of_any_size_have_cells_of_powers_of_two(size: int, levels: int) -> None:
    assert levels_of(size) == levels
    free = free_cells([size], levels)
    assert gpus_in(tuple(free.tolist())) == size
    assert fits([together(size, levels)], free.tolist())


def test_a_spread_job_lies_together_where_there_is_room() -> None:
    assert place(6, (6, 0, 0, 0), {"a": 6, "b": 2}) == {"a": 6}
    assert place(6, (6, 0, 0, 0), {"a": 5, "b": 2}) == {"b": 2, "a": 4}
    assert place(6, (0, 1, 1, 0), {"a": 5, "b": 1}) is None
