"""Options of UniSched: variants set others, which then are refused, and so is what has no effect."""

from __future__ import annotations

from typing import Any

import pytest
from coadapt.policies.catalogue import make_policy
from coadapt.policies.leases.options import VARIANTS, UniSchedOptions


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"variant": "chronus", "sr_aware": True},
            "sr_aware: goes without variant=chronus, which",
        ),
        ({"variant": "chronus+selector", "profiler": "static"}, "profiler: goes without variant=chronus"),
        ({"variant": "chronus", "urgent_s": 60}, "urgent_s: goes without published"),
        ({"variant": "chronos"}, "variant"),
        ({"published": True, "upper_end": True}, "upper_end: goes without published"),
        ({"published": True, "least_speed": 0.8}, "least_speed: goes without published"),
        ({"measuring_nodes": 3}, "measuring_nodes: goes with profiler=static"),
        ({"selection": "sequential"}, "selection: sequential goes with published"),
    ],
)
def test_what_has_no_effect_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make_policy("unisched", **options)


def test_chronus_differs_from_its_successor_by_an_estimator_and_a_selector() -> None:
    both = {"iter_estimator", "sr_aware"}, {"profiler", "selection", "placement", "returned"}
    whole = UniSchedOptions(published=True)
    found = {name: UniSchedOptions.model_validate({"variant": name}) for name in VARIANTS if name != "unisched"}
    for name, options in found.items():
        changed = {key for key in set().union(*both) if getattr(options, key) != getattr(whole, key)}
        assert options.published
        assert options.counts_for_nothing
        assert changed == set().union(*(one for one, own in zip(both, ("estimator", "selector"), strict=True)
                                        if own not in name))  # fmt: skip


def test_measuring_counts_for_nothing_only_as_published() -> None:
    assert not UniSchedOptions().counts_for_nothing
    assert UniSchedOptions(published=True).counts_for_nothing
    assert not UniSchedOptions(published=True, profile="trained").counts_for_nothing
    assert UniSchedOptions(profile="published").counts_for_nothing
