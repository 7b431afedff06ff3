"""Proposals are the same for the same seed and trials, and the learning ones come closer to the best."""

from __future__ import annotations

import math

import pytest
from coadapt.tuning.proposals import Tried, propose, wave_of
from coadapt.tuning.space import read

SPACE = read({"lr": {"log": [0.001, 1.0]}, "momentum": {"uniform": [0.5, 0.99]}})


def quality(values: object) -> float:
    lr = float(values["lr"])  # type: ignore[index]
    return -abs(math.log10(lr) + 2)


@pytest.mark.parametrize("algorithm", ["random", "tpe", "gp", "asha"])
def test_the_same_trials_and_seed_give_the_same_proposals(algorithm: str) -> None:
    tried = [Tried(one, quality(one), True) for one in propose("random", SPACE, "max", 5, [], 4)]
    first = propose(algorithm, SPACE, "max", 3, tried, 2)
    assert first == propose(algorithm, SPACE, "max", 3, tried, 2)
    assert first != propose(algorithm, SPACE, "max", 4, tried, 2)


def test_later_random_trials_are_not_those_of_before() -> None:
    first = propose("random", SPACE, "max", 0, [], 5)
    later = propose("random", SPACE, "max", 0, [Tried(one) for one in first], 5)
    assert not {one["lr"] for one in first} & {one["lr"] for one in later}


@pytest.mark.parametrize("mode", ["max", "min"])
def test_tpe_comes_closer_to_the_best_than_chance(mode: str) -> None:
    sign = 1 if mode == "max" else -1
    tried: list[Tried] = []
    for _ in range(6):
        found = propose("tpe", SPACE, mode, 0, tried, 8)
        tried += [Tried(one, sign * quality(one), True) for one in found]
    late = [abs(quality(one.values)) for one in tried[-16:]]
    early = [abs(quality(one.values)) for one in tried[:16]]
    assert sum(late) < 0.6 * sum(early)


def test_trials_that_run_or_failed_are_told_too() -> None:
    tried = [Tried(one) for one in propose("random", SPACE, "max", 0, [], 10)]
    tried += [Tried(one, None, True) for one in propose("random", SPACE, "max", 1, [], 10)]
    assert len(propose("tpe", SPACE, "max", 0, tried, 3)) == 3


def test_no_trial_is_proposed_twice_until_the_space_is_used_up() -> None:
    space = read({"a": {"choice": [1, 2, 3]}, "b": {"int": [1, 4]}})
    found = propose("random", space, "max", 0, [], 12)
    assert len({tuple(one.items()) for one in found}) == 12
    assert len(propose("random", space, "max", 0, [Tried(one) for one in found], 2)) == 2


def test_a_wave_is_an_eighth_of_the_trials() -> None:
    assert [wave_of(160, None), wave_of(16, None), wave_of(4, None), wave_of(100, 30)] == [20, 8, 4, 30]
