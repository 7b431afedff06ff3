"""What a user relies on at full load, with jobs of all kinds: nothing is exceeded, everybody runs, and nobody is
slower than at its share.
"""

from __future__ import annotations

import numpy as np
import pytest
from coadapt.estimators.sensitivity.choices import Choices, choices
from coadapt.estimators.sensitivity.table import SpeedGrid, TabulatedSensitivity
from coadapt.policies.provisioning.mechanisms import Provisioning, mechanism_of
from coadapt.policies.provisioning.needs import Need
from coadapt.policies.provisioning.room import NodeRoom

from .support import check, provided, room, share_on

CPUS, MEMORY = np.array([1.0, 2, 3, 4, 6, 9, 12, 24]), np.array([10.0, 20, 40, 62.5, 125, 250])


def kinds(random: np.random.Generator, count: int) -> list[TabulatedSensitivity]:
    """Return random tables: some jobs follow CPUs, some memory, some both, and some neither."""
    found = []
    for _ in range(count):
        by_cpus = np.minimum(CPUS, random.choice(CPUS)) ** random.uniform(0.5, 1.0)
        by_memory = np.minimum(MEMORY / 10, random.choice(MEMORY) / 10) ** random.uniform(0.1, 1.0)
        mixed = np.minimum.outer(by_cpus, by_memory) + random.choice([0.0, 0.3]) * np.add.outer(by_cpus, by_memory)
        found.append(TabulatedSensitivity({1: SpeedGrid(CPUS, MEMORY, mixed)}))
    return found


def full_load(random: np.random.Generator) -> tuple[NodeRoom, list[Need]]:
    """Return nodes, and jobs that ask for all of their GPUs. Some run already, and some of these are pinned."""
    count = int(random.integers(1, 6))
    nodes = room(*[(8, float(random.choice([24, 32])), 500.0)] * count)
    tables = kinds(random, 4)
    known: dict[tuple[int, int], Choices] = {}
    left, needs = 8 * count, list[Need]()
    free = [8] * count
    while left:
        unit = int(random.choice([1, 1, 1, 2]))
        gpus = int(random.choice([1, 1, 1, 2, 4, 8, 16])) // unit * unit
        gpus, kind = min(max(gpus, unit), left), int(random.integers(4))
        if gpus % unit:
            unit = 1
        if (kind, gpus) not in known:
            saturation = float(random.choice([0.0, 0.05]))
            known[kind, gpus] = choices(tables[kind], gpus, share_on(nodes, gpus), saturation=saturation)
        before: list[tuple[int, int]] = []
        if random.random() < 0.6:
            rest = gpus
            for node in random.permutation(count).tolist():
                here = min(rest, free[node]) // unit * unit
                if here:
                    before.append((node, here))
                    rest -= here
            if rest:
                before = []
            for node, here in before:
                free[node] -= here
        pinned = bool(before) and unit == 1 and random.random() < 0.3
        needs.append(Need(f"j{len(needs)}", gpus, known[kind, gpus], unit, tuple(sorted(before)), pinned))
        left -= gpus
    return nodes, needs


def check_rounds(name: Provisioning, seeds: range) -> None:
    for seed in seeds:
        nodes, needs = full_load(np.random.default_rng(seed))
        if any(need.pinned for need in needs):  # whole replicas may not find room beside what stays
            needs = [need if need.unit == 1 else Need(need.job, need.gpus, need.choices) for need in needs]
        provided(mechanism_of(name), nodes, needs)
        check(nodes, needs)
        if all(need.unit == 1 for need in needs):
            assert set(nodes.held) == {need.job for need in needs}, seed
            assert not nodes.gpus.any()


@pytest.mark.parametrize("seeds", [range(900), pytest.param(range(900, 3000), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("name", [Provisioning.TUNE, Provisioning.PRICED])
def test_in_three_thousand_rounds_every_job_runs_and_none_is_slower_than_at_its_share(
    name: Provisioning, seeds: range
) -> None:
    check_rounds(name, seeds)


@pytest.mark.parametrize(("name", "rounds"), [(Provisioning.PROPORTIONAL, 150), (Provisioning.OPTIMAL, 20)])
def test_the_same_under_the_other_mechanisms_that_place_all(name: Provisioning, rounds: int) -> None:
    check_rounds(name, range(rounds))


def test_greedy_exceeds_nothing_and_skips_some() -> None:
    skipped = 0
    for seed in range(100):
        nodes, needs = full_load(np.random.default_rng(seed))
        provided(mechanism_of(Provisioning.GREEDY), nodes, needs)
        check(nodes, needs)
        skipped += len(needs) - len(nodes.held)
    assert skipped > 0
