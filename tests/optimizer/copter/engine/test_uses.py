"""Which requests use a resource is known also after many have come and gone."""

from __future__ import annotations

import numpy as np
from coadapt.optimizer.copter.engine.uses import FEW, Users, Uses


def uses(**parts: list[tuple[int, float]]) -> Uses:
    return Uses.of(
        [*parts],
        [(np.array([i for i, _ in part], np.int64), np.array([v for _, v in part])) for part in parts.values()],
    )


SIZES = np.array([2, 1, 3])  # variables of requests a, b, c
FOUND = uses(gpus=[(0, 1.0), (1, 2.0), (3, 4.0), (0, 8.0)], none=[], bytes=[(2, 5.0)])


def test_entries_are_of_the_rows_of_their_resources() -> None:
    column, row, value = FOUND.entries([7, 8, 9])
    assert column.tolist() == [0, 1, 3, 0, 2]
    assert row.tolist() == [7, 7, 7, 7, 9]
    assert value.tolist() == [1.0, 2.0, 4.0, 8.0, 5.0]


def test_users_of_each_resource_are_the_requests_of_its_variables() -> None:
    assert FOUND.users(["a", "b", "c"], SIZES) == [["a", "c", "a"], [], ["b"]]


def test_nothing_is_used_by_nobody() -> None:
    nothing = Uses.of([], [])
    assert [part.tolist() for part in nothing.entries([])] == [[], [], []]
    assert nothing.users(["a"], np.array([2])) == []


def test_those_that_left_are_forgotten_before_they_are_many() -> None:
    users, live = Users(), set[str]()
    for i in range(50 * FEW):
        live = {f"r{i}", f"r{i - 1}"}
        users.add([f"r{i}"], live)
        assert len(users._ids) <= FEW + 2 * 2 + 1
    assert users.among(live) == live
    assert users.among(set()) == set()
