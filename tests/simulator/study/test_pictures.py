"""Each picture is a PNG, drawn without a warning, also where a trace has little to show."""

from __future__ import annotations

import warnings

import pytest
from coadapt.simulator.study.pictures import pictures
from coadapt.simulator.traces.workload import TraceJob

from tests.support.studies import POOR, a_month, whole

KNOWS: dict[str, tuple[list[TraceJob], set[str]]] = {
    "all": (
        a_month(70),
        {"course", "hours", "months", "virtual_clusters", "lengths", "sizes", "final_states", "users"},
    ),
    "one month": (
        a_month(3), {"course", "hours", "virtual_clusters", "lengths", "sizes", "final_states", "users"}
    ),
    "applications only": (POOR["applications only"], {"course", "hours", "sizes"}),
    "three thousand years": (POOR["three thousand years"], {"lengths", "sizes"}),
}  # fmt: skip


@pytest.mark.parametrize(("jobs", "names"), KNOWS.values(), ids=KNOWS.keys())
def test_only_what_is_known_is_drawn(jobs: list[TraceJob], names: set[str]) -> None:
    assert set(dict(pictures(whole(jobs)))) == names


DRAWN: dict[str, tuple[list[TraceJob], dict[str, int] | None, str | None]] = {
    "much": (a_month(70), {"big": 64, "small": 64}, "2020-02-29 23:59:59"),
    "much, of an unknown cluster": (a_month(9), None, None),
    **{name: (jobs, {"": 64}, None) for name, jobs in POOR.items()},
}


@pytest.mark.parametrize(("jobs", "gpus", "began"), DRAWN.values(), ids=DRAWN.keys())
def test_pictures_are_drawn_without_a_warning(
    jobs: list[TraceJob], gpus: dict[str, int] | None, began: str | None
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(png.startswith(b"\x89PNG") for _, png in pictures(whole(jobs, gpus, began)))
