"""A job that was measured on one GPU type has a guess for the others, and none where it was measured."""

from __future__ import annotations

import pytest
from coadapt.estimators.guessed_types import relative_speeds, with_guesses

from tests.support.rounds import model


def test_speeds_are_those_that_were_measured_relative_to_a_t4() -> None:
    speeds = relative_speeds()
    assert speeds["t4"] == 1.0
    assert speeds["t4"] < speeds["rtx"] < speeds["v100"] < speeds["a100"] < 6.0


def test_a_type_without_measurements_is_taken_to_be_as_much_faster_as_for_others() -> None:
    known = model({"t4": 100.0})
    both = with_guesses(known, ["t4", "a100", "h9000"])
    one = {t: 1 / float(both.throughput[t].params.step_time_s(1, 1, 32)) for t in both.throughput}
    assert one["a100"] / one["t4"] == pytest.approx(relative_speeds()["a100"], rel=1e-6)
    assert one["h9000"] == pytest.approx(one["t4"]), "nothing is known of it"
    assert both.throughput["t4"] is known.throughput["t4"]
    assert both.gpus_per_replica["a100"] == known.gpus_per_replica["t4"]


def test_nothing_is_guessed_from_nothing_and_nothing_is_guessed_twice() -> None:
    known = model({"t4": 100.0})
    assert with_guesses(known, ["t4"]) is known
