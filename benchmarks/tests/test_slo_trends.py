"""Trends are stated of runs that are there, each once, and count as held by their figures."""

from __future__ import annotations

from coadapt.policies.catalogue import make_policy

from benchmarks.slo.trends import DENSITIES, Setting, settings, statements
from benchmarks.slo_trends import figures_of

RUN = {
    "miss_rate": 0.1, "be_jct_h": 5.0, "suspensions_deadline": 3.0, "suspensions_be": 1.0,
    "measuring_wait_max_s": 300.0,
}  # fmt: skip


def test_every_run_has_a_name_of_its_own_and_a_policy_that_can_be_made() -> None:
    every = settings()
    assert len({one.name for one in every}) == len(every)
    for one in every:
        make_policy(one.policy, **one.options)


def test_a_statement_needs_both_of_its_sides() -> None:
    assert statements({}) == []
    assert [one.what for one in statements({"density-1-published": RUN})] == []
    pair = {"density-1-published": RUN, "density-1-genie": {**RUN, "miss_rate": 0.2}}
    assert [(one.what, one.holds) for one in statements(pair)] == [("100%: misses over genie", True)]


def test_all_runs_give_all_statements_of_the_trends() -> None:
    every = {one.name.removesuffix(".json"): RUN for one in settings()}
    found = statements(every)
    assert {one.row for one in found} == {
        "6c", "6d", "8", "9a", "9b", "9c", "9d", "10a", "10b", "10c", "11", "12a", "12b",
    }  # fmt: skip
    assert len({(one.mix, one.what) for one in found}) == len(found)
    figures = figures_of(every)
    assert figures["statements"] == len(found)
    assert figures["statements_held"] == len(found) - 1, "no wait is 0.4 of itself"
    assert (figures["suspensions_slo"], figures["measuring_wait_over_static"]) == (3.0, 1.0)


def test_a_density_is_a_share_of_the_jobs() -> None:
    rules = {one.rule["density"] for one in settings() if one.trend == "density"}
    assert rules == set(DENSITIES)
    assert isinstance(settings()[0], Setting)
