"""What is stated of jobs with deadlines is counted from means, and 0 over 0 is no fault."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks.slo import page
from benchmarks.slo.runs import Run
from benchmarks.slo.statements import over, statements
from benchmarks.slo_evaluation import PAGE, figures_of, means_of

FIGURES = {
    "miss_rate": 0.1, "be_jct_h": 10.0, "deadline_jct_h": 5.0, "suspensions_deadline": 2.0, "suspensions_be": 1.0,
    "policy_p99_s": 1.0, "trace_min": 5.0, "jobs": 4000.0, "load": 1.1,
}  # fmt: skip


def done(**rates: float) -> dict[Run, dict[str, float]]:
    return {Run("p_mix1", policy, 0, 1): {**FIGURES, "miss_rate": rate} for policy, rate in rates.items()}


@pytest.mark.parametrize(("own", "other", "ratio"), [(0, 0, 1.0), (1, 2, 0.5), (1, 0, math.inf)])
def test_a_ratio_of_two_that_miss_nothing_is_one(own: float, other: float, ratio: float) -> None:
    assert over(own, other) == ratio


def test_a_statement_counts_where_both_sides_were_run() -> None:
    means = means_of(done(unisched=0.01, themis=0.2, hydra=0.02))
    held = {one.what: one.holds for one in statements(means) if one.counts}
    assert held["misses over themis"]
    assert held["misses over hydra"]
    assert not held["best effort over hydra"]
    assert "misses over optimus" not in held
    figures = figures_of(means)
    assert figures["p_mix1/miss_over_themis"] == pytest.approx(0.05)
    assert figures["p_mix1/miss_over_best_deadline_peer"] == pytest.approx(0.5)
    assert figures["statements"] > figures["statements_held"]


def test_seeds_are_averaged() -> None:
    runs = {Run("h_mix1", "laxity", 0, 1, seed): {**FIGURES, "miss_rate": float(seed)} for seed in range(3)}
    assert means_of(runs)["h_mix1"]["laxity"]["miss_rate"] == 1.0


def test_a_row_of_the_page_names_its_load_and_what_is_not_held() -> None:
    means = means_of(done(unisched=0.4, laxity=0.1))
    text = page.statements(statements(means), {"p_mix1": 1.15})
    assert "| p_mix1 | 1.15 | misses less those of laxity |  | ≤ 0.0005 | 0.3 | **no** |" in text
    assert "**p_mix1**: 4,000 jobs, load 1.10" in page.mixes(means)


def test_the_page_has_the_markers() -> None:
    text = Path(PAGE).read_text()
    assert all(f"<!-- {key} -->" in text for key in ("machine", "mixes", "statements"))
