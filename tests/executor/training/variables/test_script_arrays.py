"""Arrays of a data set that training changes travel to whoever joins, written into or replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from coadapt.executor.training.variables import script_arrays
from coadapt.executor.training.variables.script_arrays import ARRAY, DataArrays, fits


class Inner:
    def __init__(self) -> None:
        self.weights = np.ones(4)


class Data:
    """A data set with labels, weights in an object of its own, and parts in a list."""

    def __init__(self) -> None:
        self.labels = torch.zeros(4)
        self.inner = Inner()
        self.parts = [torch.zeros(2), np.zeros(2)]
        self.pair = (torch.zeros(2), 3)
        self.model = torch.nn.Linear(2, 2)


def begun(data: Data) -> DataArrays:
    found = DataArrays({"dataset": data})
    found.begin()
    return found


def changes(data: Data, change: Callable[[Data], object]) -> dict[str, Any]:
    """Return what has changed, by path, as another process is sent it."""
    arrays = begun(data)
    change(data)
    return arrays.changed(set(), set())


def relabel(data: Data) -> None:
    data.labels[1] = 5


def replace_labels(data: Data) -> None:
    data.labels = torch.tensor([0.0, 5.0, 0.0, 0.0])


def reweigh(data: Data) -> None:
    data.inner.weights[0] = 0.5


def replace_weights(data: Data) -> None:
    data.inner.weights = np.array([0.5, 1, 1, 1])


def write_part(data: Data) -> None:
    data.parts[1][0] = 1


def replace_part(data: Data) -> None:
    data.parts[0] = torch.ones(2)


def write_pair(data: Data) -> None:
    data.pair[0].add_(1)


CHANGES = [
    (relabel, "dataset/labels"),
    (replace_labels, "dataset/labels"),
    (reweigh, "dataset/inner/weights"),
    (replace_weights, "dataset/inner/weights"),
    (write_part, "dataset/parts/1"),
    (replace_part, "dataset/parts/0"),
    (write_pair, "dataset/pair/0"),
]


@pytest.mark.parametrize(("change", "path"), CHANGES)
def test_what_training_changed_is_what_a_newcomer_has_after_it_was_put(
    change: Callable[[Data], None], path: str
) -> None:
    mine, theirs = Data(), Data()
    sent = changes(mine, change)
    assert list(sent) == [path]
    arrays = begun(theirs)
    arrays.put(path, sent[path][ARRAY])
    assert torch.equal(mine.labels, theirs.labels)
    assert np.array_equal(mine.inner.weights, theirs.inner.weights)
    assert np.array_equal(np.asarray(mine.parts[0]), np.asarray(theirs.parts[0]))
    assert np.array_equal(mine.parts[1], theirs.parts[1])
    assert torch.equal(mine.pair[0], theirs.pair[0])
    assert list(arrays.changed(set(), set())) == [path], "and goes on from here to others"


def test_what_stays_as_it_was_does_not_travel() -> None:
    assert changes(Data(), lambda data: data.labels.sum()) == {}


def test_an_equal_array_in_the_place_of_a_small_one_is_no_change() -> None:
    def again(data: Data) -> None:
        data.inner.weights = np.ones(4)

    assert changes(Data(), again) == {}


def test_labels_of_another_shape_or_type_take_the_place_of_the_old_ones() -> None:
    def soften(data: Data) -> None:
        data.labels = torch.full((4, 3), 1 / 3, dtype=torch.float64)

    mine, theirs = Data(), Data()
    sent = changes(mine, soften)
    arrays = begun(theirs)
    arrays.put("dataset/labels", sent["dataset/labels"][ARRAY])
    assert torch.equal(theirs.labels, mine.labels)


def test_what_is_sent_is_a_copy() -> None:
    data = Data()
    sent = changes(data, relabel)
    data.labels[1] = 9
    assert sent["dataset/labels"][ARRAY].tolist() == [0, 5, 0, 0]


def test_what_travels_otherwise_is_left_to_that_and_models_are_no_data() -> None:
    data = Data()
    arrays = begun(data)
    relabel(data)
    with torch.no_grad():
        data.model.weight.zero_()
    assert arrays.changed({id(data.labels)}, set()) == {}


def test_what_is_too_large_to_travel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_arrays, "MOST_BYTES", 8)
    data, named = Data(), set[str]()
    arrays = begun(data)
    relabel(data)
    assert arrays.changed(set(), named) == {}
    assert named == {"dataset.labels"}


def test_an_array_too_large_to_compare_travels_where_it_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_arrays, "MOST_COMPARED", 8)
    assert list(changes(Data(), replace_weights)) == ["dataset/inner/weights"]
    assert changes(Data(), lambda data: None) == {}


def read_only() -> np.ndarray:
    array = np.zeros(2)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("mine", "value", "expected"),
    [
        (torch.zeros(2), torch.ones(2), True),
        (torch.zeros(2), torch.ones(3), False),
        (torch.zeros(2), torch.ones(2, dtype=torch.int64), False),
        (torch.zeros(2), np.ones(2), False),
        (torch.zeros(1).expand(2), torch.ones(2), False),
        (torch.zeros(2, requires_grad=True), torch.ones(2), False),
        (np.zeros(2), np.ones(2), True),
        (np.zeros(2), np.ones(2, np.float32), False),
        (read_only(), np.ones(2), False),
        (3, 4, False),
    ],
)
def test_a_value_is_written_only_where_it_fits(mine: Any, value: Any, expected: bool) -> None:
    assert fits(mine, value) is expected
