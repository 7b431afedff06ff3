"""Views of a round's jobs are made when they are asked for, each once."""

from __future__ import annotations

import pytest
from coadapt.policies.contract.round import JobColumns, JobView, Round
from coadapt.simulator.engine.views import Views

from tests.support.rounds import cluster, rigid

JOBS = [rigid(id) for id in "abc"]


@pytest.fixture
def made() -> list[int]:
    return []


@pytest.fixture
def views(made: list[int]) -> Views:
    def make(at: int) -> JobView:
        made.append(at)
        return JOBS[at]

    return Views(JobColumns.of(JOBS), make)


def test_a_view_is_made_once_and_only_when_somebody_looks(views: Views, made: list[int]) -> None:
    assert len(views) == 3
    assert made == []
    assert views[1] is views[1] is JOBS[1]
    assert [view.id for view in views] == ["a", "b", "c"]
    assert made == [1, 0, 2]


def test_positions_from_the_end_and_slices_are_the_same_views(views: Views, made: list[int]) -> None:
    assert views[-1] is views[2]
    assert views[1:] == JOBS[1:]
    assert list(reversed(views)) == JOBS[::-1]
    assert sorted(made) == [0, 1, 2]


@pytest.mark.parametrize("at", [3, -4])
def test_a_position_that_there_is_not_is_refused(views: Views, at: int) -> None:
    with pytest.raises(IndexError, match=f"job: {at} of 3"):
        views[at]


def test_a_round_takes_its_columns_from_its_views_and_makes_none(views: Views, made: list[int]) -> None:
    round = Round(0.0, 60.0, cluster("1x t4:4"), views)
    assert round.columns is views.columns
    assert made == []
