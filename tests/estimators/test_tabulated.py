"""A tabulated goodput is what stands in the table, and mixes with fitted models in one matrix."""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.goodput import ConfigurationArrays, GoodputModel, goodput_matrix, goodput_on
from coadapt.estimators.tabulated import ANY_NODES, TabulatedConfigurations, TabulatedModel, scaled
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.rounds import model as fitted

TYPES = ("a", "b", "c")
SHAPES = [(1, 1), (1, 2), (1, 4), (2, 8), (3, 12), (1, 8)]
CONFIGURATIONS = ConfigurationArrays(
    TYPES,
    np.full(3, 4),
    np.repeat(np.arange(3), len(SHAPES)),
    np.tile([n for n, _ in SHAPES], 3),
    np.tile([r for _, r in SHAPES], 3),
)
SMALL = TabulatedConfigurations((("a", 1, 1), ("a", 2, 8), ("b", ANY_NODES, 8), ("x", 1, 1), ("b", 1, 8)))

items = st.tuples(st.sampled_from([*TYPES, "x"]), *[st.integers(0, 3), st.sampled_from([4, 8, 12])])


@st.composite
def tabulated(draw: st.DrawFn) -> TabulatedModel:
    found = draw(st.lists(items, min_size=1, max_size=8, unique=True))
    goodput = draw(st.lists(st.floats(0, 1e9), min_size=len(found), max_size=len(found)))
    return TabulatedModel(TabulatedConfigurations(tuple(found)), np.array(goodput))


models = st.none() | tabulated() | st.builds(lambda speed: fitted({"a": speed, "c": 3.0}), st.floats(1, 100))


def row(model: GoodputModel | None) -> np.ndarray:
    return goodput_matrix([model], CONFIGURATIONS)[0]


def test_a_configuration_has_the_goodput_of_its_type_nodes_and_gpus() -> None:
    found = row(TabulatedModel(SMALL, np.array([1.0, 2.0, 3.0, 4.0, 5.0])))
    expected = np.zeros((3, len(SHAPES)))
    expected[0, 0] = 1.0
    expected[0, 3] = 2.0  # eight on two nodes, and nothing for eight on one
    expected[1, 3] = 3.0  # any number of nodes
    expected[1, 5] = 5.0  # but that of the very number comes first
    assert found.reshape(3, -1).tolist() == expected.tolist()


@settings(max_examples=100)
@given(st.lists(models, max_size=8), st.data())
def test_models_of_every_kind_together_are_as_each_alone(
    jobs: list[GoodputModel | None], data: st.DataObject
) -> None:
    if jobs:  # a model may be several jobs'
        jobs.append(data.draw(st.sampled_from(jobs)))
    together = goodput_matrix(jobs, CONFIGURATIONS)
    assert together.shape == (len(jobs), len(CONFIGURATIONS))
    for job, found in zip(jobs, together, strict=True):
        assert found.tolist() == row(job).tolist()


@given(tabulated(), st.floats(0.1, 10))
def test_scaling_a_model_scales_its_goodput_and_leaves_it_as_it_was(model: TabulatedModel, factor: float) -> None:
    before = row(model)
    assert row(scaled(model, factor)).tolist() == pytest.approx((before * factor).tolist())
    each = np.linspace(0.5, 2, len(model.goodput))
    assert scaled(model, each).goodput.tolist() == (model.goodput * each).tolist()
    assert row(model).tolist() == before.tolist()


def test_a_fixed_size_is_looked_up_on_as_few_nodes_as_hold_it() -> None:
    model = TabulatedModel(SMALL, np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert goodput_on(model, "a", 8, 4) == 2.0
    assert goodput_on(model, "a", 8, 8) == 0.0  # measured on two nodes only
    assert goodput_on(model, "b", 8, 4) == 3.0
    assert goodput_on(model, "c", 8, 4) == 0.0


def test_other_configurations_are_looked_up_anew() -> None:
    model = TabulatedModel(SMALL, np.arange(1.0, 6.0))
    first = row(model)
    one = ConfigurationArrays(("b",), np.array([8]), np.array([0]), np.array([1]), np.array([8]))
    assert goodput_matrix([model], one).tolist() == [[5.0]]
    assert row(model).tolist() == first.tolist()


def test_a_model_does_not_change_with_the_array_it_was_made_of() -> None:
    goodput = np.arange(1.0, 6.0)
    model = TabulatedModel(SMALL, goodput)
    goodput[:] = 0
    assert model.goodput.tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="read-only"):
        model.goodput[0] = 7.0


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ([("a", 1, 2), ("a", 1, 2)], r"\('a', 1, 2\) stands twice"),
        ([("a", 4, 2)], "2 a on 4 nodes"),
        ([("a", -1, 2)], "2 a on -1 nodes"),
        ([("a", 0, 0)], "0 a on 0 nodes"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_sentence(items: list[tuple[str, int, int]], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        TabulatedConfigurations(tuple(items))


@pytest.mark.parametrize("goodput", [[1.0] * 4, [[1.0] * 5], [1, 2, 3, 4, -1], [1, 2, 3, 4, np.nan], [np.inf] * 5])
def test_a_wrong_goodput_is_told(goodput: list[float]) -> None:
    with pytest.raises(ValueError, match=r"^goodput: "):
        TabulatedModel(SMALL, np.array(goodput))
