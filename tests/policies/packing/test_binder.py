"""Who may be beside whom on a GPU (Lucid, section 4.3.2)."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest
from coadapt.policies.packing.binder import (
    CAPACITY,
    Facts,
    ModeOptions,
    Packing,
    Partner,
    Rules,
    chosen,
    mode,
    partners,
)


def facts(id: str = "a", gpus: int = 1, score: int | None = 0, gib: float = 1.0, left_s: float = 100.0) -> Facts:
    return Facts(id, gpus, score, gib, left_s, left_s)


RULES = Rules(CAPACITY[Packing.DEFAULT], gpu_memory_gib={"t4": 24.0})


@pytest.mark.parametrize(
    ("packing", "pairs"),
    [(Packing.DEFAULT, "00 01 02 11"), (Packing.APATHETIC, "00 01"), (Packing.OFF, "")],
)
def test_scores_fit_the_capacity_of_a_gpu(packing: Packing, pairs: str) -> None:
    rules = Rules(CAPACITY[packing])
    fits = [
        f"{a}{b}"
        for a, b in combinations_with_replacement(range(3), 2)
        if rules.refuses(facts(score=a), facts("b", score=b), "t4") is None
    ]
    assert " ".join(fits) == pairs


@pytest.mark.parametrize(
    ("new", "old", "told"),
    [
        (facts(gib=14), facts("b", gib=11), "both need 25.0 GiB of 24.0 GiB"),
        (facts(gib=14), facts("b", gib=9), None),
        (facts(), facts("b", gpus=2), "it has 2 GPUs and not 1"),
        (facts(gpus=8, score=1, gib=10), facts("b", gpus=8, score=1, gib=10), None),
        (facts(left_s=100), facts("b", left_s=49), "it is about to end"),
        (facts(left_s=100), facts("b", left_s=51), None),
        (facts(score=None), facts("b"), "the job's use is not known yet"),
        (facts(), facts("b", score=None), "its use of GPUs is not known yet"),
    ],
)
def test_the_rules_of_a_pair(new: Facts, old: Facts, told: str | None) -> None:
    assert RULES.refuses(new, old, "t4") == told


def test_memory_of_a_type_that_is_not_known_is_no_limit() -> None:
    assert RULES.refuses(facts(gib=99), facts("b", gib=99), "k9000") is None


def test_nobody_is_a_partner_where_nothing_is_shared() -> None:
    assert partners(facts(), [(facts("b"), "t4")], Rules(CAPACITY[Packing.OFF])) == []


def test_which_partner_a_job_gets() -> None:
    found = [facts("first", score=1, left_s=10), facts("light", left_s=20), facts("longest", left_s=30)]
    assert chosen(found, Partner.FIRST, {}).id == "first"
    assert chosen(found, Partner.LIGHTEST, {}).id == "longest"
    assert chosen(found, Partner.FASTEST, {"first": 0.9, "light": 0.95, "longest": 0.9}).id == "light"


@pytest.mark.parametrize(
    ("now", "ahead", "found"),
    [(1, 1, Packing.OFF), (3, 3, Packing.APATHETIC), (1, 9, Packing.DEFAULT), (20, 1, Packing.DEFAULT)],
    ids=["low and flat", "low", "low but rising", "high"],
)
def test_how_much_is_shared_goes_by_what_arrives(now: float, ahead: float, found: Packing) -> None:
    assert mode(now, ahead, ModeOptions()) is found


def test_the_published_mode_goes_by_the_forecast_alone() -> None:
    options = ModeOptions(forecast_only=True)
    assert mode(50, 2.0, options) is Packing.OFF
    assert mode(0, 2.1, options) is Packing.DEFAULT
